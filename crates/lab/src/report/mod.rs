//! Reports: sections with text, checks and plots; as a table, CSV files, and one page.

mod check;
mod files;
mod html;
pub(crate) mod page;
mod table;

pub use check::{Basis, Check, Expected, Verdict};
pub use files::take;
use serde::Serialize;

use crate::plot::Plot;

/// A report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Its subject.
    pub title: String,
    /// The text before the sections.
    pub introduction: Vec<String>,
    /// The experiments.
    pub sections: Vec<Section>,
}

/// One experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// A word for it.
    pub name: &'static str,
    /// Its heading.
    pub title: String,
    /// What was done, and what the section shows.
    pub text: Vec<String>,
    /// The checks.
    pub checks: Vec<Check>,
    /// The plots; in the CSV files, not in JSON.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

impl Report {
    /// All checks of all sections.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.sections.iter().flat_map(|section| &section.checks)
    }
}
