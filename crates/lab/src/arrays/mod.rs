//! The arrays of the experiments, over modelled disks.
//!
//! * [`shapes`]: which arrays there are, a line each.
//! * [`drives`]: the drives that their members are.
//! * [`Rig`]: one of them, made anew in a world of its own.

pub mod drives;
mod probe;
mod rig;
pub mod shapes;

pub use drives::{Drive, HddSetting};
pub use rig::{MemberWork, Rig};
pub use shapes::Shape;
