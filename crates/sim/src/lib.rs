//! A world in virtual time for the engine: one thread, a seeded scheduler, and members that can lose power.
//!
//! The same seed gives the same run: which ready task goes next, how long each I/O takes, what a crash leaves of
//! unflushed writes, all come from one generator. [`World::trace_hash`] proves it. The engine that runs here is the
//! one that users run; only [`stripewise_device::Env`] and [`stripewise_device::Device`] are others.

pub mod check;
mod events;
mod executor;
mod member;
pub mod story;
mod world;

pub use events::{Event, EventKind};
pub use member::{Lie, MemberSnapshot, SimMember};
pub use world::World;
