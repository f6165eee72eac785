//! Shared parts of all pages of the laboratory: style, and the layout of text.

use std::fmt::Write;

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
td.verdict, td a { white-space: nowrap; } code { font-size: 13px; background: #f4f4f4; padding: .1rem .3rem; }
td.paper { min-width: 4rem; } table.facts { width: auto; } table.facts th { font-weight: 600; white-space: nowrap; }
table.numbers { width: auto; } caption { text-align: left; font-weight: 600; padding: .3rem .5rem; }
table.numbers th.number { white-space: normal; } table.numbers td, table.numbers th { padding: .1rem .7rem .1rem .5rem; } details { margin: 1rem 0; }
";

/// A page up to its heading.
pub(crate) fn begin(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
    )
}

/// Text, a paragraph each.
pub(crate) fn paragraphs(page: &mut String, texts: &[impl AsRef<str>]) {
    for text in texts {
        let _ = writeln!(page, "<p>{}</p>", prose(text.as_ref()));
    }
}

/// Text for a page; text between backticks is code.
pub(crate) fn prose(text: &str) -> String {
    let parts = escaped(text);
    let mut parts = parts.split('`');
    let mut html = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        html += if index % 2 == 0 { "<code>" } else { "</code>" };
        html += part;
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_are_code() {
        assert_eq!(prose("a `b < c` d"), "a <code>b &lt; c</code> d");
    }
}
