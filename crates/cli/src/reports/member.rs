//! Members: what they are, what they cost, how worn they are.

use std::collections::BTreeMap;

use stripewise::{
    ArrayReport, MemberReport, MemberState, ServiceTimes,
    endurance::{Forecast, NoForecast, forecast, no_forecast},
    geometry::Level,
    internals::{
        format::extension::{Endurance, MemberClass, StrideRecord},
        plan::{
            costs::{MemberCost, ServiceTime},
            passes::{GapRule, MemberStrides, Strides},
        },
    },
};
use stripewise_wire::{
    ClassChoice, CostStatus, EnduranceStatus, ForecastStatus, MemberStatus, NoForecastStatus, SlowStatus,
    StrideStatus, StridesStatus, TimesStatus,
};

/// All members, with forecasts as of a time in seconds since 1970, and with what those that are slow have not answered.
pub(crate) fn member_statuses(
    report: &ArrayReport,
    now_s: u64,
    slow: &BTreeMap<String, SlowStatus>,
) -> Vec<MemberStatus> {
    report.members.iter().map(|member| member_status(report, member, now_s, slow.get(&member.name))).collect()
}

fn member_status(
    report: &ArrayReport,
    member: &MemberReport,
    now_s: u64,
    slow: Option<&SlowStatus>,
) -> MemberStatus {
    let geometry = &report.geometry;
    let role = member.slot.filter(|_| member.state != MemberState::Spare).map(|slot| slot.0);
    let fixed = geometry.level() == Level::Raid4;
    let counters = member.stats.fields().into_iter();
    MemberStatus {
        device: member.name.clone(),
        number: member.dev_number,
        role,
        is_parity: role.filter(|_| fixed).map(|role| role >= geometry.data_columns()),
        state: member.state.name().to_owned(),
        class: class_name(member.class).to_owned(),
        class_given: member.class_given,
        uuid: member.uuid.to_string(),
        read_errors: member.read_errors,
        bad_block_bytes: member.bad_block_bytes,
        times: times_status(member.times),
        strides: StridesStatus {
            read: stride_status(&member.strides.read),
            write: stride_status(&member.strides.write),
        },
        cost: cost_status(member.cost),
        endurance: endurance_status(&member.endurance, member.noted_written_bytes, now_s),
        counters: counters.map(|(name, value)| (name.to_owned(), value)).collect(),
        slow: slow.copied(),
    }
}

/// A member's class as it is printed.
pub(crate) fn class_name(class: MemberClass) -> &'static str {
    match class {
        MemberClass::Hdd => "hdd",
        MemberClass::Ssd => "ssd",
        MemberClass::Unknown => "unknown",
    }
}

/// A member's class as an operator gave it.
pub(crate) fn member_class(choice: ClassChoice) -> MemberClass {
    match choice {
        ClassChoice::Hdd => MemberClass::Hdd,
        ClassChoice::Ssd => MemberClass::Ssd,
    }
}

/// A member's endurance, as of a time in seconds since 1970.
pub(crate) fn endurance_status(
    endurance: &Endurance,
    noted_written_bytes: u64,
    now_s: u64,
) -> EnduranceStatus {
    let known = |value: u64| Some(value).filter(|value| *value > 0);
    EnduranceStatus {
        rated_write_bytes: known(endurance.rated_write_bytes),
        written_bytes: endurance.written_bytes,
        noted_written_bytes,
        written_since_s: endurance.written_since_s,
        warranty_end_s: known(endurance.warranty_end_s),
        warranty_margin_days: endurance.warranty_margin_days,
        forecast: forecast(endurance, now_s).map(forecast_status),
        no_forecast: no_forecast(endurance, now_s).map(no_forecast_status),
    }
}

fn forecast_status(forecast: Forecast) -> ForecastStatus {
    ForecastStatus {
        bytes_per_s: forecast.bytes_per_s,
        used: forecast.used,
        worn_out_s: forecast.worn_out_s,
        left_days: forecast.left_days,
        short_days: forecast.short_days,
    }
}

fn no_forecast_status(why: NoForecast) -> NoForecastStatus {
    match why {
        NoForecast::Unrated => NoForecastStatus::Unrated,
        NoForecast::Early { from_s } => NoForecastStatus::Early { from_s },
        NoForecast::Idle => NoForecastStatus::Idle,
    }
}

/// The measured times of a member. None if nothing was measured.
pub(crate) fn times_status(times: ServiceTimes) -> Option<TimesStatus> {
    let known = |ns: u32| (ns > 0).then_some(ns);
    times.is_known().then(|| TimesStatus {
        random_read_ns: known(times.random_read_ns),
        random_write_ns: known(times.random_write_ns),
        rewrite_ns: known(times.rewrite_ns),
        sequential_read_ns: known(times.sequential_read_ns),
        sequential_write_ns: known(times.sequential_write_ns),
    })
}

/// A member's strides; none if nothing is known of them.
fn stride_status(record: &StrideRecord) -> Option<StrideStatus> {
    let times = (1..).zip(record.times).filter(|(_, time)| *time > 0);
    (record.s_max > 0).then(|| StrideStatus {
        s_max: record.s_max,
        s_max_given: record.s_max_given,
        except: record.except.iter().copied().filter(|[_, last]| *last > 0).collect(),
        curve: times.map(|(stride, time)| (stride, f32::from(time) / 1000.0)).collect(),
    })
}

/// What was measured, as a daemon reported it.
fn stride_record(status: &StrideStatus) -> StrideRecord {
    let (s_max, s_max_given) = (status.s_max, status.s_max_given);
    let mut record = StrideRecord { s_max, s_max_given, ..StrideRecord::default() };
    record.except.iter_mut().zip(&status.except).for_each(|(region, reported)| *region = *reported);
    for (stride, time) in &status.curve {
        if let Some(kept) = record.times.get_mut((*stride as usize).wrapping_sub(1)) {
            *kept = (time * 1000.0).round() as u16;
        }
    }
    record
}

/// The gaps that are filled on a member, as a daemon reported them.
pub(crate) fn member_strides(status: &StridesStatus, rule: GapRule) -> MemberStrides {
    let of = |status: &Option<StrideStatus>| {
        let record = status.as_ref().map(stride_record);
        record.map_or(Strides::below(0), |record| Strides::of(&record, rule))
    };
    MemberStrides { read: of(&status.read), write: of(&status.write) }
}

fn cost_status(cost: MemberCost) -> CostStatus {
    let time = |time: ServiceTime| [time.fixed_ns, time.block_ns];
    CostStatus {
        read_ns: time(cost.read),
        write_ns: time(cost.write),
        rewrite_ns: time(cost.rewrite),
        queue: cost.queue,
    }
}

/// The assumed cost of a member's I/O, as a daemon reported it.
pub(crate) fn member_cost(cost: CostStatus) -> MemberCost {
    let time = |[fixed_ns, block_ns]: [f32; 2]| ServiceTime { fixed_ns, block_ns };
    MemberCost {
        read: time(cost.read_ns),
        write: time(cost.write_ns),
        rewrite: time(cost.rewrite_ns),
        queue: cost.queue,
    }
}
