//! What experiments find: claims with verdicts, plots, tables; and the report that shows them.

mod amount;
mod claim;
mod html;
mod lab_report;
mod table;
mod text;

pub use claim::{Claim, ClaimVerdict, Judged};
pub(crate) use html::write_table;
pub use lab_report::{ExperimentReport, LabReport};
pub use table::Table;

use crate::plot::Plot;

/// What came of one experiment.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The paper's claims, and ours.
    pub claims: Vec<Claim>,
    /// What it looks like.
    pub plots: Vec<Plot>,
    /// What is best read as numbers.
    pub tables: Vec<Table>,
}
