//! Finished points on disk: a file of JSON lines that is only appended to.
//!
//! The first line says whose file it is. Every other is a point with the fingerprint of everything that makes its outcome what
//! it is: its key, the seed, and the program that measured it. A line without its end is what an interruption leaves,
//! and is cut off; anything else that is not a point is an error.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Outcomes, RunError, at};
use crate::point::Outcome;

const FILE: &str = "points.jsonl";
const HEADER: &str = "{\"stripewise_lab_points\":1}\n";

/// A line.
#[derive(Serialize, Deserialize)]
struct Finished {
    key: String,
    seed: u64,
    program: String,
    outcome: Outcome,
}

/// Where finished points go.
pub(super) struct Store {
    path: PathBuf,
    file: Mutex<File>,
    seed: u64,
    program: String,
}

/// The finished points of a folder that have this seed and are of this program.
pub(super) fn read(folder: &Path, seed: u64, program: &str) -> Result<Outcomes, RunError> {
    let path = folder.join(FILE);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(at(&path))?,
    };
    let mine = finished(&path, whole_lines(&bytes))?.into_iter();
    let mine = mine.filter(|point| point.seed == seed && point.program == program);
    Ok(mine.map(|point| (point.key, point.outcome)).collect())
}

/// Up to the end of the last line that has one.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // What is torn is the header or a point of ours; any other file without a line's end is foreign.
    if end == 0 && !HEADER.as_bytes().starts_with(bytes) { bytes } else { &bytes[..end] }
}

fn finished(path: &Path, lines: &[u8]) -> Result<Vec<Finished>, RunError> {
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let Some(lines) = lines.strip_prefix(HEADER.as_bytes()) else {
        return Err(RunError::Foreign { path: path.to_owned() });
    };
    let lines = lines.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let parsed = lines.map(|(index, line)| {
        serde_json::from_slice(line).map_err(|error| {
            // The header is line 1.
            RunError::Damaged { path: path.to_owned(), line: index + 2, what: error.to_string() }
        })
    });
    parsed.collect()
}

impl Store {
    /// Opens a folder's file for appending; what an interruption left of a line is cut off.
    pub(super) fn open(folder: &Path, seed: u64, program: &str) -> Result<Self, RunError> {
        let path = folder.join(FILE);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(&path).map_err(at(&path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at(&path))?;
        let whole = whole_lines(&bytes).len();
        file.set_len(whole as u64).map_err(at(&path))?;
        if whole == 0 {
            file.write_all(HEADER.as_bytes()).map_err(at(&path))?;
        }
        Ok(Self { path, file: Mutex::new(file), seed, program: program.to_owned() })
    }

    /// Keeps a point: with one write, so that it is there as a whole or not.
    pub(super) fn keep(&self, key: &str, outcome: &Outcome) -> Result<(), RunError> {
        let finished = Finished {
            key: key.to_owned(),
            seed: self.seed,
            program: self.program.clone(),
            outcome: outcome.clone(),
        };
        let line = serde_json::to_string(&finished).expect("plain fields") + "\n";
        self.file.lock().write_all(line.as_bytes()).map_err(at(&self.path))
    }
}
