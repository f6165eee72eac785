//! What the end-to-end tests share: a sandbox around the built binary, loop devices and mounts that are taken
//! away again, and an NBD client. What a machine may lack is `stripewise-testkit`'s.

#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

mod blockdevs;
mod client;
mod hanging;
mod sandbox;

pub(crate) use blockdevs::{Loop, Mounted};
pub(crate) use client::{Client, noise};
pub(crate) use hanging::{Halted, can_serve_files, on_a_served_file, served_file};
pub(crate) use sandbox::{Sandbox, cpu_ticks, eventually, has_ended, thread_states};
pub(crate) use stripewise_testkit::{Need, Said, can_run, can_try, run_bounded, tool};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
