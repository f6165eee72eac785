//! SSDs whose rated life is known here, each with its source.

use serde::Serialize;

const TB: u64 = 1_000_000_000_000;

/// A model.
#[derive(Debug, Serialize)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// How much may be written to it.
    pub(crate) rated_write_bytes: u64,
    pub(crate) source: &'static str,
}

const fn model(name: &'static str, terabytes: u64, source: &'static str) -> Model {
    Model { name, rated_write_bytes: terabytes * TB, source }
}

const SLIDES: &str = "RAID4S slides: 2 PB of random writes";
const PRO_980: &str = "Samsung's rating for the 980 PRO (5 years)";
const EVO_970: &str = "Samsung's rating for the 970 EVO (5 years)";
const DC_845: &str = "Samsung's warranty conditions for the 845 DC PRO (5 years)";

/// All known models.
pub(crate) static MODELS: [Model; 11] = [
    model("x25-e-64g", 2000, SLIDES),
    model("980-pro-250g", 150, PRO_980),
    model("980-pro-500g", 300, PRO_980),
    model("980-pro-1t", 600, PRO_980),
    model("980-pro-2t", 1200, PRO_980),
    model("970-evo-250g", 150, EVO_970),
    model("970-evo-500g", 300, EVO_970),
    model("970-evo-1t", 600, EVO_970),
    model("970-evo-2t", 1200, EVO_970),
    model("845-dc-pro-400g", 7300, DC_845),
    model("845-dc-pro-800g", 14_600, DC_845),
];

/// How much may be written to a model, if it is known.
pub(crate) fn rated_write_bytes(name: &str) -> Option<u64> {
    MODELS.iter().find(|model| model.name.eq_ignore_ascii_case(name)).map(|model| model.rated_write_bytes)
}
