//! What the commands and an array's daemon say to each other over the control socket: one JSON line each way. The
//! same types are what `--json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stripewise::{ArrayReport, JobOutcome, JobReport, MemberState, format::extension::MemberClass};

/// A command for an array's daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Request {
    Status,
    Add {
        device: String,
        force: bool,
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
        force: bool,
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
    },
    Detach {
        force: bool,
    },
    Serve {
        address: String,
        read_only: bool,
    },
    Unserve {
        address: Option<String>,
    },
    Stop {
        force: bool,
    },
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
    /// Read all and mend what disagrees.
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
        notes: Vec<String>,
    },
    /// The array has stopped.
    Stopped {
        /// Why it is not clean.
        unclean: Option<String>,
        notes: Vec<String>,
    },
    Status(Box<ArrayStatus>),
    /// The address or path of a new export.
    Export(String),
    Error(String),
}

/// An array at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ArrayStatus {
    pub(crate) name: String,
    /// The name in the superblocks.
    pub(crate) full_name: String,
    pub(crate) uuid: String,
    pub(crate) level: i32,
    pub(crate) state: String,
    pub(crate) size_bytes: u64,
    pub(crate) member_bytes: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) logical_block_bytes: u32,
    pub(crate) raid_devices: usize,
    pub(crate) parity_devices: usize,
    pub(crate) in_sync: Vec<bool>,
    pub(crate) failed: bool,
    pub(crate) dirty: bool,
    pub(crate) read_only: bool,
    pub(crate) selection: String,
    pub(crate) events: u64,
    pub(crate) members: Vec<MemberStatus>,
    pub(crate) bitmap: Option<BitmapStatus>,
    pub(crate) job: Option<JobStatus>,
    pub(crate) last_job: Option<JobStatus>,
    pub(crate) last_scrub: Option<JobStatus>,
    pub(crate) speed_min_bytes_per_s: u64,
    /// None for no limit.
    pub(crate) speed_max_bytes_per_s: Option<u64>,
    /// Devices that were given and take no part, with the reason.
    pub(crate) left_out: Vec<String>,
    /// Members that `assemble --force` took although they are not current, with the reason.
    pub(crate) forced: Vec<String>,
    pub(crate) attached: Option<String>,
    pub(crate) exports: Vec<String>,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) pid: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MemberStatus {
    pub(crate) device: String,
    pub(crate) number: u32,
    pub(crate) role: Option<usize>,
    pub(crate) state: String,
    pub(crate) class: String,
    pub(crate) uuid: String,
    pub(crate) read_errors: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BitmapStatus {
    pub(crate) region_bytes: u64,
    pub(crate) regions: usize,
    pub(crate) marked: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobStatus {
    pub(crate) kind: String,
    pub(crate) role: Option<usize>,
    /// When it began, on the daemon's own clock: tells one job from another.
    pub(crate) started_ns: u64,
    /// Bytes of each member.
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) bytes_per_s: u64,
    pub(crate) eta_s: Option<u64>,
    pub(crate) paused: bool,
    /// As md counts them: 512-byte sectors of each member in rows that disagreed.
    pub(crate) mismatch_count: u64,
    pub(crate) mismatched_stripes: Vec<u64>,
    /// `done`, `stopped`, or why it failed; none while it runs.
    pub(crate) outcome: Option<String>,
}

/// Sectors in a row of 4 KiB blocks: the unit of md's `mismatch_cnt`.
const SECTORS_PER_ROW: u64 = 8;

impl From<&JobReport> for JobStatus {
    fn from(job: &JobReport) -> Self {
        let (done_bytes, total_bytes) =
            (job.done_stripes * job.chunk_bytes, job.total_stripes * job.chunk_bytes);
        let eta_s = (job.bytes_per_s > 0 && !job.paused && job.outcome.is_none())
            .then(|| total_bytes.saturating_sub(done_bytes) / job.bytes_per_s);
        Self {
            kind: job.kind.name().to_owned(),
            role: job.slot.map(|slot| slot.0),
            started_ns: job.started.0,
            done_bytes,
            total_bytes,
            bytes_per_s: job.bytes_per_s,
            eta_s,
            paused: job.paused,
            mismatch_count: job.mismatched_rows * SECTORS_PER_ROW,
            mismatched_stripes: job.mismatches.iter().map(|m| m.stripe).collect(),
            outcome: job.outcome.as_ref().map(|outcome| match outcome {
                JobOutcome::Done => "done".to_owned(),
                JobOutcome::Stopped => "stopped".to_owned(),
                JobOutcome::Failed(reason) => reason.clone(),
            }),
        }
    }
}

/// A member's class as `detail` prints it.
pub(crate) fn class_name(class: MemberClass) -> &'static str {
    match class {
        MemberClass::Hdd => "hdd",
        MemberClass::Ssd => "ssd",
        MemberClass::Unknown => "unknown",
    }
}

/// The array's state in mdadm's words.
pub(crate) fn state_name(report: &ArrayReport) -> String {
    if report.failed {
        return "failed".to_owned();
    }
    let mut words = vec![if report.dirty { "active" } else { "clean" }];
    if report.degraded() > 0 {
        words.push("degraded");
    }
    if let Some(job) = &report.job {
        words.push(match job.kind.name() {
            "resync" => "resyncing",
            "rebuild" | "replace" => "recovering",
            _ => "checking",
        });
    }
    words.join(", ")
}

impl MemberStatus {
    pub(crate) fn of(report: &ArrayReport) -> Vec<Self> {
        let members = report.members.iter().map(|member| Self {
            device: member.name.clone(),
            number: member.dev_number,
            role: member.slot.filter(|_| member.state != MemberState::Spare).map(|slot| slot.0),
            state: member.state.name().to_owned(),
            class: class_name(member.class).to_owned(),
            uuid: member.uuid.to_string(),
            read_errors: member.read_errors,
        });
        members.collect()
    }
}
