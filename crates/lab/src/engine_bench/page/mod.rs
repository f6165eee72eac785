//! Figures as a folder: a page that needs nothing else, and CSV files of all that is on it.

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
    /// Where it ran.
    pub machine: &'a Machine,
    /// What was asked for.
    pub options: &'a Options,
    /// What came of it.
    pub figures: &'a [Figure],
}

#[cfg(test)]
mod tests;
