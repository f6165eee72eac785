//! What a daemon answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ArrayStatus, CheckedStatus, LoadStatus, MadeStatus, MountedStatus, SlowStatus, TracedStatus, UsageStatus,
};

/// What is to be told to people about a command that was carried out, a sentence each.
pub type Notes = Vec<String>;

/// A daemon's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Done.
    Done(Notes),
    /// A new daemon's first word, to the command that started it: its array is open.
    Opened {
        /// How the array is.
        status: Box<ArrayStatus>,
        /// What is to be told.
        #[serde(default)]
        notes: Notes,
    },
    /// The array has stopped, and the daemon ends.
    Stopped {
        /// Why the array is not clean, if it is not.
        unclean: Option<String>,
        /// What is to be told.
        #[serde(default)]
        notes: Notes,
    },
    /// What is cached is being written to members; more is to be asked.
    Emptying {
        /// What is left.
        left_bytes: u64,
    },
    /// Members are being measured; more is to be asked.
    Measuring {
        /// For how long.
        passed_s: f64,
        /// The longest that it takes, about.
        most_s: f64,
    },
    /// Something on the array's file system is under way; more is to be asked by
    /// [`Request::Worked`](crate::Request::Worked).
    Working {
        /// What was read of the array, and written to it, so far.
        done_bytes: u64,
        /// Which work that is, to ask for it.
        #[serde(default)]
        work: Option<u64>,
        /// What of it is being done; none where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepStatus>,
    },
    /// The file system that was made, or would be.
    Made(Box<MadeStatus>),
    /// The file system that is mounted now.
    Mounted(Box<MountedStatus>),
    /// What a check found.
    Checked(Box<CheckedStatus>),
    /// How full the file system is.
    Usage(Box<UsageStatus>),
    /// How the array is.
    Status(Box<ArrayStatus>),
    /// The members that have not answered for some seconds, by path.
    Slow(BTreeMap<String, SlowStatus>),
    /// The URI or path of a new export.
    Export(String),
    /// What writes to the stripes find.
    Stripes(Vec<StripeStatus>),
    /// Decisions of write selection.
    Traced(TracedStatus),
    /// How a load stands.
    Load(LoadStatus),
    /// It was not done, and why.
    Error(String),
}

/// A step of something long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepStatus {
    /// What is being done, in a word.
    pub what: String,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; 0 if that is not known.
    pub all: u64,
}

/// What a write to a stripe finds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StripeStatus {
    /// The stripe's number.
    pub stripe: u64,
    /// Whether redundancy is known to agree with data.
    pub synced: bool,
    /// Roles of which no member holds the stripe.
    pub missing: Vec<usize>,
    /// What is cached of it: its first rows joined by `/`, with a letter for each data column: (D)irty, (P)artly
    /// dirty, (C)lean, (E)mpty. None without a cache.
    #[serde(default)]
    pub cells: Option<String>,
}
