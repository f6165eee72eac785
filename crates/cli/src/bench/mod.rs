//! `stripewise bench`: measured figures beside a limit measured in the same run.

mod engine;
mod limit;

pub(crate) use engine::{EngineBench, run_engine};
