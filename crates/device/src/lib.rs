//! The traits through which the engine sees the world, and the worlds that implement them.
//!
//! * [`Device`]: a member's bytes; [`Env`]: clock, tasks, randomness.
//! * [`buf`]: owned, aligned, pooled buffers that I/O can hold on to.
//! * [`memory`]: a member in memory. [`mod@file`]: a block device or regular file over io_uring.
//! * [`parts`]: which part of the engine a thread is in, for a sampler.
//! * [`wrap`]: small layers over any member (count, trace, delay, fault) that stack freely.
//! * [`uring`]: the thread-per-core executor whose reactor is io_uring.
//!
//! This crate and `parity` are the homes of `unsafe`; each block says why it is sound.

mod arena;
pub mod buf;
mod device;
mod env;
mod error;
pub mod file;
pub mod frames;
mod future;
pub mod memory;
pub mod parts;
pub mod sync;
pub mod uring;
pub mod wrap;

pub use buf::{BUF_ALIGN, Block, IoBuf, SharedBuf};
pub use device::{
    Completion, Device, DeviceInfo, Extent, MediaKind, ReadBufs, ReadDone, WriteBufs, WriteFlags, ZeroFlags,
    bufs_len,
};
pub use env::{BoxFuture, Env, EnvHandle, Timestamp};
pub use error::{IoError, IoErrorKind};
pub use future::{IoFuture, RequestKeeper, Waiting};
