//! The laboratory: experiments on modelled disks in virtual time, and in real time over memory, and reports
//! with plots.
//!
//! * [`arrays`]: the arrays of the experiments. [`mod@point`]: one of them under a load, and its outcome.
//! * [`experiments`]: the papers' experiments, a file each. [`findings`]: claims with verdicts, and the
//!   report.
//! * [`runner`]: runs them over all cores, keeps finished points, writes files.
//! * [`driven`]: a load on any array, modelled or real. [`counters`]: one on both, and their counters.
//! * [`engine_bench`]: the engine in real time, over members in memory, and its pages. [`machine`]: the
//!   machine it ran on.
//! * [`realtime`]: a point of a real-time experiment.
//! * [`validate`]: how far the disk models are from data sheets, papers and analysis.
//! * [`ext3`]: a model of a file system, which makes loads for points.
//! * [`report`]: sections with checks, as a table, CSV files, and one self-contained page.
//! * [`plot`]: diagrams as SVG, without dependencies.
//!
//! Measurements on modelled disks are the same on every run and machine: all choices come from fixed seeds,
//! and parts that run in parallel are independent of one another. Analytic values use the platform's
//! exponential, which may differ in the last digit.

pub mod arrays;
pub mod counters;
pub mod driven;
pub mod engine_bench;
pub mod experiments;
pub mod ext3;
pub mod findings;
pub mod machine;
pub mod parallel;
mod phases;
pub mod plot;
pub mod point;
pub mod realtime;
pub mod report;
pub mod runner;
mod strides;
pub mod validate;
