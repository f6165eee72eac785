//! What the commands and an array's daemon say to each other over the control socket: one JSON line each way, and more of
//! them where something goes on for the connection. The same types are what `--json` prints. How releases understand each
//! other is in `wire.rs`: a field that is added has a default, and one that is there keeps its meaning.

mod decision;
mod job;
mod member;
mod status;
mod wire;

use serde::{Deserialize, Serialize};

use crate::bench::{LoadFigures, LoadSpec};

pub(crate) use decision::{BandStatus, DecisionStatus, TraceChoice, TraceCycle, TracedStatus};
pub(crate) use job::JobStatus;
pub(crate) use member::{
    ClassChoice, EnduranceStatus, ForecastStatus, MemberStatus, NoForecastStatus, TimesStatus, class_name,
};
pub(crate) use status::{ArrayStatus, BitmapStatus, map_name, state_name};
pub(crate) use wire::{WireError, protocol_of};

/// A command for an array's daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Request {
    Status,
    /// What writes to some stripes find, from the first to before the second.
    Stripes {
        from: u64,
        to: u64,
    },
    /// The class is detected, if none.
    Add {
        device: String,
        #[serde(default)]
        force: bool,
        class: Option<ClassChoice>,
    },
    Fail {
        member: String,
    },
    Remove {
        member: String,
    },
    Replace {
        member: String,
        with: String,
        #[serde(default)]
        force: bool,
        class: Option<ClassChoice>,
    },
    Scrub {
        action: ScrubAction,
    },
    /// What is none stays as it is; a maximum of 0 is no limit.
    Speed {
        min_bytes_per_s: Option<u64>,
        max_bytes_per_s: Option<u64>,
    },
    Attach {
        method: Option<AttachChoice>,
        /// The members' own, if none.
        sector_bytes: Option<u32>,
        #[serde(default)]
        discard: DiscardChoice,
    },
    Detach {
        #[serde(default)]
        force: bool,
    },
    Serve {
        address: String,
        #[serde(default)]
        read_only: bool,
        #[serde(default)]
        discard: DiscardChoice,
        #[serde(default)]
        limits: ServeLimits,
    },
    Unserve {
        address: Option<String>,
    },
    Stop {
        #[serde(default)]
        force: bool,
    },
    /// Changes the write selection policy.
    Policy {
        policy: String,
    },
    /// Says what kind of device a member is.
    Class {
        member: String,
        class: ClassChoice,
    },
    /// What is known of a member's life; what is none stays as it is.
    Endurance {
        member: String,
        rated_write_bytes: Option<u64>,
        warranty_end_s: Option<u64>,
        warranty_margin_days: Option<u32>,
    },
    /// Starts keeping decisions of write selection, for this connection and as long as it lasts.
    Trace {
        choice: TraceChoice,
    },
    /// The decisions from a number on; nobody keeps them for long if nobody asks.
    Traced {
        since: u64,
    },
    #[serde(alias = "trace-stop")]
    TraceEnd,
    /// Puts load on the array, for this connection: it ends early with it, or if nobody asks how it stands.
    Load {
        load: LoadSpec,
    },
    LoadStatus,
    /// No more requests begin; the figures come when the last has ended.
    LoadEnd,
}

/// What clients of an NBD server may take; the server's own limit, if none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServeLimits {
    pub(crate) connections: Option<usize>,
    pub(crate) in_flight_bytes: Option<u64>,
    pub(crate) connection_in_flight_bytes: Option<u64>,
    pub(crate) idle_ms: Option<u64>,
}

/// How a load stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadStatus {
    pub(crate) done_bytes: u64,
    /// Once it is over.
    pub(crate) figures: Option<Box<LoadFigures>>,
}

/// What a write to a stripe finds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StripeStatus {
    pub(crate) stripe: u64,
    /// Whether redundancy is known to agree with data.
    pub(crate) synced: bool,
    /// Roles of which no member holds it.
    pub(crate) missing: Vec<usize>,
}

/// Whether what an array is reached through takes discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DiscardChoice {
    /// If all members free what is discarded.
    #[default]
    Auto,
    /// In any case: members that do not unmap are written zeroes.
    On,
    /// Never.
    Off,
}

/// How a block device is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AttachChoice {
    /// The kernel's NBD client.
    Nbd,
    /// A FUSE file and a loop device.
    Fuse,
}

/// What to do with scrubs and other background jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScrubAction {
    /// Read all and count what disagrees (md's `check`).
    Start,
    /// Read all and mend what disagrees: data is taken for right and P and Q are written anew from it, at level 6 too; at
    /// level 1 the first copy is.
    Repair,
    /// Pause the job under way, whatever it is; fails if there is none.
    Pause,
    /// Let it go on; fails if there is none.
    Resume,
    /// End it; fails if there is none.
    Stop,
    /// Print how the last scrub ended, or how the current one stands.
    Status,
}

/// The daemon's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// Done, with what is to be told about it.
    Done(Vec<String>),
    /// A new daemon's first word: its array is open.
    Opened {
        status: Box<ArrayStatus>,
        #[serde(default)]
        notes: Vec<String>,
    },
    /// The array has stopped.
    Stopped {
        /// Why it is not clean.
        unclean: Option<String>,
        #[serde(default)]
        notes: Vec<String>,
    },
    Status(Box<ArrayStatus>),
    /// The address or path of a new export.
    Export(String),
    Stripes(Vec<StripeStatus>),
    Traced(TracedStatus),
    Load(LoadStatus),
    Error(String),
}
