//! Members as programs read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stripewise::{
    ArrayReport, MemberReport, MemberState, ServiceTimes,
    endurance::{NoForecast, forecast, no_forecast},
    format::extension::{Endurance, MemberClass},
    geometry::Level,
    plan::costs::{MemberCost, ServiceTime},
};

/// What kind of device a member can be said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClassChoice {
    /// It rotates.
    Hdd,
    /// Flash.
    Ssd,
}

impl ClassChoice {
    /// As it is given.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hdd => "hdd",
            Self::Ssd => "ssd",
        }
    }
}

impl From<ClassChoice> for MemberClass {
    fn from(choice: ClassChoice) -> Self {
        match choice {
            ClassChoice::Hdd => Self::Hdd,
            ClassChoice::Ssd => Self::Ssd,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MemberStatus {
    pub(crate) device: String,
    pub(crate) number: u32,
    pub(crate) role: Option<usize>,
    /// Of level 4, whose roles do not rotate: whether the role is parity's.
    pub(crate) is_parity: Option<bool>,
    pub(crate) state: String,
    pub(crate) class: String,
    /// An operator said so; it was not detected.
    pub(crate) class_given: bool,
    pub(crate) uuid: String,
    pub(crate) read_errors: u32,
    /// Bytes that its bad-block log lists.
    pub(crate) bad_block_bytes: u64,
    /// None if they were not measured.
    pub(crate) times: Option<TimesStatus>,
    pub(crate) cost: CostStatus,
    pub(crate) endurance: EnduranceStatus,
    /// Since it was attached.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// How long I/O took when the device became a member; none where that was not measured.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TimesStatus {
    pub(crate) random_read_ns: Option<u32>,
    pub(crate) random_write_ns: Option<u32>,
    /// Writing a block where it was just read.
    pub(crate) rewrite_ns: Option<u32>,
    /// One more block of 4 KiB in a run.
    pub(crate) sequential_read_ns: Option<u32>,
    pub(crate) sequential_write_ns: Option<u32>,
}

/// What I/O is taken to cost, as nanoseconds of a request and of each 4 KiB; requests that wait.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CostStatus {
    pub(crate) read_ns: [f32; 2],
    pub(crate) write_ns: [f32; 2],
    pub(crate) rewrite_ns: [f32; 2],
    pub(crate) queue: f32,
}

/// How much of its life a member has used. Times are seconds since 1970.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EnduranceStatus {
    /// None: not known.
    pub(crate) rated_write_bytes: Option<u64>,
    pub(crate) written_bytes: u64,
    /// How much of that is noted on the member, so that a crash does not forget it.
    pub(crate) noted_written_bytes: u64,
    pub(crate) written_since_s: u64,
    pub(crate) warranty_end_s: Option<u64>,
    pub(crate) warranty_margin_days: u32,
    pub(crate) forecast: Option<ForecastStatus>,
    /// Why no day is known on which it will be worn out.
    pub(crate) no_forecast: Option<NoForecastStatus>,
}

/// Why no day is known on which a member will be worn out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub(crate) enum NoForecastStatus {
    /// What it is rated for is not known.
    Unrated,
    /// From this time on enough was seen of how it is written.
    Early { from_s: u64 },
    /// It is hardly written.
    Idle,
    /// A reason of a later release.
    #[serde(other)]
    Unknown,
}

impl From<NoForecast> for NoForecastStatus {
    fn from(why: NoForecast) -> Self {
        match why {
            NoForecast::Unrated => Self::Unrated,
            NoForecast::Early { from_s } => Self::Early { from_s },
            NoForecast::Idle => Self::Idle,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ForecastStatus {
    pub(crate) bytes_per_s: f64,
    /// The part of its rated life that is used up.
    pub(crate) used: f64,
    pub(crate) worn_out_s: Option<u64>,
    /// Whole days until then.
    pub(crate) left_days: Option<u64>,
    /// Days by which that is too early.
    pub(crate) short_days: Option<u64>,
}

impl MemberStatus {
    /// All members, with forecasts as of a time in seconds since 1970.
    pub(crate) fn of(report: &ArrayReport, now_s: u64) -> Vec<Self> {
        report.members.iter().map(|member| Self::one(report, member, now_s)).collect()
    }

    fn one(report: &ArrayReport, member: &MemberReport, now_s: u64) -> Self {
        let geometry = &report.geometry;
        let role = member.slot.filter(|_| member.state != MemberState::Spare).map(|slot| slot.0);
        let fixed = geometry.level() == Level::Raid4;
        let counters = member.stats.fields().into_iter();
        Self {
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
            times: member.times.is_known().then(|| member.times.into()),
            cost: member.cost.into(),
            endurance: EnduranceStatus::of(&member.endurance, member.noted_written_bytes, now_s),
            counters: counters.map(|(name, value)| (name.to_owned(), value)).collect(),
        }
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

impl EnduranceStatus {
    /// As of a time in seconds since 1970.
    pub(crate) fn of(endurance: &Endurance, noted_written_bytes: u64, now_s: u64) -> Self {
        let known = |value: u64| Some(value).filter(|value| *value > 0);
        Self {
            rated_write_bytes: known(endurance.rated_write_bytes),
            written_bytes: endurance.written_bytes,
            noted_written_bytes,
            written_since_s: endurance.written_since_s,
            warranty_end_s: known(endurance.warranty_end_s),
            warranty_margin_days: endurance.warranty_margin_days,
            forecast: forecast(endurance, now_s).map(|forecast| ForecastStatus {
                bytes_per_s: forecast.bytes_per_s,
                used: forecast.used,
                worn_out_s: forecast.worn_out_s,
                left_days: forecast.left_days,
                short_days: forecast.short_days,
            }),
            no_forecast: no_forecast(endurance, now_s).map(NoForecastStatus::from),
        }
    }
}

impl From<ServiceTimes> for TimesStatus {
    fn from(times: ServiceTimes) -> Self {
        let ServiceTimes {
            random_read_ns,
            random_write_ns,
            rewrite_ns,
            sequential_read_ns,
            sequential_write_ns,
        } = times;
        let known = |ns: u32| (ns > 0).then_some(ns);
        Self {
            random_read_ns: known(random_read_ns),
            random_write_ns: known(random_write_ns),
            rewrite_ns: known(rewrite_ns),
            sequential_read_ns: known(sequential_read_ns),
            sequential_write_ns: known(sequential_write_ns),
        }
    }
}

impl From<MemberCost> for CostStatus {
    fn from(cost: MemberCost) -> Self {
        let time = |time: ServiceTime| [time.fixed_ns, time.block_ns];
        Self {
            read_ns: time(cost.read),
            write_ns: time(cost.write),
            rewrite_ns: time(cost.rewrite),
            queue: cost.queue,
        }
    }
}

impl From<CostStatus> for MemberCost {
    fn from(cost: CostStatus) -> Self {
        let time = |[fixed_ns, block_ns]: [f32; 2]| ServiceTime { fixed_ns, block_ns };
        Self {
            read: time(cost.read_ns),
            write: time(cost.write_ns),
            rewrite: time(cost.rewrite_ns),
            queue: cost.queue,
        }
    }
}
