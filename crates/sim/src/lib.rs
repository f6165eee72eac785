//! A world in virtual time for the engine: one thread, a seeded scheduler, and members that can lose power.
//!
//! The same seed gives the same run: which ready task goes next, how long each I/O takes, what a crash leaves of
//! unflushed writes, all come from one generator. [`World::trace_hash`] proves it. The engine that runs here is the
//! one that users run; only [`stripewise_device::Env`] and [`stripewise_device::Device`] are others.

mod executor;
pub mod load;
mod member;
pub mod model;
mod timers;
mod world;

pub use member::{MemberSnapshot, SimMember};
pub use world::World;
