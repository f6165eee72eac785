//! The report for a terminal.

use std::fmt;

use super::{Claim, ClaimVerdict, ExperimentReport, LabReport};

impl fmt::Display for LabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for experiment in &self.experiments {
            writeln!(f, "{experiment}")?;
        }
        let count = |verdict| self.experiments.iter().map(|one| one.count(verdict)).sum::<usize>();
        let (held, failed) = (count(ClaimVerdict::Reproduced), count(ClaimVerdict::NotReproduced));
        write!(f, "claims: {held} reproduced or hold, {failed} not")?;
        match count(ClaimVerdict::Undecided) {
            0 => {}
            undecided => write!(f, ", {undecided} undecided")?,
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
            writeln!(f, "  {} of {} points are missing", self.missing.len(), self.points)?;
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

/// A word as a shell takes it for one.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(shell_word("results/a-1"), "results/a-1");
        assert_eq!(shell_word("my results"), "'my results'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }
}
