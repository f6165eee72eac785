//! The laboratory: experiments on modelled disks in virtual time, and reports with plots.
//!
//! * [`validate`]: how far the disk models are from data sheets, papers and analysis.
//! * [`report`]: sections with checks, as a table, CSV files, and one self-contained page.
//! * [`plot`]: diagrams as SVG, without dependencies.
//!
//! Results are the same on every run and machine: everything is drawn from fixed seeds, and what runs in parallel is
//! independent of one another.

pub mod parallel;
pub mod plot;
pub mod report;
pub mod validate;
