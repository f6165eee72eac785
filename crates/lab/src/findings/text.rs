//! The report for a terminal.

use std::fmt;

use super::{Claim, ClaimVerdict, ExperimentReport, LabReport};
use crate::runner::shell_word;

impl fmt::Display for LabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for experiment in &self.experiments {
            writeln!(f, "{experiment}")?;
        }
        let count = |verdict| self.experiments.iter().map(|one| one.count(verdict)).sum::<usize>();
        let (held, failed) = (count(ClaimVerdict::Reproduced), count(ClaimVerdict::NotReproduced));
        write!(f, "claims: {held} reproduced or hold, {failed} not")?;
        for (verdict, word) in
            [(ClaimVerdict::Undecided, "undecided"), (ClaimVerdict::NotDecidableHere, "not decidable here")]
        {
            match count(verdict) {
                0 => {}
                some => write!(f, ", {some} {word}")?,
            }
        }
        match self.missing() {
            0 => writeln!(f),
            missing => writeln!(
                f,
                ", {} open: {missing} points are missing; `{} --out {}` goes on with them",
                count(ClaimVerdict::Open),
                self.command,
                shell_word(&self.folder)
            ),
        }
    }
}

impl fmt::Display for ExperimentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} ({})\n  {}", self.id, self.title, self.source, self.amount)?;
        for table in &self.tables {
            write!(f, "{table}")?;
        }
        for claim in &self.claims {
            write!(f, "{claim}")?;
        }
        if !self.missing.is_empty() {
            writeln!(f, "  {} of {} points are missing:", self.missing.len(), self.points)?;
            self.missing_names().iter().try_for_each(|name| writeln!(f, "      {name}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  [{}] {}", self.word(), self.statement)?;
        for (name, text) in [("paper", &self.paper), ("measured", &self.measured), ("reason", &self.reason)] {
            if !text.is_empty() {
                writeln!(f, "      {name}: {text}")?;
            }
        }
        Ok(())
    }
}
