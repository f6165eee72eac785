//! What the end-to-end tests share: a sandbox around the built binary, tools that may be missing, loop devices and
//! mounts that are taken away again, and an NBD client.

#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

mod blockdevs;
mod client;
mod sandbox;
mod tools;

pub(crate) use blockdevs::{Loop, Mounted};
pub(crate) use client::{Client, noise};
pub(crate) use sandbox::{Sandbox, cpu_ticks, eventually, has_ended};
pub(crate) use tools::{Said, can_run, run_bounded, tool};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
