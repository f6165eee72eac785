//! What the tests of all crates share: programs that a machine may lack, and the guest that runs the kernel's md.
//!
//! A test says what it [`Need`]s and ends where that is not here. Each test that ends so is recorded with its reason,
//! because a test runner calls it passed: `scripts/test` lists the records at its end. With `STRIPEWISE_REQUIRE_TOOLS=1` a
//! test fails instead for what an installation or an administrator could have given it.
//!
//! Only `dev-dependencies` name this crate; nothing that is shipped contains it.

pub mod guest;
mod needs;
mod programs;
mod record;
pub mod served;

pub use needs::{Lack, Need, can_run, can_try, go_on, lacks};
pub use programs::{Said, run_bounded, tool, tool_said, which};
