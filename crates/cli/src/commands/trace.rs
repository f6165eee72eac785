//! `stripewise trace`: what write selection decides, as it decides it.

use std::{
    io::Write,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use clap::{Args, builder::TypedValueParser};
use stripewise_wire::{BandStatus, DecisionStatus, Reply, Request, TraceChoice, TraceCycle, TracedStatus};

use crate::{
    choices::one_of,
    client::Connection,
    interrupt::Interrupt,
    numbers::within,
    output::rows_text,
    rundir::parse_name,
    said::note,
    sizes::{format_size, parse_size},
    times::{format_nanoseconds, parse_time},
};

/// How often the daemon is asked.
const POLL: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Args)]
pub(crate) struct TraceArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Only stripe writes with rows written by these cycles, separated by commas.
    #[arg(long, value_parser = cycle_parser(), value_delimiter = ',')]
    cycle: Vec<TraceCycle>,
    /// Only of these stripes, from the first to before the second.
    #[arg(long, value_name = "FIRST..END", value_parser = parse_stripes)]
    stripes: Option<(u64, u64)>,
    /// Only those in which the policy had a choice.
    #[arg(long)]
    chosen: bool,
    /// Only of at least so many bytes in the stripe.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0")]
    min: u64,
    /// End after so many.
    #[arg(long, value_parser = within(1..=u64::MAX))]
    count: Option<u64>,
    /// End after so long: seconds, or a number with ms, s, m, h or d.
    #[arg(long, value_parser = parse_time)]
    seconds: Option<Duration>,
}

fn cycle_parser() -> impl TypedValueParser<Value = TraceCycle> {
    one_of(TraceCycle::ALL, TraceCycle::name, |cycle| match cycle {
        TraceCycle::Rmw => "Read-modify-write",
        TraceCycle::Rcw => "Reconstruct-write",
        TraceCycle::Full => "All data of the row is new",
    })
}

fn parse_stripes(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    ends.filter(|(from, to)| from < to).ok_or_else(|| format!("'{text}' is not FIRST..END, such as 0..100"))
}

/// Prints decisions until there are enough, time is up, or a signal comes. JSON is one object per line.
pub(crate) fn trace(args: &TraceArgs, json: bool) -> anyhow::Result<ExitCode> {
    let choice = TraceChoice {
        cycles: args.cycle.clone(),
        stripes: args.stripes,
        chosen_only: args.chosen,
        min_bytes: args.min,
    };
    let name = &args.name;
    let mut daemon = Connection::open(name)?;
    let interrupt = Interrupt::watch()?;
    daemon.command(&Request::Trace { choice })?;
    // Like tcpdump's message that it listens: without stripe writes, nothing else is printed.
    note!("stripewise: {name}: waiting for stripe writes; Ctrl-C ends the trace");
    let begun = Instant::now();
    let mut follow = Follow { args, json, begun, since: 0, printed: 0, lost: 0, from_ns: None };
    follow.run(&mut daemon, &interrupt)?;
    let Follow { printed, lost, .. } = follow;
    // Ends the trace before this command ends, so that the next trace finds it free.
    daemon.command(&Request::TraceEnd)?;
    if lost > 0 {
        note!("stripewise: {name}: {lost} decisions were lost: they came faster than they were taken");
    }
    if printed == 0 {
        note!("stripewise: {name}: no such stripe was written meanwhile");
    }
    Ok(ExitCode::SUCCESS)
}

/// A trace that is being printed.
struct Follow<'a> {
    args: &'a TraceArgs,
    json: bool,
    begun: Instant,
    since: u64,
    printed: u64,
    lost: u64,
    /// When the first decision was made: times count from it.
    from_ns: Option<u64>,
}

impl Follow<'_> {
    fn run(&mut self, daemon: &mut Connection, interrupt: &Interrupt) -> anyhow::Result<()> {
        loop {
            // Decisions made before the end are printed all the same.
            let is_over =
                self.args.seconds.is_some_and(|limit| self.begun.elapsed() >= limit) || interrupt.is_asked();
            let TracedStatus { decisions, lost, next } = self.ask(daemon)?;
            (self.since, self.lost) = (next, self.lost + lost);
            let mut out = std::io::stdout().lock();
            for decision in decisions {
                if self.args.count.is_some_and(|count| self.printed >= count) {
                    return Ok(());
                }
                self.printed += 1;
                let from_ns = *self.from_ns.get_or_insert(decision.at_ns);
                let line =
                    if self.json { serde_json::to_string(&decision)? } else { line(&decision, from_ns) };
                writeln!(out, "{line}")?;
            }
            out.flush()?;
            if is_over || self.args.count.is_some_and(|count| self.printed >= count) {
                return Ok(());
            }
            let left = self.args.seconds.map(|limit| limit.saturating_sub(self.begun.elapsed()));
            thread::sleep(left.map_or(POLL, |left| left.min(POLL)));
        }
    }

    fn ask(&self, daemon: &mut Connection) -> anyhow::Result<TracedStatus> {
        match daemon.ask(&Request::Traced { since: self.since })? {
            Reply::Traced(traced) => Ok(traced),
            other => bail!("{}: unexpected answer {other:?}", self.args.name),
        }
    }
}

fn line(decision: &DecisionStatus, from_ns: u64) -> String {
    let bands: Vec<_> = decision.bands.iter().map(|band| band_text(band, &decision.policy)).collect();
    let way = decision.way.as_ref().map_or(String::new(), |way| format!(" [{way}]"));
    format!(
        "{:>12.6}  stripe {:<8} {:>9} at {:<10}  {}{way}",
        decision.at_ns.saturating_sub(from_ns) as f64 / 1e9,
        decision.stripe,
        format_size(decision.len_bytes),
        format_size(decision.offset_bytes),
        bands.join("; ")
    )
}

fn band_text(band: &BandStatus, policy: &str) -> String {
    let BandStatus { rmw, rcw, .. } = band;
    let mut text =
        format!("{} rows {} rmw={rmw} rcw={rcw}", band.cycle.to_uppercase(), rows_text(&band.rows));
    if band.free {
        text += &format!(" by {policy}");
    }
    if let (Some(rmw_ns), Some(rcw_ns)) = (band.rmw_ns, band.rcw_ns) {
        let margin = if band.is_by_margin() { ", within the margin" } else { "" };
        let [rmw, rcw] = [rmw_ns, rcw_ns].map(format_nanoseconds);
        text += &format!(" (RMW {rmw}, RCW {rcw}{margin})");
    }
    text
}
