//! What a daemon can be asked for.

use serde::{Deserialize, Serialize};

use crate::{
    AttachChoice, CacheChange, ClassChoice, DiscardChoice, LoadSpec, MkfsSpec, MountChoice, ScrubAction,
    TraceChoice,
};

/// A request to an array's daemon. Members and devices are absolute paths: a daemon works in another folder.
/// What is done is answered by [`Reply::Done`](crate::Reply::Done), where nothing else is said.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// How the array is: [`Reply::Status`](crate::Reply::Status).
    Status,
    /// Which members do not answer: [`Reply::Slow`](crate::Reply::Slow), at once, also where [`Request::Status`] waits for them.
    Slow,
    /// What writes to some stripes find, a thousand at most: [`Reply::Stripes`](crate::Reply::Stripes).
    Stripes {
        /// The first.
        from: u64,
        /// The one behind the last.
        to: u64,
    },
    /// Adds a device as a spare; a vacant role is rebuilt at once.
    Add {
        /// Its path.
        device: String,
        /// Whether what is found on it may be overwritten.
        #[serde(default)]
        force: bool,
        /// What kind of device it is; detected, if none.
        class: Option<ClassChoice>,
        /// While its strides are measured, [`Reply::Measuring`](crate::Reply::Measuring) is answered, and
        /// [`Request::Added`] is to be sent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steps: bool,
    },
    /// How far [`Request::Add`] of a device, or [`Request::Replace`] with it, has come; answered as they are.
    Added {
        /// The device's path.
        device: String,
    },
    /// Declares a member failed.
    Fail {
        /// Its path.
        member: String,
    },
    /// Lets go of a failed or spare member.
    Remove {
        /// Its path.
        member: String,
    },
    /// Fills a device to take a living member's place.
    Replace {
        /// The member's path.
        member: String,
        /// The device's: a spare, or one that is added.
        with: String,
        /// Whether what is found on the device may be overwritten.
        #[serde(default)]
        force: bool,
        /// What kind of device it is; detected, if none.
        class: Option<ClassChoice>,
        /// As with [`Request::Add`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steps: bool,
    },
    /// Begins or steers a background job.
    Scrub {
        /// What to do.
        action: ScrubAction,
    },
    /// Limits background jobs, in bytes of each member. What is none stays as it is.
    Speed {
        /// What they may take while clients are busy.
        min_bytes_per_s: Option<u64>,
        /// What they may take at most; 0 for no limit.
        max_bytes_per_s: Option<u64>,
    },
    /// Makes a block device: [`Reply::Export`](crate::Reply::Export) has its path.
    Attach {
        /// How; the best there is, if none.
        method: Option<AttachChoice>,
        /// Its logical block size; the members' own, if none.
        sector_bytes: Option<u32>,
        /// Whether it takes discards.
        #[serde(default)]
        discard: DiscardChoice,
    },
    /// Takes the block device away.
    Detach {
        /// Also from those who use it: what they have not written out is lost.
        #[serde(default)]
        force: bool,
    },
    /// Serves the array over NBD: [`Reply::Export`](crate::Reply::Export) has its URI.
    Serve {
        /// The path of a unix socket, or HOST:PORT.
        address: String,
        /// Whether writes are refused.
        #[serde(default)]
        read_only: bool,
        /// Whether clients may discard.
        #[serde(default)]
        discard: DiscardChoice,
        /// What clients may take.
        #[serde(default)]
        limits: ServeLimits,
    },
    /// Serves it no more.
    Unserve {
        /// Only there; nowhere any more, if none.
        address: Option<String>,
    },
    /// Makes a file system on the array: [`Reply::Made`](crate::Reply::Made), after
    /// [`Reply::Working`](crate::Reply::Working) while that takes long. So do the next three.
    Mkfs {
        /// What kind.
        spec: MkfsSpec,
    },
    /// Mounts the array's file system: [`Reply::Mounted`](crate::Reply::Mounted).
    Mount {
        /// Where, and how.
        choice: MountChoice,
    },
    /// Looks for damage in a file system that is not mounted: [`Reply::Checked`](crate::Reply::Checked).
    Fsck {
        /// Mends what is wrong.
        mend: bool,
    },
    /// How full a file system is that is not mounted: [`Reply::Usage`](crate::Reply::Usage).
    Usage,
    /// How far [`Request::Mkfs`], [`Request::Mount`], [`Request::Fsck`] or [`Request::Usage`] has come; answered as they are.
    Worked {
        /// Which work: as its first answer said. The newest, if none.
        #[serde(default)]
        work: Option<u64>,
    },
    /// Whether a file system that was unmounted is written out, and let go of: [`Reply::Working`](crate::Reply::Working)
    /// until then, and an error if not all of it could be written.
    Unmounted,
    /// Stops the array and ends the daemon: [`Reply::Stopped`](crate::Reply::Stopped).
    Stop {
        /// Also if its block device is in use, or a member hangs.
        #[serde(default)]
        force: bool,
        /// While its cache is written to members, [`Reply::Emptying`](crate::Reply::Emptying) is answered, and the
        /// request is to be sent again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steps: bool,
    },
    /// Changes the write selection policy.
    Policy {
        /// Its name.
        policy: String,
    },
    /// Changes the cache: [`Reply::Emptying`](crate::Reply::Emptying) until the old one is empty.
    Cache {
        /// What is changed.
        change: CacheChange,
    },
    /// Begins to measure members' strides: [`Reply::Measuring`](crate::Reply::Measuring) until that is done.
    Measure,
    /// How far [`Request::Measure`] has come; answered as it is.
    Measured,
    /// How far what [`Request::Cache`] or [`Request::Detach`] writes out of the cache has come; answered as they are.
    Emptied,
    /// Says what kind of device a member is.
    Class {
        /// The member's path.
        member: String,
        /// What it is.
        class: ClassChoice,
    },
    /// Says what is known of a member's life. What is none stays as it is.
    Endurance {
        /// The member's path.
        member: String,
        /// What it may be written; 0 if that is not known.
        rated_write_bytes: Option<u64>,
        /// When its warranty ends, in seconds since 1970; 0 if it has none.
        warranty_end_s: Option<u64>,
        /// By how many days it shall outlive its warranty.
        warranty_margin_days: Option<u32>,
    },
    /// Starts keeping decisions of write selection, for this connection and as long as it lasts.
    Trace {
        /// Which.
        choice: TraceChoice,
    },
    /// The decisions from a number on: [`Reply::Traced`](crate::Reply::Traced). A daemon keeps some thousands
    /// between two questions, and ends the connection if it is asked nothing for five seconds.
    Traced {
        /// The number: 0 at first, then what the answer before said.
        since: u64,
    },
    /// Keeps decisions no more.
    #[serde(alias = "trace-stop")]
    TraceEnd,
    /// Puts load on the array, for this connection: it ends early with it, or if nobody asks how it stands
    /// for five seconds. A load that writes overwrites what is on the array.
    Load {
        /// What load.
        load: LoadSpec,
    },
    /// How the load stands: [`Reply::Load`](crate::Reply::Load).
    LoadStatus,
    /// No more requests of the load begin; the figures come when the last has ended.
    LoadEnd,
}

/// What clients of an NBD server may take; the server's own limit, if none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServeLimits {
    /// Clients at a time.
    pub connections: Option<usize>,
    /// Data that requests of all clients may hold together.
    pub in_flight_bytes: Option<u64>,
    /// Data that requests of one client may hold.
    pub connection_in_flight_bytes: Option<u64>,
    /// How long a client may ask nothing.
    pub idle_ms: Option<u64>,
}
