//! A look at a file system that is mounted: at the tree of its last checkpoint, as fsck does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stripewise_rafs::check;

/// The root's attribute whose value is the newest [`Look`] in JSON, for root and for the user whose process serves the mount.
pub const LOOK_ATTRIBUTE: &str = "system.stripewise.look";
/// The same; reading it begins a look. It is not set for that: the kernel lets nothing be set where it has mounted for reading.
pub const BEGIN_LOOK_ATTRIBUTE: &str = "system.stripewise.begin-look";

/// Problems that are told in words, and how many bytes of JSON they take: a value of an attribute has 64 KiB.
const PROBLEMS_MAX: usize = 100;
const PROBLEMS_BYTES_MAX: usize = 48 << 10;

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
        Self::Found(LookFound {
            inodes: report.inodes,
            folders: report.folders,
            orphans: report.orphans,
            file_blocks: report.file_blocks,
            nodes: report.nodes,
            counts,
            problems: first_of(&report.problems),
        })
    }
}

/// As many as fit.
fn first_of(problems: &[check::Problem]) -> Vec<String> {
    let mut left = PROBLEMS_BYTES_MAX;
    let mut fits = |told: &String| {
        // With its comma.
        let bytes = serde_json::to_vec(told).map_or(usize::MAX, |json| json.len() + 1);
        let rest = left.checked_sub(bytes);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    problems.iter().take(PROBLEMS_MAX).map(ToString::to_string).take_while(|told| fits(told)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_fits_an_attribute() {
        let problem = check::Problem::Anchor { place: 1, why: "\u{1}".repeat(3000) };
        let report = check::Report { problems: vec![problem; 200], ..check::Report::default() };
        let Look::Found(found) = Look::found(&report) else { panic!("it has ended") };
        assert_eq!((found.counts["Anchor"], found.problems.len()), (200, 2));
        assert!(serde_json::to_vec(&Look::Found(found)).unwrap().len() < 64 << 10);
    }
}
