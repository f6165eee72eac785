//! A world in virtual time for the engine: one thread, a seeded scheduler, members that can lose power, disks that
//! take the time of real ones, and clients. Load for them is in `stripewise-load`.
//!
//! The same seed gives the same run: which ready task goes next, how long each I/O takes, what a crash leaves of
//! unflushed writes, all come from one generator. [`World::trace_hash`] proves it. The engine that runs here is the
//! one that users run; only [`stripewise_device::Env`] and [`stripewise_device::Device`] are others.
//!
//! * [`SimMember`]: for correctness. Random latencies, a volatile cache, power failures.
//! * [`model`]: for performance. Modelled disks, whose contents survive what they would not in reality.
//! * [`stress`]: the same clients and checkers with real threads.
//! * [`exhaust`]: short histories, with a power failure at every step and all that it may leave.
//! * [`story`], [`check`]: arrays that live and die by a seed, and those who look at what is left.

pub mod check;
pub mod client;
mod events;
mod executor;
pub mod exhaust;
mod member;
pub mod model;
pub mod story;
pub mod stress;
mod timers;
mod world;

pub use events::{Event, EventKind, Sight};
pub use member::{Fate, Lie, Manners, MemberImage, MemberSnapshot, OpenWrite, SimMember, Zeroes};
pub use world::World;
