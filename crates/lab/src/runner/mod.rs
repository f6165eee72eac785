//! Running experiments: points on modelled disks over all cores, then those in real time one after the other,
//! with the machine for themselves. Finished points are kept on disk as they come.
//!
//! A folder holds `setting.json` (the [`Order`]), `points.jsonl` (every finished point, a line each), and the
//! files made from them: `report.html`, `claims.csv`, a CSV file for each experiment and each plot. The same
//! command continues an interrupted run. A folder belongs to one run at a time, and holds nothing else.

mod files;
mod folder;
mod order;
mod store;
#[cfg(test)]
mod tests;
mod work;

use std::{collections::BTreeMap, io, path::PathBuf};

use thiserror::Error;

pub(crate) use files::replace;
#[cfg(test)]
pub(crate) use files::{plot_file, points_file};
pub(crate) use folder::{Mark, take_marked};
pub(crate) use order::shell_word;
pub use order::{Order, report_command, shell_line};
pub use work::{Progress, program, report, run};

use crate::{
    experiments::{AnyOutcome, UnknownExperiment},
    ext3::LoadfileError,
};

/// Outcomes by their points' keys.
type Outcomes = BTreeMap<String, AnyOutcome>;

/// The files of a folder that belong to no single experiment.
#[cfg(test)]
pub(crate) const OTHER_FILES: [&str; 4] = ["setting.json", "points.jsonl", "claims.csv", "report.html"];

/// Why a run or a report failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// Of the file system.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Not ours.
    #[error("{path} is not a file of the laboratory's; give another folder, or remove the file")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The folder belongs to something else.
    #[error("{folder} is not empty and holds no {lacks}; give a new or an empty folder")]
    Occupied {
        /// The folder.
        folder: PathBuf,
        /// What would make it ours.
        lacks: &'static str,
    },
    /// Two runs at once would lose points.
    #[error("{folder}: another run is at work there; wait until it ends, or give another folder")]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// There is nothing to report.
    #[error("{folder} {state}")]
    NoResults {
        /// The folder.
        folder: PathBuf,
        /// Its state, and what can be done.
        state: String,
    },
    /// The path is no folder.
    #[error("{path} is a file, or lies in one; give a new or an empty folder")]
    NotAFolder {
        /// As given.
        path: PathBuf,
    },
    /// Written by another version.
    #[error(
        "{path} is of another version of the laboratory; use that one for this folder, or give another folder"
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
    },
    /// Points of another loadfile would not be found.
    #[error(
        "{path} has changed since this folder was filled; bring it back, or run the experiments anew with --loadfile"
    )]
    OtherLoadfile {
        /// The loadfile.
        path: PathBuf,
    },
    /// The loadfile of the folder's run, as it is now.
    #[error("the loadfile of this folder's run: {0}")]
    Loadfile(#[from] LoadfileError),
    /// Of a later version, or written by hand.
    #[error(transparent)]
    Unknown(#[from] UnknownExperiment),
}

/// An error of the file system at a path.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RunError {
    let path = path.into();
    move |source| RunError::Io { path, source }
}
