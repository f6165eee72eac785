//! Figures as a folder: a self-contained page, and CSV files of everything on it.

mod files;
mod html;
mod plots;
mod sections;

pub use self::files::take;
use super::{Figure, Options};
use crate::machine::Machine;

/// A run of the benchmark, to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The command that made it, for a shell.
    pub command: &'a str,
    /// The machine that it ran on.
    pub machine: &'a Machine,
    /// The options of the run.
    pub options: &'a Options,
    /// The results.
    pub figures: &'a [Figure],
}

#[cfg(test)]
mod tests;
