//! Operations of workloads, in words that fit on a command line: what is done, and to which of a few names.

use std::{fmt, str::FromStr};

/// Two files in the root, and two in each of two folders.
pub(super) const FILES: [&str; 6] = ["foo", "bar", "A/foo", "A/bar", "B/foo", "B/bar"];
/// The folders.
pub(super) const FOLDERS: [&str; 2] = ["A", "B"];
/// The root's name in words.
pub(super) const ROOT_NAME: &str = ".";

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A file is made.
    Creat,
    /// A folder is made.
    Mkdir,
    /// Bytes are written behind a file's end.
    Append,
    /// A file's first bytes are overwritten.
    Start,
    /// A third of a file is overwritten, in its middle.
    Middle,
    /// Bytes are written far behind a file's end, so that a hole comes before them.
    Hole,
    /// A hole is punched in the middle of a file.
    Punch,
    /// All behind a file's first quarter becomes a hole. Its length stays.
    PunchEnd,
    /// A file loses its second half.
    Shorter,
    /// A file grows by zeroes.
    Longer,
    /// A file gets one more name.
    Link,
    /// A file loses a name.
    Unlink,
    /// A file or a folder gets a name that nothing had.
    Rename,
    /// A file or a folder gets the name of another one, which is gone then.
    Replace,
    /// Two files, or two folders, get each other's names.
    Exchange,
    /// An empty folder is removed.
    Rmdir,
    /// A symbolic link is made.
    Symlink,
    /// A file gets an extended attribute.
    Setxattr,
    /// A file loses it.
    Removexattr,
    /// A file or a folder is made durable.
    Fsync,
    /// Everything is made durable.
    Sync,
    /// Everything is written out, and the journal is empty then, as an unmount does it.
    Checkpoint,
}

const NAMES: [(Kind, &str); 22] = [
    (Kind::Creat, "creat"),
    (Kind::Mkdir, "mkdir"),
    (Kind::Append, "append"),
    (Kind::Start, "start"),
    (Kind::Middle, "middle"),
    (Kind::Hole, "hole"),
    (Kind::Punch, "punch"),
    (Kind::PunchEnd, "punch-end"),
    (Kind::Shorter, "shorter"),
    (Kind::Longer, "longer"),
    (Kind::Link, "link"),
    (Kind::Unlink, "unlink"),
    (Kind::Rename, "rename"),
    (Kind::Replace, "replace"),
    (Kind::Exchange, "exchange"),
    (Kind::Rmdir, "rmdir"),
    (Kind::Symlink, "symlink"),
    (Kind::Setxattr, "setxattr"),
    (Kind::Removexattr, "removexattr"),
    (Kind::Fsync, "fsync"),
    (Kind::Sync, "sync"),
    (Kind::Checkpoint, "checkpoint"),
];

impl Kind {
    /// How many names it has.
    fn names(self) -> usize {
        match self {
            Self::Sync | Self::Checkpoint => 0,
            Self::Link | Self::Rename | Self::Replace | Self::Exchange => 2,
            _ => 1,
        }
    }

    /// Whether it makes something durable, and does nothing else.
    pub(super) fn persists(self) -> bool {
        matches!(self, Self::Fsync | Self::Sync | Self::Checkpoint)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name))
    }
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op {
    /// What is done.
    pub kind: Kind,
    /// The names, with the folder before each.
    pub(super) names: Vec<String>,
}

impl Op {
    pub(super) fn new(kind: Kind, names: &[&str]) -> Self {
        Self { kind, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// The name that it is about first.
    pub(super) fn path(&self) -> &str {
        self.names.first().map_or(ROOT_NAME, String::as_str)
    }

    /// The name that is new then.
    pub(super) fn to(&self) -> &str {
        self.names.last().map_or(ROOT_NAME, String::as_str)
    }

    /// Whether it moves a folder, and all names in it.
    pub(super) fn moves_folder(&self) -> bool {
        matches!(self.kind, Kind::Rename | Kind::Replace | Kind::Exchange) && FOLDERS.contains(&self.path())
    }

    /// What may make it durable: each file and folder that it has touched, or everything.
    pub(super) fn persisted(&self) -> Vec<Self> {
        let mut touched: Vec<&str> = self.names.iter().map(|name| parent(name)).collect();
        if !matches!(self.kind, Kind::Unlink | Kind::Rmdir | Kind::Symlink) {
            touched.insert(0, self.to());
        }
        touched.dedup();
        let fsyncs = touched.into_iter().map(|name| Self::new(Kind::Fsync, &[name]));
        fsyncs.chain([Self::new(Kind::Sync, &[]), Self::new(Kind::Checkpoint, &[])]).collect()
    }
}

/// The folder of a name.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(ROOT_NAME, |(folder, _)| folder)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        self.names.iter().try_for_each(|name| write!(f, "={name}"))
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('=');
        let word = parts.next().unwrap_or_default();
        let all = || NAMES.map(|(_, name)| name).join(", ");
        let found = NAMES.iter().find(|(_, name)| *name == word);
        let (kind, _) = found.ok_or_else(|| format!("no operation {word}; there are {}", all()))?;
        let names: Vec<String> = parts.map(str::to_owned).collect();
        let is_name = |name: &String| {
            name.split('/').all(|part| (1..=16).contains(&part.len())) && name.split('/').count() <= 2
        };
        if names.len() != kind.names() || !names.iter().all(is_name) {
            return Err(format!("{word} has {} names, such as foo or A/foo, each after a =", kind.names()));
        }
        Ok(Self { kind: *kind, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_what_its_words_say() {
        for text in ["creat=foo", "rename=A/foo=bar", "fsync=.", "sync", "replace=A=B"] {
            assert_eq!(text.parse::<Op>().map(|op| op.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "creat", "creat=", "creat=a=b", "sync=foo", "link=foo", "mount=foo", "creat=A/B/c"]
        {
            assert!(wrong.parse::<Op>().is_err(), "{wrong}");
        }
        for (kind, name) in NAMES {
            assert_eq!(kind.to_string(), name);
        }
    }

    #[test]
    fn what_is_touched_is_persisted() {
        let persisted = |text: &str| {
            let op: Op = text.parse().unwrap();
            op.persisted().iter().map(Op::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(persisted("append=A/foo"), "fsync=A/foo fsync=A sync checkpoint");
        assert_eq!(persisted("rename=A/foo=bar"), "fsync=bar fsync=A fsync=. sync checkpoint");
        assert_eq!(persisted("unlink=foo"), "fsync=. sync checkpoint");
    }
}
