//! The outcome of a point: whole numbers, so that a file gives back exactly what was written to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::PhaseOutcome;

/// The outcome of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Of each pass: bytes written by clients, and read.
    pub pass_bytes: Vec<u64>,
    /// Of each pass: from its first request to the end of its last, in nanoseconds.
    pub pass_ns: Vec<u64>,
    /// Requests of all passes: writes, and reads if there are any.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Mean latency of a request, in nanoseconds.
    pub latency_mean_ns: u64,
    /// Half of the requests were faster.
    pub latency_p50_ns: u64,
    /// All but one of a hundred.
    pub latency_p99_ns: u64,
    /// All but one of a thousand.
    pub latency_p999_ns: u64,
    /// The slowest.
    pub latency_max_ns: u64,
    /// Rows written with all their data new.
    pub rows_full: u64,
    /// Rows written by read-modify-write.
    pub rows_rmw: u64,
    /// Rows written by reconstruct-write.
    pub rows_rcw: u64,
    /// Stripes written, one for each stripe of each write.
    pub stripe_writes: u64,
    /// Those in which every row was written whole.
    pub stripe_writes_full: u64,
    /// Blocks read and written only to fill gaps.
    #[serde(default)]
    pub blocks_filled: u64,
    /// Requests to members that this saved.
    #[serde(default)]
    pub requests_saved: u64,
    /// The members, by role.
    pub members: Vec<MemberOutcome>,
    /// The phases of a load that changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseOutcome>,
}

/// The work of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberOutcome {
    /// What kind of drive it is.
    pub drive: String,
    /// Its busy time, in nanoseconds: of a disk's mechanism, or of an SSD with requests under way.
    pub busy_ns: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written, metadata included.
    pub written_bytes: u64,
}

impl Outcome {
    /// Throughput in 10^6 bytes a second: the mean of the passes, as the papers plot it.
    pub fn mb_per_s(&self) -> f64 {
        self.pass_mb_per_s().iter().sum::<f64>() / self.pass_ns.len() as f64
    }

    /// Throughput of each pass, in 10^6 bytes a second.
    pub fn pass_mb_per_s(&self) -> Vec<f64> {
        let passes = self.pass_bytes.iter().zip(&self.pass_ns);
        passes.map(|(bytes, ns)| *bytes as f64 * 1e3 / *ns as f64).collect()
    }

    /// The share of the time that a member was busy. Work that a disk had begun at the end counts in full, so
    /// the sum may exceed the time by a request.
    pub fn utilisation(&self, member: &MemberOutcome) -> f64 {
        (member.busy_ns as f64 / self.elapsed_ns() as f64).min(1.0)
    }

    /// The mean utilisation of the members of each kind.
    pub fn utilisation_by_drive(&self) -> BTreeMap<&str, f64> {
        let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for member in &self.members {
            let (sum, count) = kinds.entry(&member.drive).or_default();
            *sum += self.utilisation(member);
            *count += 1.0;
        }
        kinds.into_iter().map(|(drive, (sum, count))| (drive, sum / count)).collect()
    }

    /// A made-up outcome with this throughput; every write takes a read and a write on each member.
    #[cfg(test)]
    pub(crate) fn made_up(point: &super::Point, mb_per_s: f64) -> Self {
        let load = &point.load;
        let (passes, bytes) = (load.passes as usize, load.requests() * load.write_bytes);
        let requests = load.requests() * u64::from(load.passes);
        let ns = (bytes as f64 * 1e3 / mb_per_s) as u64;
        let member = |drive: &crate::arrays::Drive| MemberOutcome {
            drive: drive.name().to_owned(),
            busy_ns: ns / 2,
            reads: requests,
            read_bytes: requests * load.write_bytes,
            writes: requests,
            written_bytes: requests * load.write_bytes,
        };
        Self {
            pass_bytes: vec![bytes; passes],
            pass_ns: vec![ns; passes],
            requests,
            errors: 0,
            latency_mean_ns: 1_000_000,
            latency_p50_ns: 1_000_000,
            latency_p99_ns: 2_000_000,
            latency_p999_ns: 3_000_000,
            latency_max_ns: 4_000_000,
            rows_full: 0,
            rows_rmw: requests,
            rows_rcw: requests,
            stripe_writes: requests,
            stripe_writes_full: 0,
            blocks_filled: 0,
            requests_saved: 0,
            members: point.shape.drives.iter().map(member).collect(),
            phases: phases(point, ns),
        }
    }

    /// All passes' time.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.pass_ns.iter().sum()
    }
}

/// Made-up phases that take all of this time, each as much as any other.
#[cfg(test)]
fn phases(point: &super::Point, ns: u64) -> Vec<PhaseOutcome> {
    let super::Places::Changing(changing) = point.load.places else { return Vec::new() };
    let count = changing.all().count() as u64;
    let phase = |_| PhaseOutcome { ns: ns / count, ..PhaseOutcome::default() };
    changing.all().map(phase).collect()
}
