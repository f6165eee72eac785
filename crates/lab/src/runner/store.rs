//! Finished points on disk: a file of JSON lines that is only appended to, by one run at a time.
//!
//! The first line marks the file as ours. Every other line is a point with the fingerprint of everything that
//! defines its outcome: its key, the seed, and the program that measured it. An interruption or a full disk
//! leaves a line without its end, which is cut off. A line that is no point is skipped, with a warning: a run
//! measures its point anew.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Outcomes, RunError, at};
use crate::experiments::AnyOutcome;

/// Its name.
pub(super) const FILE: &str = "points.jsonl";
const HEADER: &str = "{\"stripewise_lab_points\":1}\n";

/// A line.
#[derive(Serialize, Deserialize)]
struct Finished {
    #[serde(flatten)]
    origin: Origin,
    outcome: AnyOutcome,
}

/// What every build writes, whatever its outcomes look like.
#[derive(Clone, Serialize, Deserialize)]
struct Origin {
    key: String,
    seed: u64,
    program: String,
}

/// The part of a file that belongs to a program.
#[derive(Default)]
pub(super) struct Found {
    /// The finished points of the seed that was asked for.
    pub(super) outcomes: Outcomes,
    /// Those of other seeds.
    pub(super) others: BTreeMap<u64, Outcomes>,
    /// Warnings about skipped lines.
    pub(super) warnings: Vec<String>,
}

/// Stores finished points. The file is locked as long as this exists.
pub(super) struct Store {
    path: PathBuf,
    /// None after a write has failed.
    file: Mutex<Option<File>>,
    seed: u64,
    program: String,
}

/// The finished points of a folder with this program; those of this seed apart from others.
pub(super) fn read(folder: &Path, seed: u64, program: &str) -> Result<Found, RunError> {
    let path = folder.join(FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::default()),
        read => found(&path, whole_lines(&read.map_err(at(&path))?), seed, program),
    }
}

/// Whether a folder's file is one of ours, or the beginning of one.
pub(super) fn is_ours(folder: &Path) -> Result<bool, RunError> {
    let path = folder.join(FILE);
    let mut begin = Vec::new();
    let opened = File::open(&path).and_then(|file| file.take(HEADER.len() as u64).read_to_end(&mut begin));
    opened.map_err(at(&path))?;
    Ok(!begin.is_empty() && HEADER.as_bytes().starts_with(&begin))
}

/// The bytes up to the end of the last complete line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // A torn line is our header or one of our points; any other file without a line's end is foreign.
    if end == 0 && !HEADER.as_bytes().starts_with(bytes) { bytes } else { &bytes[..end] }
}

fn found(path: &Path, lines: &[u8], seed: u64, program: &str) -> Result<Found, RunError> {
    let mut found = Found::default();
    if lines.is_empty() {
        return Ok(found);
    }
    let Some(lines) = lines.strip_prefix(HEADER.as_bytes()) else {
        return Err(RunError::Foreign { path: path.to_owned() });
    };
    for (index, line) in lines.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        match point(line, program) {
            Ok(Some(Finished { origin, outcome })) => {
                let own = origin.seed == seed;
                let of =
                    if own { &mut found.outcomes } else { found.others.entry(origin.seed).or_default() };
                of.insert(origin.key, outcome);
            }
            Ok(None) => {}
            // The header is line 1.
            Err(error) => found.warnings.push(format!(
                "{}, line {}: passed over, it is damaged ({error}); the next run measures its point if no other line has it; the line may be removed",
                path.display(),
                index + 2
            )),
        }
    }
    Ok(found)
}

/// A line's point, if it has this program: points of another build need not look like today's.
fn point(line: &[u8], program: &str) -> serde_json::Result<Option<Finished>> {
    let origin: Origin = serde_json::from_slice(line)?;
    if origin.program != program {
        return Ok(None);
    }
    serde_json::from_slice(line).map(Some)
}

impl Store {
    /// Opens a folder's file for appending, and locks it; cuts off an incomplete last line. Also returns the
    /// finished points of this program.
    pub(super) fn open(folder: &Path, seed: u64, program: &str) -> Result<(Self, Found), RunError> {
        let path = folder.join(FILE);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(&path).map_err(at(&path))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => RunError::Busy { folder: folder.to_owned() },
            TryLockError::Error(error) => at(&path)(error),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at(&path))?;
        let whole = whole_lines(&bytes);
        let found = found(&path, whole, seed, program)?;
        if whole.len() < bytes.len() {
            file.set_len(whole.len() as u64).map_err(at(&path))?;
        }
        if whole.is_empty() {
            append(&mut file, HEADER).map_err(at(&path))?;
        }
        let store = Self { path, file: Mutex::new(Some(file)), seed, program: program.to_owned() };
        Ok((store, found))
    }

    /// Keeps a point. After an error nothing more is kept: lines after a torn one would be lost with it.
    pub(super) fn keep(&self, key: &str, outcome: &AnyOutcome) -> Result<(), RunError> {
        let origin = Origin { key: key.to_owned(), seed: self.seed, program: self.program.clone() };
        let finished = Finished { origin, outcome: outcome.clone() };
        let line = serde_json::to_string(&finished).expect("plain fields") + "\n";
        let mut file = self.file.lock();
        let Some(open) = file.as_mut() else { return Ok(()) };
        let kept = append(open, &line);
        if kept.is_err() {
            *file = None;
        }
        kept.map_err(at(&self.path))
    }
}

/// Appends a line, or nothing: after an error it cuts off the written part again, as far as possible.
fn append(file: &mut File, line: &str) -> io::Result<()> {
    let before = file.metadata()?.len();
    file.write_all(line.as_bytes()).inspect_err(|_| {
        let _ = file.set_len(before);
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn outcome() -> AnyOutcome {
        let text = "{\"pass_bytes\":[1],\"pass_ns\":[2],\"requests\":3,\"errors\":0,\"latency_mean_ns\":0,\
                    \"latency_p50_ns\":0,\"latency_p99_ns\":0,\"latency_p999_ns\":0,\"latency_max_ns\":0,\"rows_full\":0,\
                    \"rows_rmw\":0,\"rows_rcw\":0,\"stripe_writes\":0,\"stripe_writes_full\":0,\"members\":[]}";
        serde_json::from_str(text).unwrap()
    }

    fn open(folder: &Path) -> (Store, Vec<String>, Vec<String>) {
        let (store, found) = Store::open(folder, 1, "me").unwrap();
        (store, found.outcomes.into_keys().collect(), found.warnings)
    }

    /// A file with the points a, b and c, and its text.
    fn three(folder: &Path) -> String {
        let (store, ..) = open(folder);
        for key in ["a", "b", "c"] {
            store.keep(key, &outcome()).unwrap();
        }
        fs::read_to_string(folder.join(FILE)).unwrap()
    }

    #[test]
    fn one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (store, ..) = open(folder.path());
        store.keep("a", &outcome()).unwrap();
        let told = Store::open(folder.path(), 1, "me").map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("another run is at work there"), "{told}");
        assert_eq!(read(folder.path(), 1, "me").unwrap().outcomes.len(), 1, "it can be looked at meanwhile");
        drop(store);
        assert_eq!(open(folder.path()).1, ["a"]);
    }

    #[test]
    fn a_damaged_line_costs_its_own_point_only() {
        let folder = tempfile::tempdir().unwrap();
        let text = three(folder.path());
        let second: usize = text.lines().take(2).map(|line| line.len() + 1).sum();
        let damaged = format!("{}\u{0}{}", &text[..second], &text[second + 1..]);
        fs::write(folder.path().join(FILE), &damaged).unwrap();
        let (store, keys, warnings) = open(folder.path());
        assert_eq!(keys, ["a", "c"]);
        assert!(warnings.len() == 1 && warnings[0].contains("line 3"), "{warnings:?}");
        store.keep("b", &outcome()).unwrap();
        drop(store);
        assert_eq!(open(folder.path()).1, ["a", "b", "c"]);
    }

    #[test]
    fn a_line_that_a_full_disk_tore_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let text = three(folder.path());
        for torn in [1, 20, text.lines().last().unwrap().len()] {
            fs::write(folder.path().join(FILE), &text[..text.len() - torn]).unwrap();
            let (store, keys, warnings) = open(folder.path());
            assert_eq!((keys.len(), warnings.len()), (2, 0), "{torn} bytes are missing");
            store.keep("c", &outcome()).unwrap();
            drop(store);
            assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
        }
        fs::write(folder.path().join(FILE), &HEADER[..9]).unwrap();
        assert!(open(folder.path()).1.is_empty());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), HEADER);
    }

    #[test]
    fn points_of_other_seeds_stand_apart() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 1..=3 {
            let (store, _) = Store::open(folder.path(), seed, "me").unwrap();
            store.keep(&format!("of {seed}"), &outcome()).unwrap();
        }
        let found = read(folder.path(), 2, "me").unwrap();
        assert!(found.outcomes.into_keys().eq(["of 2"]));
        let others = found.others.into_iter().map(|(seed, outcomes)| (seed, outcomes.len()));
        assert!(others.eq([(1, 1), (3, 1)]));
        assert!(read(folder.path(), 2, "another build").unwrap().others.is_empty());
    }

    #[test]
    fn points_of_other_builds_may_look_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let other = "{\"key\":\"x\",\"seed\":1,\"program\":\"before\",\"outcome\":{\"speed\":3}}\n";
        fs::write(folder.path().join(FILE), three(folder.path()) + other).unwrap();
        let (_store, keys, warnings) = open(folder.path());
        assert_eq!((keys.len(), warnings), (3, vec![]));
    }
}
