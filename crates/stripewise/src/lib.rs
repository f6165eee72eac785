//! Stripewise as a library: open a parity array in your own process and read and write it with futures.
//!
//! A [`Host`] is the io_uring runtime of this process. It opens members (block devices or files) and makes or
//! assembles [`Array`]s from them; an array's requests are futures that run on the host's workers.
//!
//! ```no_run
//! use stripewise::{AssembleOptions, Host, HostOptions, IoBuf, WriteFlags};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::start(&HostOptions::default())?;
//! let array = host.assemble(["/dev/sda", "/dev/sdb", "/dev/sdc"], AssembleOptions::default())?;
//! host.block_on(async move {
//!     array.write(0, IoBuf::copy_of(&[7; 4096]).freeze(), WriteFlags { fua: true }).await?;
//!     let block = array.read(0, IoBuf::with_len(4096)).await?;
//!     assert!(block.iter().all(|byte| *byte == 7));
//!     array.stop().await
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! # A file system
//!
//! [`rafs`] is a file system that writes whole stripes of an array. [`rafs::fs::Fs`] makes, mounts and unmounts it in this process, and
//! has its operations as futures: no kernel and no FUSE takes part. It lies on a [`Volume`](rafs::volume::Volume): on an array it is
//! an [`ArrayVolume`](rafs::volume::ArrayVolume), on any other [`Device`] a [`DeviceVolume`](rafs::volume::DeviceVolume).
//! `examples/rafs.rs` makes one in a file, and appends to a file in it.
//!
//! # What is promised
//!
//! What this crate exports by name is its interface: it changes with the version, as Semantic Versioning has
//! it. Options, errors and reports may grow, so that they are made by setters and matched with a last arm.
//! [`internals`] is open to look at and to try policies in, and may change with any version; so may [`rafs`], which is new. What
//! it keeps on a volume is in `docs/rafs-format.md`.
//!
//! A write is some thousand instructions in several crates. Where they count, as over memory or fast flash,
//! build with `lto = "thin"` and `codegen-units = 1` in the profile of your own workspace, as the
//! `stripewise` command is built. Without them 4 KiB writes over members in memory took a seventh to three
//! quarters longer.

mod blocking;
mod host;

pub use blocking::{Blocking, wait};
pub use host::{Host, HostError, HostOptions, MemberSource};
pub use stripewise_device::{
    BoxFuture, Completion, Device, DeviceInfo, Env, EnvHandle, Extent, IoBuf, IoError, IoErrorKind, IoFuture,
    MediaKind, ReadBufs, ReadDone, RequestKeeper, SharedBuf, Timestamp, WriteBufs, WriteFlags, ZeroFlags,
    bufs_len, file, memory, uring::RuntimeOptions,
};
pub use stripewise_engine::{
    AddOptions, Array, ArrayDevice, ArrayError, ArrayEvent, ArrayEvents, ArrayReport, AssembleError,
    AssembleOptions, BitmapReport, CacheAlloc, CacheError, CacheKind, CachePast, CacheReport, CacheSettings,
    CreateError, CreateOptions, Decision, DestageReason, Destaged, Examination, ExamineError, Excluded,
    JobKind, JobOutcome, JobReport, MemberReport, MemberState, MemberStats, MemberStatsReport, Mismatch,
    ParityPlace, Preview, ReadCache, ServiceTimes, SpeedLimits, Stats, StatsReport, StrideBenches,
    StrideChoice, StrideLimit, StrideLimits, StrideRecords, StripeReport, StripeWay, TraceFilter, Traced,
    advice, assemble, endurance, examine, geometry, measure, measure_strides, preview,
};
pub use stripewise_export as export;
pub use stripewise_rafs as rafs;

/// The parts that an array is made of. They may change with any version.
pub mod internals {
    pub use stripewise_device::{parts, uring, wrap};
    pub use stripewise_engine::{destage, format_compared_sizes, format_size, locking, plan, rows};
    pub use stripewise_format as format;
    pub use stripewise_parity as parity;
}
