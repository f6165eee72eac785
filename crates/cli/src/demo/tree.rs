//! A real tree of files to copy: what lies under a folder, up to a number of bytes.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use xxhash_rust::xxh3::Xxh3;

use super::story::Story;

/// The most folders to look into: a bound for huge trees.
const FOLDERS_MAX: usize = 20_000;
/// Files larger than this are skipped: many small ones say more.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// The size of the files that are made if there are too few real ones.
const MADE_FILE_BYTES: u64 = 4 << 20;

/// One file, with its checksum.
pub(super) struct TreeFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) checksum: u128,
}

/// Files to copy.
pub(super) struct Tree {
    pub(super) files: Vec<TreeFile>,
}

impl Tree {
    /// Gathers files of at least `bytes` in all. If the folder has too few, makes the rest in `scratch`.
    pub(super) fn gather(root: &Path, bytes: u64, scratch: &Path, story: &Story) -> anyhow::Result<Self> {
        let mut tree = Self { files: Vec::new() };
        let mut folders = vec![root.to_owned()];
        let mut seen = 0;
        while let Some(folder) = folders.pop()
            && tree.bytes() < bytes
            && seen < FOLDERS_MAX
        {
            story.check()?;
            seen += 1;
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() && tree.bytes() < bytes => tree.take(entry.path()),
                    _ => {}
                }
            }
        }
        while tree.bytes() < bytes {
            story.check()?;
            let path = scratch.join(format!("made{}", tree.files.len()));
            make_file(&path).with_context(|| path.display().to_string())?;
            tree.take(path);
        }
        Ok(tree)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Adds a file if it can be read and is not too large.
    fn take(&mut self, path: PathBuf) {
        if path.metadata().is_ok_and(|m| (1..=FILE_BYTES_MAX).contains(&m.len()))
            && let Ok((bytes, checksum)) = checksum_of(&path)
        {
            self.files.push(TreeFile { path, bytes, checksum });
        }
    }
}

fn make_file(path: &Path) -> io::Result<()> {
    let mut content = vec![0; MADE_FILE_BYTES as usize];
    fastrand::Rng::new().fill(&mut content);
    File::create(path)?.write_all(&content)
}

/// Length and XXH3-128 of a file.
pub(super) fn checksum_of(path: &Path) -> io::Result<(u64, u128)> {
    let mut file = File::open(path)?;
    let mut hash = Xxh3::new();
    let mut buf = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buf)?;
        if read == 0 {
            return Ok((bytes, hash.digest128()));
        }
        hash.update(&buf[..read]);
        bytes += read as u64;
    }
}
