//! The thread-per-core executor whose reactor is io_uring.
//!
//! Every worker thread owns one ring, one task queue and one timer heap; a task stays on the worker it was spawned
//! on. I/O is queued into the ring as it is asked for and submitted once per turn, so one system call carries what
//! all runnable tasks asked. Waking a task of another worker goes through that worker's inbox and, only if it
//! sleeps, an eventfd. The figures behind this choice are in `docs/design/io-runtime.md`.

mod executor;
pub(crate) mod files;
pub mod net;
pub(crate) mod op;
mod reactor;
mod ring;
mod routed;
mod runtime;
mod started;
mod timer;

pub use runtime::{Runtime, RuntimeOptions};
pub use started::Started;
