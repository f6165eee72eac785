//! An explained write as people read it, in the shape of raid4s-modthresh's logs and msc-ct's matrices.

use std::fmt::Write;

use stripewise::internals::plan::selection::{self, Policy};
use stripewise_wire::BandStatus;

use super::stripe::{
    AfterPass, Explained, ExplainedBand, ExplainedColumn, ExplainedStripe, Filled, MatrixRows, MemberIo, Vote,
};
use crate::{output::rows_text, printable::printable, sizes::format_size, times::format_nanoseconds};

pub(super) fn draw(explained: &Explained) -> String {
    let mut text = String::new();
    for note in &explained.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for (index, stripe) in explained.stripes.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        draw_stripe(&mut text, explained, stripe);
    }
    text
}

fn draw_stripe(text: &mut String, explained: &Explained, stripe: &ExplainedStripe) {
    let redundant = stripe.columns.iter().filter(|column| column.holds != "data").count();
    let has_choice = stripe.bands.iter().any(|band| band.band.cycle != "direct");
    let by = if has_choice { format!(", by {}", explained.policy) } else { String::new() };
    let chunk = explained
        .chunk_bytes
        .map_or_else(String::new, |bytes| format!(", chunk {}", format_size(bytes as u64)));
    let _ = writeln!(
        text,
        "stripe {} of level {}, {}+{redundant}{chunk}: {} {} at {}{by}",
        stripe.stripe,
        explained.level,
        explained.disks - redundant,
        format_size(stripe.len_bytes),
        if stripe.cells.is_empty() { "written" } else { "destaged" },
        format_size(stripe.offset_bytes)
    );
    draw_cells(text, &stripe.cells);
    for band in &stripe.bands {
        draw_band(text, stripe, band, explained.policy);
    }
    draw_matrix(text, stripe, &stripe.matrix);
    if let Some(filled) = &stripe.filled {
        draw_filled(text, stripe, filled);
    }
    let _ = writeln!(
        text,
        "  (r read, t read beside the new, x into the XOR, xx old and new, _ its result, w write)"
    );
    if let Some(filled) = &stripe.filled {
        draw_saved(text, stripe, filled);
    }
    draw_requests(text, "reads", &stripe.reads);
    draw_requests(text, "writes", &stripe.writes);
}

/// What a cache holds: rows that are alike in a line.
fn draw_cells(text: &mut String, cells: &[String]) {
    let mut first = 0;
    for alike in cells.chunk_by(|a, b| a == b) {
        let rows = rows_text(&[(first, first + alike.len())]);
        let _ = writeln!(text, "  cached in rows {rows}: {}", alike[0]);
        first += alike.len();
    }
    if !cells.is_empty() {
        let _ = writeln!(text, "  (D dirty, P dirty in part, C clean, E empty)");
    }
}

fn draw_band(text: &mut String, stripe: &ExplainedStripe, explained: &ExplainedBand, policy: &str) {
    let band = &explained.band;
    let partial = if band.partial { ", some blocks only in part" } else { "" };
    let _ = writeln!(text, "\n  rows {}{partial}", rows_text(&band.rows));
    // The paper's loop counts down. Full and direct rows have nothing to count.
    let asked = if matches!(band.cycle.as_str(), "full" | "direct") { &[] } else { &explained.votes[..] };
    let mut votes: Vec<_> = asked.iter().zip(&stripe.columns).collect();
    votes.sort_by_key(|(vote, _)| std::cmp::Reverse(vote.disk));
    for (vote, column) in votes {
        if let Some(line) = vote_line(vote, column) {
            let _ = writeln!(text, "    {line}");
        }
    }
    if !asked.is_empty() {
        let _ = writeln!(text, "    (disk -> RMW: RMW would read it; disk -> RCW: RCW would)");
    }
    let _ = writeln!(text, "    {}", chosen(explained, policy));
    if let (Some(rmw_ns), Some(rcw_ns)) = (band.rmw_ns, band.rcw_ns) {
        let [rmw, rcw] = [rmw_ns, rcw_ns].map(format_nanoseconds);
        let _ = writeln!(text, "    estimated for the stripe: {rmw} with RMW here, {rcw} with RCW");
    }
    if let Some(rule) = tie(band, policy) {
        let _ = writeln!(text, "    {rule}");
    }
}

fn vote_line(vote: &Vote, column: &ExplainedColumn) -> Option<String> {
    let words: Vec<_> =
        [(vote.rmw, "RMW"), (vote.rcw, "RCW")].into_iter().filter(|(count, _)| *count > 0).collect();
    let (count, _) = words.first()?;
    let names: Vec<_> = words.iter().map(|(_, name)| *name).collect();
    let missing = if column.missing { format!(", missing: counts {count}") } else { String::new() };
    Some(format!("disk {} -> {}{missing}", vote.disk, names.join(", ")))
}

fn chosen(explained: &ExplainedBand, policy: &str) -> String {
    let band = &explained.band;
    let cycle = match band.cycle.as_str() {
        "direct" => return "written as they are: no parity is kept here, data alone".to_owned(),
        "full" => return "all data is new: parity from it alone, nothing is read".to_owned(),
        "recover" => "what is lost is recovered from parity first, then RCW".to_owned(),
        other => other.to_uppercase(),
    };
    let why = if band.free { format!("chosen by {policy}") } else { "the only way".to_owned() };
    format!("rmw={} rcw={}: {cycle}, {why}", band.rmw, band.rcw)
}

/// The rule that decided, if counts or estimates are equal or favour the other cycle.
fn tie(band: &BandStatus, policy: &str) -> Option<String> {
    let Policy { name, summary, .. } = selection::policy(policy).ok().filter(|_| band.free)?;
    let weighs = band.rmw_ns.is_some();
    let what = match weighs {
        true if band.is_by_margin() => "the other is estimated to cost less, but within the margin",
        true if band.rmw_ns == band.rcw_ns => "both are estimated to cost the same",
        false if band.rmw == band.rcw => "both read as many blocks",
        _ => return None,
    };
    let fewest = if band.rmw < band.rcw { "rmw" } else { "rcw" };
    let alike =
        if weighs && band.cycle != fewest { ", and these rows go with the stripe's others" } else { "" };
    Some(format!("{what}{alike}; {name}: {summary}"))
}

/// What each pass adds.
fn draw_filled(text: &mut String, stripe: &ExplainedStripe, filled: &Filled) {
    for AfterPass { pass, matrix } in &filled.passes {
        let _ = writeln!(text, "\n  {pass} (+ what is added)");
        draw_matrix(text, stripe, matrix);
    }
}

/// Requests before and after.
fn draw_saved(text: &mut String, stripe: &ExplainedStripe, filled: &Filled) {
    let [reads, writes] = filled.requests_before;
    let (reads_now, writes_now) = (stripe.reads.len(), stripe.writes.len());
    let _ = writeln!(
        text,
        "\n  requests: {reads} reads and {writes} writes; with gaps filled, {reads_now} and {writes_now}"
    );
}

fn draw_matrix(text: &mut String, stripe: &ExplainedStripe, matrix: &[MatrixRows]) {
    let mut lines = vec![header(stripe)];
    for rows in matrix {
        let mut line = vec![rows_text(&[(rows.first, rows.last + 1)])];
        line.extend(rows.cells.iter().cloned());
        lines.push(line);
    }
    let widths: Vec<_> = (0..=stripe.columns.len())
        .map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0))
        .collect();
    text.push('\n');
    for line in lines {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
}

fn header(stripe: &ExplainedStripe) -> Vec<String> {
    let name = |column: &ExplainedColumn| {
        let holds = if column.holds == "data" { String::new() } else { format!(" {}", column.holds) };
        format!("disk {}{holds}{}", column.disk, if column.missing { " missing" } else { "" })
    };
    std::iter::once("rows".to_owned()).chain(stripe.columns.iter().map(name)).collect()
}

fn draw_requests(text: &mut String, what: &str, requests: &[MemberIo]) {
    let _ = writeln!(text, "\n  {what}:{}", if requests.is_empty() { " none" } else { "" });
    for request in requests {
        let device =
            request.device.as_ref().map(|device| format!(", {}", printable(device))).unwrap_or_default();
        let (len, at) = (format_size(request.len_bytes), format_size(request.offset_bytes));
        let _ = writeln!(text, "    disk {}{device}: {len} at {at}", request.disk);
    }
}
