//! `stripewise endurance`: how much may be written to members, how much was written, and when they will be
//! worn out.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use stripewise_wire::{EnduranceStatus, MemberStatus, Request};

use super::{chosen, tell};
use crate::{
    client,
    dates::{self, now_s, parse_day},
    given::absolute_path,
    models::{self, MODELS},
    numbers::within,
    output,
    printable::printable,
    rundir::parse_name,
    said::{print_json, say, tell_notes},
    sizes::{NoSize, format_decimal_size, parse_decimal_size},
};

const DAY_S: u64 = 86_400;
/// The longest warranty that is believed, in years.
const YEARS_MAX: u64 = 100;
/// The same, in days.
const MARGIN_DAYS_MAX: u32 = 365 * YEARS_MAX as u32;

#[derive(Debug, Clone, Args)]
pub(crate) struct EnduranceArgs {
    /// The array.
    #[arg(value_parser = parse_name, required_unless_present = "models")]
    name: Option<String>,
    /// Only this member.
    device: Option<String>,
    /// What the member may be written: a decimal size as makers give it (600T is 600e12 bytes), a MODEL that
    /// `--models` lists, or `none` if that is not known.
    #[arg(long, value_name = "SIZE|MODEL|none", value_parser = parse_tbw, requires = "device")]
    tbw: Option<u64>,
    /// When its warranty ends: a date, or years from now; `none` if it has none.
    #[arg(long, value_name = "YYYY-MM-DD|YEARSy|none", value_parser = parse_warranty, requires = "device")]
    warranty: Option<u64>,
    /// By how many days it shall outlive its warranty.
    #[arg(long, value_name = "DAYS", requires = "device", value_parser = within(0..=MARGIN_DAYS_MAX))]
    margin: Option<u32>,
    /// List the models whose rated life is known here, and from where.
    #[arg(long, conflicts_with = "name")]
    models: bool,
}

pub(crate) fn endurance(args: &EnduranceArgs, json: bool) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name.as_deref() else { return list_models(json) };
    if let Some(device) = &args.device
        && (args.tbw.is_some() || args.warranty.is_some() || args.margin.is_some())
    {
        client::command(
            name,
            &Request::Endurance {
                member: absolute_path(device)?,
                rated_write_bytes: args.tbw,
                warranty_end_s: args.warranty,
                warranty_margin_days: args.margin,
            },
        )?;
        tell(name, json, &kept(device, args));
        let said = args.warranty.and_then(past_warranty).into_iter().chain(spent_rating(name, args));
        tell_notes(name, &said.collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    let status = client::status(name)?;
    let members = chosen(&status, args.device.as_deref())?;
    if json {
        let entry =
            |member: &&MemberStatus| json!({ "device": member.device, "endurance": member.endurance });
        print_json(&members.iter().map(entry).collect::<Vec<_>>())?;
    } else {
        print_table(&members);
        output::no_forecast_lines(name, members).for_each(|line| say!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which of the given values a member keeps from now on.
fn kept(device: &str, args: &EnduranceArgs) -> String {
    let rated = args.tbw.map(|rated| match rated {
        0 => "no rating".to_owned(),
        rated => format!("rated for {} of writes", format_decimal_size(rated)),
    });
    let warranty = args.warranty.map(|end| match end {
        0 => "no warranty".to_owned(),
        end => format!("warranty until {}", dates::day(end)),
    });
    let margin = args.margin.map(|days| format!("margin of {days} days"));
    let kept: Vec<_> = rated.into_iter().chain(warranty).chain(margin).collect();
    format!("kept on {device}: {}", kept.join(", "))
}

/// The warning about a warranty whose last day is over.
fn past_warranty(end_s: u64) -> Option<String> {
    let is_past = end_s > 0 && end_s + DAY_S <= now_s();
    is_past.then(|| {
        format!(
            "that warranty ended on {} already; if that is not meant, give a later day, years from now, or none",
            dates::day(end_s)
        )
    })
}

/// The warning about a rating that allows no more than was already written.
fn spent_rating(name: &str, args: &EnduranceArgs) -> Option<String> {
    let rated = args.tbw.filter(|rated| *rated > 0)?;
    // The request was carried out: it is no error if this cannot be found out.
    let status = client::status(name).ok()?;
    let written = chosen(&status, args.device.as_deref()).ok()?.first()?.endurance.written_bytes;
    (written >= rated).then(|| {
        format!(
            "{} were written to it already, so by a rating of {} it is worn out; if that is not meant, give the rating \
             with its unit, such as 600T",
            format_decimal_size(written),
            format_decimal_size(rated)
        )
    })
}

fn print_table(members: &[&MemberStatus]) {
    say!("Written    Rated      Used     A day      Worn out    Warranty    Margin  Device");
    for member in members {
        say!("{}  {}", row(&member.endurance), printable(&member.device));
    }
}

fn row(endurance: &EnduranceStatus) -> String {
    let none = || "-".to_owned();
    let rated = endurance.rated_write_bytes.map_or_else(none, format_decimal_size);
    let used = endurance.forecast.map_or_else(none, |forecast| format!("{:.2}%", forecast.used * 100.0));
    let a_day = endurance
        .forecast
        .map_or_else(none, |forecast| format_decimal_size((forecast.bytes_per_s * DAY_S as f64) as u64));
    let worn_out = match endurance.forecast {
        Some(forecast) if forecast.used >= 1.0 => "already".to_owned(),
        forecast => forecast.and_then(|forecast| forecast.worn_out_s).map_or_else(none, day),
    };
    let warranty = endurance.warranty_end_s.map_or_else(none, day);
    let margin = match endurance.warranty_margin_days {
        0 => none(),
        days => format!("{days} d"),
    };
    format!(
        "{:<9}  {rated:<9}  {used:<7}  {a_day:<9}  {worn_out:<10}  {warranty:<10}  {margin:<6}",
        format_decimal_size(endurance.written_bytes)
    )
}

/// A day, or `never` if it is too far off to matter: over two centuries after 1970.
fn day(seconds: u64) -> String {
    if seconds / DAY_S / 365 > 2 * YEARS_MAX { "never".to_owned() } else { dates::day(seconds) }
}

fn list_models(json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(&MODELS)?;
    } else {
        for model in &MODELS {
            say!("{:<20} {:<8} {}", model.name, format_decimal_size(model.rated_write_bytes), model.source);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The word that unsets a value. It is kept as 0.
const NONE: &str = "none";

fn parse_tbw(text: &str) -> Result<u64, String> {
    if text == NONE {
        return Ok(0);
    }
    if let Some(bytes) = models::rated_write_bytes(text) {
        return Ok(bytes);
    }
    let rated = parse_decimal_size(text).map_err(|wrong| match wrong {
        NoSize::Unreadable => format!(
            "'{text}' is neither a decimal size, such as 600T, nor a model that `--models` lists, nor none"
        ),
        NoSize::TooLarge => format!("'{text}' is too large: give 18446P or less"),
    })?;
    // An unknown rating is kept as 0.
    if rated == 0 {
        return Err(
            "with 0 it could not be written at all; give `none` if what it is rated for is not known"
                .to_owned(),
        );
    }
    Ok(rated)
}

fn parse_warranty(text: &str) -> Result<u64, String> {
    let end = match text.strip_suffix('y') {
        Some(years) => in_years(years),
        None if text == NONE => Some(0),
        // The first day of 1970 is second 0, which would mean none.
        None => parse_day(text).filter(|end| *end > 0),
    };
    end.ok_or_else(|| {
        format!("'{text}' is neither a day, such as 2030-12-31, nor years from now, such as 5y, nor none")
    })
}

/// The day that many years from now.
fn in_years(years: &str) -> Option<u64> {
    let years: u64 = years.parse().ok().filter(|years| (1..=YEARS_MAX).contains(years))?;
    Some(now_s() + years * 365 * DAY_S + years / 4 * DAY_S)
}
