//! The laboratory: experiments on modelled disks in virtual time, and in real time over memory, and reports with plots.
//!
//! * [`arrays`]: the arrays of the experiments. [`mod@point`]: one of them under a load, and what comes of it.
//! * [`experiments`]: the papers' experiments, a file each. [`findings`]: claims with verdicts, and the report.
//! * [`runner`]: runs them over all cores, keeps what is finished, writes files.
//! * [`driven`]: a load on any array, modelled or real. [`counters`]: one on both, and what they counted.
//! * [`engine_bench`]: the engine in real time, over members in memory, and its pages. [`machine`]: on which.
//! * [`realtime`]: a point of an experiment that is made of it.
//! * [`validate`]: how far the disk models are from data sheets, papers and analysis.
//! * [`report`]: sections with checks, as a table, CSV files, and one self-contained page.
//! * [`plot`]: diagrams as SVG, without dependencies.
//!
//! What is measured on modelled disks is the same on every run and machine: everything is drawn from fixed seeds, and what runs in parallel
//! is independent of one another. Analytic values use the platform's exponential, which may differ in the last digit.

pub mod arrays;
pub mod counters;
pub mod driven;
pub mod engine_bench;
pub mod experiments;
pub mod findings;
pub mod machine;
pub mod parallel;
pub mod plot;
pub mod point;
pub mod realtime;
pub mod report;
pub mod runner;
pub mod validate;
