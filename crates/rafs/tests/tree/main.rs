//! The tree against a model, its shape, and what it makes of damaged nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod model;
mod shape;
mod stored;
mod world;
