//! Exchanges of names that give a workload no other meaning.

use super::op::{FOLDERS, Kind, Op};

/// How names of a workload may be exchanged for others without another meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relabel {
    folders: bool,
    /// Files of the root, of A, and of B.
    files: [bool; 3],
}

impl Relabel {
    /// All of them. Where a folder is moved, files of all folders are exchanged or none: its files have two paths.
    pub(super) fn all(moves_folder: bool) -> impl Iterator<Item = Self> {
        let all = (0..16_u8)
            .map(|bits| Self { folders: bits & 1 > 0, files: [bits & 2 > 0, bits & 4 > 0, bits & 8 > 0] });
        all.filter(move |relabel| {
            !moves_folder || matches!(relabel.files, [true, true, true] | [false, false, false])
        })
    }

    pub(super) fn of(self, op: &Op) -> Op {
        let mut names: Vec<String> = op.names.iter().map(|name| self.of_path(name)).collect();
        if op.kind == Kind::Exchange {
            // Either order means the same.
            names.sort_unstable();
        }
        Op { kind: op.kind, names }
    }

    fn of_path(self, path: &str) -> String {
        let folder = |name: &str| match name {
            "A" if self.folders => "B".to_owned(),
            "B" if self.folders => "A".to_owned(),
            other => other.to_owned(),
        };
        let file = |name: &str, of: usize| match name {
            "foo" if self.files[of] => "bar".to_owned(),
            "bar" if self.files[of] => "foo".to_owned(),
            other => other.to_owned(),
        };
        match path.split_once('/') {
            None => file(&folder(path), 0),
            Some((within, name)) => {
                let of = 1 + FOLDERS.iter().position(|folder| *folder == within).unwrap_or(0);
                format!("{}/{}", folder(within), file(name, of))
            }
        }
    }
}
