//! An array's status, as its daemon reports it to programs and people.

use anyhow::ensure;
use stripewise::{
    Array, ArrayReport, CacheKind, Excluded, MemberState, StatsReport, advice,
    internals::format::extension::MemberClass,
};
use stripewise_wire::{ArrayStatus, BitmapStatus, StripeStatus};

use super::state::DaemonState;
use crate::{
    dates::now_s,
    reports::{cache_status, job_status, map_name, member_statuses, state_name},
    room,
    sizes::format_size,
};

/// The most stripes reported at once.
const STRIPES_MAX: u64 = 1024;

impl DaemonState {
    /// The array's status.
    ///
    /// # Errors
    /// If the array does not answer.
    pub(super) fn status(&self) -> anyhow::Result<ArrayStatus> {
        let report = self.report_of_array()?;
        let limits = self.array.speed_limits();
        let counted = self.array.stats().report();
        Ok(ArrayStatus {
            name: self.name.clone(),
            full_name: report.name.clone(),
            uuid: report.uuid.to_string(),
            level: report.geometry.level().number(),
            state: state_name(&report),
            size_bytes: report.geometry.capacity_bytes(),
            member_bytes: report.geometry.member_bytes(),
            chunk_bytes: report.geometry.chunk_bytes() as u64,
            logical_block_bytes: report.geometry.logical_block_bytes(),
            raid_devices: report.geometry.members(),
            parity_devices: report.geometry.parity_columns(),
            in_sync: report.in_sync.clone(),
            failed: report.failed,
            dirty: report.dirty,
            read_only: report.read_only,
            selection: report.selection.to_owned(),
            events: report.events,
            members: member_statuses(&report, now_s(), &self.slow.members()),
            bitmap: report.bitmap.map(|b| BitmapStatus {
                region_bytes: b.shape.bytes,
                map: map_name(b.shape.kind).to_owned(),
                regions: b.regions,
                marked: b.marked,
            }),
            cache: cache_status(&self.array, &report.members, room::memory_bytes()),
            job: report.job.as_ref().map(job_status),
            last_job: self.array.last_job().as_ref().map(job_status),
            last_scrub: self.array.last_scrub().as_ref().map(job_status),
            speed_min_bytes_per_s: limits.min_bytes_per_s,
            speed_max_bytes_per_s: Some(limits.max_bytes_per_s).filter(|max| *max != u64::MAX),
            left_out: left_out(&report).into_iter().chain(self.unopened.iter().cloned()).collect(),
            forced: forced(&report),
            attached: self.exports.attached(),
            exports: self.exports.addresses(),
            mounted: self.file_system.mounted(),
            job_written_bytes: report.members.iter().map(|member| member.stats.job_written_bytes).sum(),
            counters: counted.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            metadata_written_bytes: report.members.iter().map(|member| member.stats.metadata_bytes).sum(),
            write_amplification: write_amplification(&report, &counted),
            advice: advice_on(&report),
            warnings: self.warnings(&report),
            pid: std::process::id(),
        })
    }

    /// The state in which writes find some stripes.
    pub(super) fn stripes(&self, from: u64, to: u64) -> anyhow::Result<Vec<StripeStatus>> {
        ensure!(to.saturating_sub(from) <= STRIPES_MAX, "at most {STRIPES_MAX} stripes are told of at once");
        let stripes = self.array.stripes(from..to).into_iter().map(|report| StripeStatus {
            stripe: report.stripe.0,
            synced: report.synced,
            cells: report.cells,
            missing: report.missing.iter().map(|role| role.0).collect(),
        });
        Ok(stripes.collect())
    }
}

impl DaemonState {
    /// What someone should know.
    fn warnings(&self, report: &ArrayReport) -> Vec<String> {
        let stopping = self.is_stopping().then(|| {
            format!(
                "it is being stopped: what is cached is written, and then it ends; `stripewise stop {}` waits for that",
                self.name
            )
        });
        let cache = cache_problem(report).or_else(|| large_cache(&self.array));
        let lost = self.file_system.lost().map(|why| format!("its file system was unmounted, but {why}"));
        unknown_policy(&self.name, report).into_iter().chain(cache).chain(stopping).chain(lost).collect()
    }
}

fn write_amplification(report: &ArrayReport, counted: &StatsReport) -> Option<f64> {
    let to_members: u64 = report.members.iter().map(|member| member.stats.client_written_bytes()).sum();
    let of_clients = counted.written_bytes + counted.zeroed_bytes;
    (of_clients > 0).then(|| to_members as f64 / of_clients as f64)
}

/// The warning about a policy of a later version, with what is used instead.
fn unknown_policy(name: &str, report: &ArrayReport) -> Option<String> {
    let number = report.unknown_policy?;
    let instead = report.selection;
    Some(format!(
        "its members keep write selection policy number {number}, which this version does not know: {instead} is used in \
         its place, and the number stays on them until `stripewise policy {name} POLICY` chooses another"
    ))
}

/// The warning about a cache that is not as members keep it.
fn cache_problem(report: &ArrayReport) -> Option<String> {
    report.cache_problem.as_ref().map(|problem| format!("what its members keep of a cache: {problem}"))
}

/// The warning about a cache that leaves the daemon little memory for anything else.
fn large_cache(array: &Array) -> Option<String> {
    let (settings, memory_bytes) = (array.cache_settings(), room::memory_bytes());
    let size_bytes = settings.size_on(memory_bytes);
    let is_large = settings.kind != CacheKind::None && size_bytes > memory_bytes / 4 * 3;
    is_large.then(|| {
        format!(
            "its cache may take {} of {} that the daemon has: the kernel may kill it, and with it what no flush has \
             covered; a quarter is enough",
            format_size(size_bytes),
            format_size(memory_bytes)
        )
    })
}

/// Advice about the members' kinds, by role.
fn advice_on(report: &ArrayReport) -> Vec<String> {
    let class = |role: usize| {
        let holder = report.members.iter().find(|member| {
            member.state == MemberState::InSync && member.slot.is_some_and(|slot| slot.0 == role)
        });
        holder.map_or(MemberClass::Unknown, |member| member.class)
    };
    let classes: Vec<_> = (0..report.geometry.members()).map(class).collect();
    advice(report.geometry.level(), &classes)
}

/// Devices that were left out when the array was opened, and have not become members since.
fn left_out(report: &ArrayReport) -> Vec<String> {
    let is_member = |device: &str| report.members.iter().any(|member| member.name == device);
    let out = report.excluded.iter().filter(|device| !is_member(&device.name));
    out.map(told).collect()
}

/// Members that are not current, without the advice, which was about leaving them out.
fn forced(report: &ArrayReport) -> Vec<String> {
    let reason = |told: String| told.split("; ").next().unwrap_or_default().to_owned();
    report.forced.iter().map(|device| reason(told(device))).collect()
}

/// A device and the reason.
fn told(device: &Excluded) -> String {
    format!("{}: {}", device.name, device.reason)
}
