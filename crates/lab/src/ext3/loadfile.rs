//! DBench's loadfile: the calls of a NetBench client, one a line, as `client.txt` of DBench has them.
//!
//! The file is DBench's and no part of this project. Names and handles are followed here, once for all clients, so that what
//! is left are changes of numbered files, and reads. What changes nothing on a disk is left out: questions, locks, and calls
//! that the server refused. So is a byte that a client writes behind a file's end to make the file longer: the blocks that it
//! stands for are written next.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::layout::BLOCK_BYTES;

/// No loadfile is longer.
const BYTES_MAX: u64 = 256 << 20;
/// A client's files have no more bytes together: then 256 clients fill no file system of an experiment.
const CLIENT_BYTES_MAX: u64 = 100 << 20;
/// A client has no more files and directories at once: one directory can hold so many.
const ENTRIES_MAX: usize = 1000;
/// What a line that was carried out ends with.
const DONE: &str = "NT_STATUS_OK";

/// A client's calls. It is read once, and lives as long as the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Loadfile(&'static Calls);

/// What a loadfile says.
#[derive(PartialEq, Eq)]
struct Calls {
    path: PathBuf,
    xxh3: u64,
    calls: Vec<Call>,
    /// Calls before the first read: with them a client makes its files.
    setup: usize,
    files: usize,
    directories: usize,
}

/// A change of a client's files, or a read. Numbers of files are used again when files are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// This directory is made; 0 is the client's own, which is there.
    MakeDirectory(usize),
    Create {
        file: usize,
        directory: usize,
    },
    /// Blocks that are there are written anew, and so many are appended.
    Write {
        file: usize,
        over: Range<usize>,
        appended: usize,
    },
    /// So many blocks of a file are read.
    Read {
        file: usize,
        blocks: u64,
    },
    /// A time of it is set.
    Touch(usize),
    Flush(usize),
    Close(usize),
    Rename(usize),
    Remove(usize),
}

/// Why a file is no loadfile.
#[derive(Debug, Error)]
pub enum LoadfileError {
    /// Of the file system.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another kind of file.
    #[error(
        "{path}: {what}; give the file client.txt that comes with DBench, as /usr/share/dbench/client.txt"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl Loadfile {
    /// Reads it.
    ///
    /// # Errors
    /// [`LoadfileError`], if it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self, LoadfileError> {
        let at = |source| LoadfileError::Io { path: path.to_owned(), source };
        let foreign = |what: String| LoadfileError::Foreign { path: path.to_owned(), what };
        let metadata = fs::metadata(path).map_err(at)?;
        if !metadata.is_file() || metadata.len() > BYTES_MAX {
            return Err(foreign(format!("this is no file of at most {} MiB", BYTES_MAX >> 20)));
        }
        let bytes = fs::read(path).map_err(at)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| foreign("this is no text".to_owned()))?;
        let mut parser = Parser::default();
        for (index, line) in text.lines().enumerate() {
            parser.line(line).map_err(|what| foreign(format!("line {}: {what}", index + 1)))?;
        }
        let calls = parser.end(path, xxh3_64(&bytes)).map_err(|what| foreign(what.to_owned()))?;
        Ok(Self(Box::leak(Box::new(calls))))
    }

    /// Where it was read.
    pub fn path(&self) -> &'static Path {
        &self.0.path
    }

    /// The hash of its bytes (XXH3, 64 bits), by which points know it.
    pub fn xxh3(&self) -> u64 {
        self.0.xxh3
    }

    /// How many calls change or read files.
    pub(crate) fn calls_count(&self) -> usize {
        self.0.calls.len()
    }

    /// Blocks that a client writes with all of its calls.
    pub(crate) fn written_blocks(&self) -> usize {
        let written = |call: &Call| match call {
            Call::Write { over, appended, .. } => over.len() + appended,
            _ => 0,
        };
        self.0.calls.iter().map(written).sum()
    }

    /// All calls, from a client without files to one without files.
    pub(super) fn calls(&self) -> &'static [Call] {
        &self.0.calls
    }

    /// How many of the calls come before the first read: with them a client makes its files.
    pub(super) fn setup(&self) -> usize {
        self.0.setup
    }

    /// Files have numbers below this.
    pub(super) fn files(&self) -> usize {
        self.0.files
    }

    /// Directories have numbers below this.
    pub(super) fn directories(&self) -> usize {
        self.0.directories
    }
}

impl fmt::Debug for Loadfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loadfile({:016x})", self.0.xxh3)
    }
}

impl Serialize for Loadfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0.xxh3))
    }
}

/// Follows names and handles.
#[derive(Default)]
struct Parser {
    calls: Vec<Call>,
    /// The numbers of files that there are. A name is taken as the server takes it: small letters are as good as capitals.
    files: BTreeMap<String, usize>,
    /// How long the file of a number is.
    bytes: Vec<u64>,
    /// Numbers of no file.
    free: Vec<usize>,
    /// The numbers of directories that have been there.
    directories: BTreeMap<String, usize>,
    /// What handles stand for; nothing, if it is a directory or gone.
    handles: BTreeMap<u64, Option<usize>>,
    setup: Option<usize>,
}

/// What is wrong with a line.
type Wrong = &'static str;

/// The words of a line behind its first: in quotation marks, or between blanks.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, Wrong> {
        let rest = self.0.trim_start();
        let (word, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quotation mark is missing")?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        self.0 = rest;
        if word.is_empty() { Err("a word is missing") } else { Ok(word) }
    }

    fn name(&mut self) -> Result<String, Wrong> {
        Ok(self.next()?.to_lowercase())
    }

    fn number(&mut self) -> Result<u64, Wrong> {
        let word = self.next()?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        parsed.map_err(|_| "a number is missing")
    }
}

/// The next two words: where something begins in a file, and how long it is.
fn extent(words: &mut Words<'_>) -> Result<Range<u64>, Wrong> {
    let (start, len) = (words.number()?, words.number()?);
    let end = start.checked_add(len).filter(|end| *end <= CLIENT_BYTES_MAX);
    Ok(start..end.ok_or("it ends beyond any file of DBench's clients")?)
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), Wrong> {
        let line = line.trim();
        let Some((call, rest)) = line.split_once(char::is_whitespace) else {
            return if line.is_empty() { Ok(()) } else { Err("this is no call") };
        };
        if !rest.contains("NT_STATUS_") {
            return Err("the call has no status");
        }
        if !rest.ends_with(DONE) {
            return Ok(());
        }
        let words = &mut Words(rest);
        match call {
            "NTCreateX" => self.open(words),
            "Close" => {
                let closed = self.handles.remove(&words.number()?).ok_or(NO_HANDLE)?;
                self.calls.extend(closed.map(Call::Close));
                Ok(())
            }
            "WriteX" => self.write(words),
            "ReadX" => self.read(words),
            "Flush" => self.of_handle(words, Call::Flush),
            "SET_FILE_INFORMATION" => self.of_handle(words, Call::Touch),
            "Rename" => self.rename(words),
            "Unlink" => {
                let name = words.name()?;
                self.remove(&name)
            }
            "Deltree" => self.remove_tree(words),
            "Mkdir" => Ok(()),
            "QUERY_PATH_INFORMATION"
            | "QUERY_FILE_INFORMATION"
            | "QUERY_FS_INFORMATION"
            | "FIND_FIRST"
            | "LockX"
            | "UnlockX" => Ok(()),
            _ => Err("DBench knows no such call"),
        }
    }

    /// The file that the next word, a handle, stands for.
    fn handle(&self, words: &mut Words<'_>) -> Result<Option<usize>, Wrong> {
        self.handles.get(&words.number()?).copied().ok_or(NO_HANDLE)
    }

    fn of_handle(&mut self, words: &mut Words<'_>, call: fn(usize) -> Call) -> Result<(), Wrong> {
        let file = self.handle(words)?;
        self.calls.extend(file.map(call));
        Ok(())
    }

    fn read(&mut self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let (file, bytes) = (self.handle(words)?, extent(words)?);
        let Some(file) = file else { return Ok(()) };
        self.setup.get_or_insert(self.calls.len());
        let blocks = bytes.end.div_ceil(BLOCK_BYTES) - bytes.start / BLOCK_BYTES;
        self.calls.push(Call::Read { file, blocks });
        Ok(())
    }

    fn open(&mut self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let (name, options, disposition, handle) =
            (words.name()?, words.number()?, words.number()?, words.number()?);
        if self.files.len() + self.directories.len() >= ENTRIES_MAX {
            return Err("the client has more files and folders than DBench's");
        }
        let (makes, empties) = match disposition {
            // FILE_OPEN; FILE_CREATE and FILE_OPEN_IF; FILE_OVERWRITE; FILE_SUPERSEDE and FILE_OVERWRITE_IF.
            1 => (false, false),
            2 | 3 => (true, false),
            4 => (false, true),
            0 | 5 => (true, true),
            _ => return Err("a file is opened in a way that DBench does not know"),
        };
        // FILE_DIRECTORY_FILE
        if options & 1 != 0 {
            if makes {
                let number = self.directory(&name);
                self.calls.push(Call::MakeDirectory(number));
            }
        } else {
            if empties && self.files.contains_key(&name) {
                self.remove(&name)?;
            }
            if makes && !self.files.contains_key(&name) {
                self.create(&name)?;
            }
        }
        self.handles.insert(handle, self.files.get(&name).copied());
        Ok(())
    }

    /// The number of a directory. The first one is the client's, in which all others are made, whatever their names say.
    fn directory(&mut self, name: &str) -> usize {
        let next = self.directories.len();
        *self.directories.entry(name.to_owned()).or_insert(next)
    }

    fn create(&mut self, name: &str) -> Result<(), Wrong> {
        let (parent, _) = name.rsplit_once('\\').ok_or("the name of a file has no folder")?;
        let directory = *self.directories.get(parent).ok_or("the folder of a file is not there")?;
        let file = self.free.pop().unwrap_or_else(|| {
            self.bytes.push(0);
            self.bytes.len() - 1
        });
        self.bytes[file] = 0;
        self.files.insert(name.to_owned(), file);
        self.calls.push(Call::Create { file, directory });
        Ok(())
    }

    fn write(&mut self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let (file, Range { start, end }) = (self.handle(words)?, extent(words)?);
        let Some(file) = file else { return Ok(()) };
        let bytes = &mut self.bytes[file];
        let (first, had) = (start / BLOCK_BYTES, bytes.div_ceil(BLOCK_BYTES));
        if start == end || (end - start == 1 && first > had) {
            return Ok(());
        }
        *bytes = end.max(*bytes);
        if self.files.values().map(|file| self.bytes[*file]).sum::<u64>() > CLIENT_BYTES_MAX {
            return Err("the client's files are longer than those of DBench's");
        }
        let bytes = self.bytes[file];
        let appended = (bytes.div_ceil(BLOCK_BYTES) - had) as usize;
        let over = first.min(had) as usize..end.div_ceil(BLOCK_BYTES).min(had) as usize;
        self.calls.push(Call::Write { file, over, appended });
        Ok(())
    }

    fn rename(&mut self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let (from, to) = (words.name()?, words.name()?);
        let folder = |name: &str| name.rsplit_once('\\').map(|(folder, _)| folder.to_owned());
        if folder(&from) != folder(&to) {
            return Err("a file is moved to another folder, which DBench's clients do not");
        }
        if self.files.contains_key(&to) {
            self.remove(&to)?;
        }
        let file = self.files.remove(&from).ok_or(NO_FILE)?;
        self.calls.push(Call::Rename(file));
        self.files.insert(to, file);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), Wrong> {
        let file = self.files.remove(name).ok_or(NO_FILE)?;
        self.calls.push(Call::Remove(file));
        self.free.push(file);
        self.handles.values_mut().filter(|of| **of == Some(file)).for_each(|of| *of = None);
        Ok(())
    }

    /// All files of the client are gone. Its directories stay, and are there when it begins anew.
    fn remove_tree(&mut self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let top = words.name()?;
        let inside = |name: &String| name.strip_prefix(&top).is_some_and(|rest| rest.starts_with('\\'));
        let gone: Vec<_> = self.files.keys().filter(|name| inside(name)).cloned().collect();
        gone.iter().try_for_each(|name| self.remove(name))
    }

    fn end(self, path: &Path, xxh3: u64) -> Result<Calls, Wrong> {
        let setup = self.setup.ok_or("no client reads or writes anything")?;
        let writes = self.calls.iter().any(|call| matches!(call, Call::Write { .. }));
        match (writes, self.files.is_empty()) {
            (false, _) => Err("no client writes anything"),
            (_, false) => Err("the client's files stay: the end is missing"),
            (true, true) => Ok(Calls {
                // The command that continues a run works in every folder.
                path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
                xxh3,
                calls: self.calls,
                setup,
                files: self.bytes.len(),
                directories: self.directories.len(),
            }),
        }
    }
}

const NO_HANDLE: Wrong = "no file was opened with this handle";
const NO_FILE: Wrong = "there is no file of this name";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A client that makes two files, works on them, and removes all.
    pub(crate) const LINES: &str = r#"
Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX "\clients\client1\Old" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\Old" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 65534 1 1 NT_STATUS_OK
WriteX 2 0 10000 10000 NT_STATUS_OK
Close 2 NT_STATUS_OK
NTCreateX "\clients\client1\new" 0x40 0x2 3 NT_STATUS_OK
ReadX 3 0 100 100 NT_STATUS_OK
WriteX 3 0 1 1 NT_STATUS_OK
LockX 3 100 1 NT_STATUS_OK
NTCreateX "\clients\client1\old" 0x40 0x1 4 NT_STATUS_OK
WriteX 4 8192 8192 8192 NT_STATUS_OK
SET_FILE_INFORMATION 4 1004 NT_STATUS_OK
Rename "\clients\client1\NEW" "\clients\client1\old" NT_STATUS_OK
Flush 3 NT_STATUS_OK
Close 4 NT_STATUS_OK
Unlink "\clients\client1\other" 0x6 NT_STATUS_OBJECT_NAME_NOT_FOUND
Deltree "\clients\client1" NT_STATUS_OK
"#;

    /// The loadfile of these lines.
    pub(crate) fn of(lines: &str) -> Result<Loadfile, LoadfileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), lines).unwrap();
        Loadfile::read(file.path())
    }

    #[test]
    fn names_and_handles_become_numbers_and_what_changes_nothing_goes() {
        let of = of(LINES).unwrap();
        let write = |file, over, appended| Call::Write { file, over, appended };
        let expected = [
            Call::MakeDirectory(0),
            Call::Create { file: 0, directory: 0 },
            write(0, 0..0, 3),
            Call::Close(0),
            Call::Create { file: 1, directory: 0 },
            Call::Read { file: 1, blocks: 1 },
            write(1, 0..0, 1),
            write(0, 2..3, 1),
            Call::Touch(0),
            Call::Remove(0),
            Call::Rename(1),
            Call::Flush(1),
            // What closes now is gone.
            Call::Remove(1),
        ];
        assert_eq!(of.calls(), expected);
        assert_eq!((of.setup(), of.files(), of.directories()), (5, 2, 1));
    }

    #[test]
    fn what_is_no_loadfile_is_refused_with_its_line() {
        let refused = |lines: &str| of(lines).unwrap_err().to_string();
        for (lines, told) in [
            ("", "no client reads"),
            ("hello\n", "line 1: this is no call"),
            ("hello world\n", "line 1: the call has no status"),
            ("Frobnicate 1 NT_STATUS_OK\n", "line 1: DBench knows no such call"),
            ("\nClose 7 NT_STATUS_OK\n", "line 2: no file was opened"),
            ("ReadX seven 1 1 NT_STATUS_OK\n", "line 1: a number is missing"),
            ("Unlink \"\\a NT_STATUS_OK\n", "line 1: a quotation mark is missing"),
            ("Unlink \"\\a\" NT_STATUS_OK\n", "line 1: there is no file of this name"),
            ("NTCreateX \"\\a\" 0x40 0x2 1 NT_STATUS_OK\n", "line 1: the folder of a file is not there"),
            ("NTCreateX \"\\a\" 0x40 0x9 1 NT_STATUS_OK\n", "line 1: a file is opened in a way"),
        ] {
            let error = refused(lines);
            assert!(error.contains(told) && error.contains("client.txt"), "{lines:?}: {error}");
        }
        // Nothing is read of what is no file: the setup would have no end.
        let unread = LINES.replace("ReadX 3", "ReadX 1").replace("Close 1 NT_STATUS_OK\n", "");
        assert!(refused(&unread).contains("no client reads"), "{}", refused(&unread));
        // A folder that was only removed is none.
        let elsewhere = LINES
            .replace("Mkdir", "Deltree \"\\b\" NT_STATUS_OK\nMkdir")
            .replace("\\clients\\client1\\new", "\\b\\new");
        assert!(refused(&elsewhere).contains("the folder of a file is not there"), "{}", refused(&elsewhere));
        let many: String = (0..ENTRIES_MAX)
            .map(|file| format!("NTCreateX \"\\clients\\client1\\{file}\" 0x40 0x2 9 NT_STATUS_OK\n"))
            .collect();
        let crowded = LINES.replace("Close 1 ", &format!("{many}Close 1 "));
        assert!(refused(&crowded).contains("more files and folders"), "{}", refused(&crowded));
        let (large, more) = ("WriteX 2 0 100000000 100000000", "WriteX 3 0 100000000 100000000");
        let full = LINES.replace("WriteX 2 0 10000 10000", large).replace("WriteX 3 0 1 1", more);
        assert!(refused(&full).contains("line 13: the client's files are longer"), "{}", refused(&full));
        let (without_end, _) = LINES.trim_end().rsplit_once('\n').unwrap();
        assert!(refused(without_end).contains("the end is missing"));
        let endless = LINES.replace("WriteX 4 8192 8192", "WriteX 4 8192 18446744073709551615");
        assert!(refused(&endless).contains("line 16: it ends beyond"), "{}", refused(&endless));
        let folder = tempfile::tempdir().unwrap();
        assert!(Loadfile::read(folder.path()).unwrap_err().to_string().contains("this is no file"));
        assert!(matches!(Loadfile::read(&folder.path().join("none")), Err(LoadfileError::Io { .. })));
    }

    #[test]
    fn a_file_is_known_by_its_bytes() {
        let [one, same, other] = [LINES, LINES, &LINES[1..]].map(|lines| of(lines).unwrap());
        assert_eq!(format!("{one:?}"), format!("{same:?}"));
        assert_ne!(one.xxh3(), other.xxh3());
    }
}
