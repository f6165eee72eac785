//! The thread-per-core executor whose reactor is io_uring.
//!
//! Every worker thread owns one ring, one task queue and one timer heap; a task stays on the worker it was
//! spawned on. Requests enter the ring as tasks make them and are submitted once per turn, so one system call
//! carries the requests of all runnable tasks. Waking a task of another worker goes through that worker's
//! inbox and, only if it sleeps, an eventfd. The figures behind this choice are in
//! `docs/design/io-runtime.md`.

mod executor;
pub(crate) mod files;
mod lookout;
pub mod net;
pub(crate) mod op;
mod reactor;
mod ring;
mod routed;
mod runtime;
mod started;
mod timer;
mod waiting;

pub use lookout::{Lookout, Slow};
pub use runtime::{Runtime, RuntimeOptions};
pub use started::Started;
