//! The order of a run; kept in the folder, so that a report can be made of what is there.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{RunError, at, files::replace};
use crate::{
    experiments::{Effort, Experiment, with_id},
    ext3::Loadfile,
    machine::Machine,
};

const FILE: &str = "setting.json";
/// Increases when the meaning of points changes, so that older ones are not used.
const VERSION: u32 = 1;

/// What to run.
#[derive(Clone)]
pub struct Order {
    /// The experiments.
    pub experiments: Vec<&'static Experiment>,
    /// How much of each.
    pub effort: Effort,
    /// The source of all choices.
    pub seed: u64,
    /// DBench's loadfile, for experiments that can repeat it.
    pub loadfile: Option<Loadfile>,
    /// The machine it runs on, for real-time points.
    pub machine: Machine,
}

/// The order as stored in a file, with the program that ran it.
#[derive(Serialize, Deserialize)]
struct Written {
    stripewise_lab: u32,
    command: String,
    experiments: Vec<String>,
    quick: bool,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loadfile: Option<Known>,
    program: String,
    /// Folders of earlier versions have no machine, and no real-time points either.
    #[serde(default = "Machine::here")]
    machine: Machine,
}

/// A loadfile, and the hash of its bytes.
#[derive(Serialize, Deserialize)]
struct Known {
    path: PathBuf,
    xxh3: u64,
}

/// The part that every version of the file has.
#[derive(Deserialize)]
struct Versioned {
    stripewise_lab: u32,
}

impl Order {
    /// The command that runs it, without the folder.
    pub fn command(&self) -> String {
        let ids: Vec<_> = self.experiments.iter().map(|experiment| experiment.id).collect();
        let quick = if self.effort == Effort::Quick { " --quick" } else { "" };
        let loadfile = self.loadfile.map_or_else(String::new, |loadfile| {
            format!(" --loadfile {}", shell_word(&loadfile.path().display().to_string()))
        });
        format!("stripewise lab run {}{quick} --seed {}{loadfile}", ids.join(" "), self.seed)
    }

    /// The command that runs it in a folder, or continues with the points missing there.
    pub fn command_in(&self, folder: &Path) -> String {
        format!("{} --out {}", self.command(), shell_word(&folder.display().to_string()))
    }

    pub(super) fn write(&self, folder: &Path, program: &str) -> Result<(), RunError> {
        let written = Written {
            stripewise_lab: VERSION,
            command: self.command(),
            experiments: self.experiments.iter().map(|experiment| experiment.id.to_owned()).collect(),
            quick: self.effort == Effort::Quick,
            seed: self.seed,
            loadfile: self.loadfile.map(|of| Known { path: of.path().to_owned(), xxh3: of.xxh3() }),
            program: program.to_owned(),
            machine: self.machine.clone(),
        };
        replace(&folder.join(FILE), &(serde_json::to_string_pretty(&written).expect("plain fields") + "\n"))
    }

    /// The order of a folder, if it has one, and the program that ran it.
    pub(super) fn find(folder: &Path) -> Result<Option<(Self, String)>, RunError> {
        let path = folder.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(RunError::Foreign { path });
            }
            Err(error) => return Err(at(path)(error)),
        };
        match serde_json::from_str(&text) {
            Ok(Versioned { stripewise_lab: VERSION }) => {}
            Ok(_) => return Err(RunError::OtherVersion { path }),
            Err(_) => return Err(RunError::Foreign { path }),
        }
        let Ok(written) = serde_json::from_str::<Written>(&text) else {
            return Err(RunError::Foreign { path });
        };
        let order = Self {
            experiments: written.experiments.iter().map(|id| with_id(id)).collect::<Result<_, _>>()?,
            effort: if written.quick { Effort::Quick } else { Effort::Full },
            seed: written.seed,
            loadfile: written.loadfile.map(Known::read).transpose()?,
            machine: written.machine,
        };
        Ok(Some((order, written.program)))
    }
}

impl Known {
    /// The loadfile, if its bytes are as they were.
    fn read(self) -> Result<Loadfile, RunError> {
        let loadfile = Loadfile::read(&self.path)?;
        if loadfile.xxh3() == self.xxh3 {
            Ok(loadfile)
        } else {
            Err(RunError::OtherLoadfile { path: self.path })
        }
    }
}

/// The command that makes the report of a folder.
pub fn report_command(folder: &Path) -> String {
    format!("stripewise lab report {}", shell_word(&folder.display().to_string()))
}

/// Words as a shell command line.
pub fn shell_line(words: impl IntoIterator<Item = OsString>) -> String {
    let words = words.into_iter().map(|word| shell_word(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// A word as the shell must see it to take it as one.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(shell_word("results/a-1"), "results/a-1");
        assert_eq!(shell_word("my results"), "'my results'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_line(["--out".into(), "a b".into()]), "--out 'a b'");
    }
}
