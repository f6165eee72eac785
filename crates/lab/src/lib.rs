//! The laboratory: experiments on modelled disks in virtual time, and reports with plots.
//!
//! * [`validate`]: how far the disk models are from data sheets, papers and analysis.
//! * [`report`]: sections with checks, as a table, CSV files, and one self-contained page.
//! * [`plot`]: diagrams as SVG, without dependencies.
//!
//! What is measured is the same on every run and machine: everything is drawn from fixed seeds, and what runs in parallel
//! is independent of one another. Analytic values use the platform's exponential, which may differ in the last digit.

pub mod parallel;
pub mod plot;
pub mod report;
pub mod validate;

pub use stripewise_sim::load;
