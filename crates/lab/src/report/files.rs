//! A report as files in a folder: the page, all checks, and each plot's points.

use std::{fs, io, path::Path};

use super::{Report, check::Check};
use crate::plot::quoted;

impl Report {
    /// Writes `report.html`, `checks.csv`, and a CSV file for each plot. The folder is made if it is not there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("report.html"), self.html())?;
        fs::write(folder.join("checks.csv"), self.checks_csv())?;
        for plot in self.sections.iter().flat_map(|section| &section.plots) {
            fs::write(folder.join(format!("{}.csv", plot.name)), plot.csv())?;
        }
        Ok(())
    }

    fn checks_csv(&self) -> String {
        let mut text =
            "section,subject,check,unit,expected,measured,deviation,verdict,source,note\n".to_owned();
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
