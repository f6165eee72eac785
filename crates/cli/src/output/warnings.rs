//! What an operator should know about members: those that do not answer, that have blocks which are not read, or that are worn out
//! too early or soon.

use stripewise_wire::{ArrayStatus, EnduranceStatus, ForecastStatus, MemberStatus};

use super::parts::short;
use crate::{dates, sizes::format_size, slow};

/// A member that will be worn out within this many days gets a warning, whatever its warranty: enough time to
/// get another.
const NEAR_DAYS: u64 = 90;

/// Warnings about members, for the operator.
pub(super) fn warnings(status: &ArrayStatus) -> impl Iterator<Item = String> {
    slow_warnings(status).chain(bad_block_warnings(status)).chain(wear_warnings(status))
}

/// Warnings about members that will be worn out too early, or soon.
fn wear_warnings(status: &ArrayStatus) -> impl Iterator<Item = String> {
    status.members.iter().filter_map(|member| {
        wear_warning(&member.endurance).map(|warning| format!("{} {warning}", short(&member.device)))
    })
}

/// Warnings about members that have blocks which are not read.
fn bad_block_warnings(status: &ArrayStatus) -> impl Iterator<Item = String> {
    status.members.iter().filter(|member| member.bad_block_bytes > 0).map(|member| {
        format!(
            "{}: its bad-block log lists {}: what was lost there is an error until it is written, and what the other members tell \
             is written back",
            short(&member.device),
            format_size(member.bad_block_bytes)
        )
    })
}

/// Warnings about members that do not answer, with what can be done about each.
fn slow_warnings(status: &ArrayStatus) -> impl Iterator<Item = String> {
    status.members.iter().filter_map(|member| {
        let slow = slow::of_member(&member.device, member.slow.as_ref()?);
        Some(format!("{slow}: it hangs, or is very slow; see the system's log. {}", way_out(status, member)))
    })
}

/// What an operator can do about a member that does not answer.
fn way_out(status: &ArrayStatus, member: &MemberStatus) -> String {
    let (name, device) = (&status.name, &member.device);
    let lost = status.in_sync.iter().filter(|is_there| !**is_there).count();
    let waits = |whose: &str| {
        format!(
            "{whose}: what was asked of it waits until it answers, and `stripewise stop {name} --force` ends the daemon all the same, \
             as a crash would"
        )
    };
    match member.state.as_str() {
        _ if status.failed => waits("An array that has failed gives no member up"),
        _ if status.read_only => waits("An array that is read-only gives no member up"),
        "faulty" => format!("It is out of the array already; `stripewise remove {name} {device}` forgets it"),
        "spare" => format!("`stripewise remove {name} {device}` takes it out"),
        "in sync" if lost >= status.parity_devices => waits("The array cannot do without it"),
        _ => format!("`stripewise fail {name} {device}` takes it out"),
    }
}

fn wear_warning(endurance: &EnduranceStatus) -> Option<String> {
    let forecast = endurance.forecast?;
    if forecast.used >= 1.0 {
        let percent = (forecast.used * 100.0).min(u64::MAX as f64) as u64;
        return Some(format!("has been written {percent}% of what it is rated for: replace it"));
    }
    let early = too_early(endurance, &forecast).or_else(|| soon(&forecast))?;
    let worn_out = dates::day(forecast.worn_out_s?);
    Some(format!("will be worn out on {worn_out}, {early}. Write less to it, or replace it in time"))
}

fn too_early(endurance: &EnduranceStatus, forecast: &ForecastStatus) -> Option<String> {
    let (days, end) = (forecast.short_days?, dates::day(endurance.warranty_end_s?));
    let wanted = match endurance.warranty_margin_days {
        0 => format!("its warranty ends, on {end}"),
        margin => format!("it should: {margin} days after its warranty ends, on {end}"),
    };
    Some(format!("{days} days before {wanted}"))
}

fn soon(forecast: &ForecastStatus) -> Option<String> {
    match forecast.left_days? {
        0 => Some("within a day".to_owned()),
        days if days < NEAR_DAYS => Some(format!("in {days} days")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use stripewise_wire::SlowStatus;

    use super::*;

    /// What is advised about the first of three members, which does not answer.
    fn advice(state: &str, change: impl Fn(&mut ArrayStatus)) -> String {
        let slow = Some(SlowStatus { requests: 1, oldest_s: 7.0 });
        let (device, state) = ("/dev/x".to_owned(), state.to_owned());
        let member = MemberStatus { device, state, slow, ..MemberStatus::default() };
        let mut status = ArrayStatus {
            name: "a".to_owned(),
            parity_devices: 1,
            in_sync: vec![true; 3],
            members: vec![member],
            ..ArrayStatus::default()
        };
        change(&mut status);
        warnings(&status).next().unwrap()
    }

    #[test]
    fn no_command_is_advised_that_would_be_refused() {
        let (fail, remove) = ("`stripewise fail a /dev/x` takes it out", "`stripewise remove a /dev/x`");
        let needed = "cannot do without it";
        for (state, whole, degraded) in [
            ("in sync", fail, needed),
            ("rebuilding", fail, fail),
            ("replacing", fail, fail),
            ("spare", remove, remove),
            ("faulty", remove, remove),
        ] {
            let said = [
                (advice(state, |_| ()), whole),
                (advice(state, |status| status.in_sync[1] = false), degraded),
            ];
            for (said, expected) in said {
                assert!(said.contains(expected), "{state}: {said}");
                assert_eq!(said.contains("stripewise fail"), expected == fail, "{state}: {said}");
            }
        }
        let refused: [(fn(&mut ArrayStatus), _); 3] = [
            (|status| status.failed = true, "has failed gives no member up"),
            (|status| status.read_only = true, "read-only gives no member up"),
            (|status| status.parity_devices = 0, needed),
        ];
        for (change, expected) in refused {
            let said = advice("in sync", change);
            assert!(said.contains(expected) && said.contains("`stripewise stop a --force`"), "{said}");
            assert!(!said.contains("stripewise fail"), "{said}");
        }
    }

    #[test]
    fn who_is_worn_out_soon_is_warned_of_without_a_warranty() {
        let warning = |left_days: u64| {
            let forecast = ForecastStatus {
                bytes_per_s: 1.0,
                used: 0.5,
                worn_out_s: Some(left_days * 86_400),
                left_days: Some(left_days),
                short_days: None,
            };
            wear_warning(&EnduranceStatus {
                rated_write_bytes: Some(1 << 40),
                written_bytes: 1 << 39,
                noted_written_bytes: 1 << 39,
                written_since_s: 0,
                warranty_end_s: None,
                warranty_margin_days: 0,
                forecast: Some(forecast),
                no_forecast: None,
            })
        };
        assert!(warning(0).unwrap().starts_with("will be worn out on 1970-01-01, within a day. Write less"));
        assert!(warning(NEAR_DAYS - 1).unwrap().contains("1970-03-31, in 89 days. Write less"));
        assert_eq!(warning(NEAR_DAYS), None);
    }
}
