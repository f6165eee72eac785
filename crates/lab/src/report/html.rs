//! A report as one self-contained page: style and drawings are in it.

use std::fmt::Write;

use super::{
    Check, Report, Section, Verdict,
    check::number,
    page::{begin, paragraphs},
};
use crate::plot::escaped;

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = begin(&self.title);
        paragraphs(&mut page, &self.introduction);
        self.write_summary(&mut page);
        self.sections.iter().for_each(|section| write_section(&mut page, section));
        page + "</body>\n</html>\n"
    }

    fn write_summary(&self, page: &mut String) {
        page.push_str(
            "<table><tr><th>experiment</th><th class=\"number\">agree</th>\
                       <th class=\"number\">differ</th><th class=\"number\">given</th></tr>\n",
        );
        for section in &self.sections {
            let count = |verdict| section.checks.iter().filter(|check| check.verdict() == verdict).count();
            let _ = writeln!(
                page,
                "<tr><td><a href=\"#{}\">{}</a></td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
                 <td class=\"number\">{}</td></tr>",
                section.name,
                escaped(&section.title),
                count(Verdict::Agrees),
                count(Verdict::Differs),
                count(Verdict::Given)
            );
        }
        page.push_str("</table>\n");
    }
}

fn write_section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", section.name, escaped(&section.title));
    paragraphs(page, &section.text);
    section.plots.iter().for_each(|plot| page.push_str(&plot.svg()));
    page.push_str(
        "<table><tr><th>subject</th><th>check</th><th class=\"number\">expected</th>\
         <th class=\"number\">measured</th><th class=\"number\">deviation</th><th>verdict</th><th>source</th></tr>\n",
    );
    section.checks.iter().for_each(|check| write_check(page, check));
    page.push_str("</table>\n");
}

fn write_check(page: &mut String, check: &Check) {
    let note = check.note.filter(|_| check.verdict() == Verdict::Differs);
    let (noted, word) = (if note.is_some() { "noted" } else { "" }, check.verdict().word());
    let _ = writeln!(
        page,
        "<tr class=\"{noted}\"><td>{}</td><td>{}</td><td class=\"number\">{} {}</td>\
         <td class=\"number\">{} {}</td><td class=\"number\">{}</td><td class=\"{word}\">{word}</td>\
         <td class=\"source\">{}</td></tr>",
        escaped(&check.subject),
        escaped(&check.what),
        escaped(&check.expected_text()),
        check.unit,
        number(check.measured),
        check.unit,
        check.deviation_text(),
        escaped(&check.source)
    );
    if let Some(note) = note {
        let _ = writeln!(page, "<tr><td class=\"note\" colspan=\"7\">{}</td></tr>", escaped(note));
    }
}
