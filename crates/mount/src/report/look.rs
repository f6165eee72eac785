//! A look at a file system that is mounted: at the tree of its last checkpoint, as fsck does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stripewise_rafs::check;

/// The root's attribute. A value that is set, by root or by the user whose process serves the mount, begins a look; what is read is a
/// [`Look`] in JSON.
pub const LOOK_ATTRIBUTE: &str = "system.stripewise.look";

/// Problems that are told in words, and their letters: a value of an attribute has 64 KiB.
const PROBLEMS_MAX: usize = 100;
const LETTERS_MAX: usize = 300;

/// What is known of the newest look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// It has come so far.
    UnderWay(LookStep),
    /// It has ended.
    Found(LookFound),
    /// It could not be looked at, for this reason.
    Failed(String),
}

/// How far a look has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookStep {
    /// What is looked at.
    pub what: String,
    /// How many of these were.
    pub done: u64,
    /// How many there are; 0 if that is not known.
    pub all: u64,
}

/// What a look has found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LookFound {
    /// Inodes in use.
    pub inodes: u64,
    /// Folders among them.
    pub folders: u64,
    /// Inodes without a name.
    pub orphans: u64,
    /// Blocks of files.
    pub file_blocks: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// How many problems there are of each kind.
    pub counts: BTreeMap<String, usize>,
    /// The first of them in words.
    pub problems: Vec<String>,
}

impl Look {
    pub(crate) fn found(report: &check::Report) -> Self {
        let mut counts = BTreeMap::new();
        report.problems.iter().for_each(|problem| *counts.entry(problem.kind()).or_default() += 1);
        let told = |problem: &check::Problem| problem.to_string().chars().take(LETTERS_MAX).collect();
        Self::Found(LookFound {
            inodes: report.inodes,
            folders: report.folders,
            orphans: report.orphans,
            file_blocks: report.file_blocks,
            nodes: report.nodes,
            counts,
            problems: report.problems.iter().take(PROBLEMS_MAX).map(told).collect(),
        })
    }
}
