//! What the extension area keeps about a member and its array: the member's class, its measured times, its
//! wear, the policy for partly written rows, and the cache.

use serde::Serialize;
use stripewise::{
    CacheKind, ServiceTimes,
    internals::{
        format::{
            extension::{ArrayOptions, Header},
            md::Level,
        },
        plan::selection::policy_numbered,
    },
};
use stripewise_wire::{EnduranceStatus, TimesStatus};

use crate::{
    dates,
    output::time_texts,
    policies::check_selects,
    reports::{class_name, endurance_status, times_status},
    sizes::{format_decimal_size, format_size},
};

#[derive(Serialize)]
pub(super) struct Kept {
    class: &'static str,
    /// An operator gave the class; it was not detected.
    class_given: bool,
    /// None for levels without write selection.
    policy: Option<String>,
    /// None for levels without a cache.
    cache: Option<String>,
    /// None if they were not measured.
    times: Option<TimesStatus>,
    endurance: EnduranceStatus,
}

impl Kept {
    pub(super) fn of(header: &Header, level: Level) -> Self {
        let number = header.options.selection_policy;
        let policy = || {
            let known = policy_numbered(number).map(|policy| policy.name.to_owned());
            known.unwrap_or_else(|| format!("number {number}, of a later version"))
        };
        let times = ServiceTimes::from_header(header.service_time_ns);
        let noted = header.endurance.written_bytes;
        Self {
            class: class_name(header.member_class),
            class_given: header.member_class_given,
            policy: check_selects(level.number()).is_ok().then(policy),
            cache: check_selects(level.number()).is_ok().then(|| cache_text(&header.options)),
            times: times_status(times),
            endurance: endurance_status(&header.endurance, noted, dates::now_s()),
        }
    }

    /// The lines to print, each with its label.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("Member Class", self.class_text())];
        lines.extend(self.policy.clone().map(|policy| ("Write Selection", policy)));
        lines.extend(self.cache.clone().map(|cache| ("Cache", cache)));
        if let Some(times) = &self.times {
            let [read, write, rewrite, run_read, run_write] = time_texts(times);
            lines.push(("Random I/O", format!("read {read}, write {write}, rewrite {rewrite}")));
            lines.push(("Runs", format!("read {run_read}/s, write {run_write}/s")));
        }
        lines.extend(wear_lines(&self.endurance));
        lines
    }

    fn class_text(&self) -> String {
        let source = if self.class_given { ", as said" } else { "" };
        format!("{}{source}", self.class)
    }
}

/// Which cache the array has when it is next opened.
fn cache_text(options: &ArrayOptions) -> String {
    let number = options.cache_policy;
    match (CacheKind::ALL.get(usize::from(number)), options.cache.size_bytes) {
        (None, _) => format!("number {number}, of a later version"),
        (Some(kind), 0) => kind.name().to_owned(),
        (Some(CacheKind::None), _) => CacheKind::None.name().to_owned(),
        (Some(kind), size_bytes) => format!("{}, {}", kind.name(), format_size(size_bytes)),
    }
}

fn wear_lines(endurance: &EnduranceStatus) -> impl Iterator<Item = (&'static str, String)> {
    let since = match endurance.written_since_s {
        0 => String::new(),
        since => format!(" since {}", dates::utc(since)),
    };
    let written = format_size(endurance.written_bytes);
    let worn_out = endurance.forecast.and_then(|forecast| match forecast.used >= 1.0 {
        true => Some(format!("already, {:.0} % of its rating is used", forecast.used * 100.0)),
        false => forecast.worn_out_s.map(dates::day),
    });
    let margin = match endurance.warranty_margin_days {
        0 => String::new(),
        days => format!(", and {days} days more are wanted"),
    };
    let known = [
        ("Rated For", endurance.rated_write_bytes.map(format_decimal_size)),
        ("Worn Out", worn_out),
        ("Warranty", endurance.warranty_end_s.map(|end| format!("until {}{margin}", dates::day(end)))),
    ];
    let known = known.into_iter().filter_map(|(label, text)| Some((label, text?)));
    std::iter::once(("Written", format!("{written}{since}"))).chain(known)
}
