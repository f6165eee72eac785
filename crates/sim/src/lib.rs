//! A world in virtual time for the engine: one thread, a seeded scheduler, members that can lose power, disks
//! that take the time of real ones, and clients. Load for them is in `stripewise-load`.
//!
//! The same seed gives the same run: one generator decides which ready task goes next, how long each I/O
//! takes, and what a crash leaves of unflushed writes. [`World::trace_hash`] proves it. The engine that runs
//! here is the one that users run; only [`stripewise_device::Env`] and [`stripewise_device::Device`] differ.
//!
//! * [`SimMember`]: for correctness. Random latencies, a volatile cache, power failures.
//! * [`model`]: for performance. Modelled disks, which lose nothing in a power failure that real ones would.
//! * [`stress`]: the same clients and checkers with real threads.
//! * [`exhaust`]: short histories, with a power failure at every step and all that it may leave.
//! * [`rafs`]: stories of the file system; [`ace`]: short workloads of it, with every crash;
//! * [`story`], [`check`]: arrays that live and die by a seed, and the checkers of what they leave.

pub mod ace;
pub mod check;
pub mod client;
mod events;
mod executor;
pub mod exhaust;
mod fates;
mod member;
pub mod model;
mod outlook;
pub mod rafs;
pub mod story;
pub mod stress;
mod timers;
mod world;

pub use events::{Event, EventKind, Sight};
pub use member::{Fate, Lie, Manners, MemberImage, MemberSnapshot, OpenWrite, SimMember, Zeroes};
pub use world::World;
