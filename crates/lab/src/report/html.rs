//! A report as one page that needs nothing else: style and drawings are in it.

use std::fmt::Write;

use super::{Check, Report, Section, Verdict, check::number};
use crate::plot::escaped;

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; margin: 1rem 0; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid #e4e4e4; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.note { color: #555; border-bottom: 1px solid #e4e4e4; padding: 0 .5rem .5rem 1.6rem; }
tr.noted td { border-bottom: none; padding-bottom: .1rem; }
.agrees { color: #00704a; font-weight: 600; } .differs { color: #b34700; font-weight: 600; } .given { color: #666; }
.source { color: #555; } svg { width: 100%; height: auto; margin: .6rem 0; } nav { margin: 1rem 0; }
";

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        let title = escaped(&self.title);
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        );
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

fn paragraphs(page: &mut String, texts: &[String]) {
    for text in texts {
        let _ = writeln!(page, "<p>{}</p>", escaped(text));
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
