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

/// Everything that was found out.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What it is about.
    pub title: String,
    /// What is said before the sections.
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
    /// What was done, and what is to be seen.
    pub text: Vec<String>,
    /// What was held against what.
    pub checks: Vec<Check>,
    /// What it looks like; in the CSV files, not in JSON.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

impl Report {
    /// All checks of all sections.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.sections.iter().flat_map(|section| &section.checks)
    }
}
