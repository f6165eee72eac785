//! What experiments find: claims with verdicts, plots, tables; and the report that shows them.

mod amount;
mod claim;
mod html;
mod lab_report;
mod seeds;
mod table;
mod text;

pub use claim::{Claim, ClaimVerdict, Judged};
pub(crate) use html::write_table;
pub use lab_report::{ExperimentReport, LabReport};
pub use table::Table;

use crate::plot::Plot;

/// The findings of one experiment.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The paper's claims, and ours.
    pub claims: Vec<Claim>,
    /// Its plots.
    pub plots: Vec<Plot>,
    /// Its tables.
    pub tables: Vec<Table>,
}
