//! A report as files in a folder: the page, all checks, and each plot's points.

use std::{fs, path::Path};

use super::{Report, check::Check};
use crate::{
    plot::quoted,
    runner::{Mark, RunError, at, replace, take_marked},
};

/// Its first line marks the folder as ours.
const CHECKS: &str = "checks.csv";
const HEADER: &str = "section,subject,check,unit,expected,measured,deviation,verdict,source,note\n";

const MARK: Mark =
    Mark { file: CHECKS, header: HEADER, lacks: "report of the disk models (there is no checks.csv of one)" };

/// Makes the folder of a report if it does not exist. It is ours if it is empty, or if it holds checks of an
/// earlier one.
///
/// # Errors
/// [`RunError::Occupied`] if it holds other things, and errors of the file system.
pub fn take(folder: &Path) -> Result<(), RunError> {
    take_marked(folder, &MARK)
}

impl Report {
    /// Writes `checks.csv`, `report.html`, and a CSV file for each plot into a folder of ours.
    ///
    /// # Errors
    /// As [`take`].
    pub fn write_to(&self, folder: &Path) -> Result<(), RunError> {
        take(folder)?;
        // First the file that marks the others as ours.
        replace(&folder.join(CHECKS), &self.checks_csv())?;
        let put = |name: String, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(at(path))
        };
        put("report.html".to_owned(), self.html())?;
        let mut plots = self.sections.iter().flat_map(|section| &section.plots);
        plots.try_for_each(|plot| put(format!("{}.csv", plot.name), plot.csv()))
    }

    fn checks_csv(&self) -> String {
        let mut text = HEADER.to_owned();
        for section in &self.sections {
            for check in &section.checks {
                text +=
                    &format!("{},{}\n", section.name, fields(check).map(|field| quoted(&field)).join(","));
            }
        }
        text
    }
}

fn fields(check: &Check) -> [String; 9] {
    [
        check.subject.clone(),
        check.what.clone(),
        check.unit.to_owned(),
        check.expected_text().replace(',', ""),
        check.measured.to_string(),
        check.deviation().map_or_else(String::new, |part| part.to_string()),
        check.verdict().word().to_owned(),
        check.source.clone(),
        check.note.unwrap_or_default().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_where_other_things_are() {
        let report = Report { title: "Checks".to_owned(), introduction: vec![], sections: vec![] };
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("report.html");
        fs::write(&theirs, "my thesis").unwrap();
        for checks in [None, Some("date,cheque\n")] {
            if let Some(text) = checks {
                fs::write(folder.path().join(CHECKS), text).unwrap();
            }
            let told = report.write_to(folder.path()).unwrap_err().to_string();
            assert!(
                told.contains("is not empty") && told.contains("give a new or an empty folder"),
                "{told}"
            );
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "my thesis");
        }
        let ours = tempfile::tempdir().unwrap();
        fs::write(ours.path().join("checks.new"), "sect").unwrap();
        report.write_to(ours.path()).unwrap();
        fs::remove_file(ours.path().join("report.html")).unwrap();
        report.write_to(ours.path()).unwrap();
        assert!(ours.path().join("report.html").exists() && !ours.path().join("checks.new").exists());
    }
}
