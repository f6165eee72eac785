//! The stride benchmark (msc-ct III-D, Fig. 8): how much longer a member takes for every second, third, ... block of a
//! range than for all of it, and so which gaps between its requests are better filled. It takes at most about 15 s, and
//! leaves what the member holds as it was.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{
    FutureExt,
    future::BoxFuture,
    stream::{self, StreamExt},
};
use smallvec::{SmallVec, smallvec};
use stripewise_device::{Device, Env, IoBuf, IoError, IoErrorKind, SharedBuf, Timestamp, WriteFlags};
use stripewise_format::extension::{STRIDE_REGIONS, STRIDES, StrideRecord};

use super::{benches::StrideBenches, measure::Touch};
use crate::{plan::passes::STRIDE_MAX, shape::rows::BLOCK_BYTES};

/// Blocks from the first to the last of every pass: several revolutions of a disk.
const SPAN_BLOCKS: u64 = 2048;
/// Requests under way, as the paper has (32 to 64).
const UNDER_WAY: usize = 32;
/// All blocks are asked for in requests of so many, as a filled gap is one request.
const WHOLE_BLOCKS: u64 = 32;
/// A gap is filled if to skip it takes longer than this, by what all blocks take (msc-ct III-D).
const THRESHOLD: f64 = 1.2;
/// Passes at a stride, of which the median counts.
const PASSES: usize = 3;
/// Time for reads and for writes, together.
const TIME: Duration = StrideBenches::TIME;
/// Strides that are always measured. What lies between them is, where the curve crosses the threshold, and if there is
/// time.
const COARSE: [u64; 11] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes of a member that the benchmark reads and writes.
pub(crate) const SPAN_BYTES: u64 = SPAN_BLOCKS * BLOCK;

/// A bound on the strides that are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrideLimit {
    /// As each member's curve has it.
    Measured,
    /// The smallest stride, in blocks, that is not filled, and all shorter ones are, whatever was measured; 1: none is.
    Blocks(u16),
}

impl StrideLimit {
    /// Enters it into what a member keeps.
    pub(crate) fn enter_into(self, record: &mut StrideRecord) {
        let measured = || {
            let times = (1..).zip(record.times).filter(|(_, time)| *time > 0);
            let curve: BTreeMap<u64, f64> =
                times.map(|(stride, time)| (stride, f64::from(time) / 1000.0)).collect();
            if curve.is_empty() { 0 } else { record_of(&curve).s_max }
        };
        (record.s_max, record.s_max_given) = match self {
            Self::Measured => (measured(), false),
            Self::Blocks(blocks) => (blocks.into(), true),
        };
    }
}

/// What an operator says of strides; what is not given stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StrideLimits {
    /// Of reads.
    pub read: Option<StrideLimit>,
    /// Of writes.
    pub write: Option<StrideLimit>,
}

/// What is measured of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StrideRecords {
    /// Of reads.
    pub read: StrideRecord,
    /// Of writes; none is measured if nothing may be written.
    pub write: StrideRecord,
}

/// Measures a device that nothing else uses meanwhile, in the middle. One that is too small has no strides.
///
/// # Errors
/// Errors of the device.
pub async fn measure_strides(
    env: &dyn Env,
    device: &dyn Device,
    touch: Touch,
) -> Result<StrideRecords, IoError> {
    let size_bytes = device.info().size_bytes;
    if size_bytes < 2 * SPAN_BYTES {
        return Ok(StrideRecords::default());
    }
    let start_bytes = (size_bytes - SPAN_BYTES) / 2 / BLOCK * BLOCK;
    let bench = Bench { env, device, start_bytes, lender: &Unused };
    let read = bench.curve(Op::Read).await?;
    let write = match touch {
        Touch::WriteBack => bench.curve(Op::Write).await?,
        Touch::ReadOnly => StrideRecord::default(),
    };
    Ok(StrideRecords { read, write })
}

/// Measures a member from a place on that is lent for each pass.
pub(crate) async fn measure_lent(
    env: &dyn Env,
    device: &dyn Device,
    start_bytes: u64,
    lender: &dyn Lender,
) -> Result<StrideRecords, IoError> {
    let bench = Bench { env, device, start_bytes, lender };
    Ok(StrideRecords { read: bench.curve(Op::Read).await?, write: bench.curve(Op::Write).await? })
}

/// What keeps others from a range, until it is dropped.
pub(crate) type Lent<'a> = Box<dyn Send + 'a>;

/// Lends the range that is measured.
pub(crate) trait Lender: Sync {
    /// Waits until nobody else uses it; none if it is not there any more, or in use all the time.
    fn lend(&self) -> BoxFuture<'_, Option<Lent<'_>>>;

    /// So many bytes of it were written.
    fn note_written(&self, bytes: u64);

    /// The device did not take a write, or could not be flushed: what others have written to it may be lost. Called before
    /// the range is given back.
    fn note_failure(&self, error: IoError) -> BoxFuture<'_, ()>;
}

/// Nobody else uses the device.
struct Unused;

impl Lender for Unused {
    fn lend(&self) -> BoxFuture<'_, Option<Lent<'_>>> {
        async { Some(Box::new(()) as Lent<'_>) }.boxed()
    }

    fn note_written(&self, _: u64) {}

    fn note_failure(&self, _: IoError) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Read,
    Write,
}

struct Bench<'a> {
    env: &'a dyn Env,
    device: &'a dyn Device,
    start_bytes: u64,
    lender: &'a dyn Lender,
}

/// Time that passes have taken, without waits for the range.
#[derive(Default)]
struct Spent {
    passes: Duration,
    begun: Timestamp,
}

impl Bench<'_> {
    /// The curve of an operation, and what follows from it.
    async fn curve(&self, op: Op) -> Result<StrideRecord, IoError> {
        let mut spent = Spent { passes: Duration::ZERO, begun: self.env.now() };
        let whole = self.median(1, op, &mut spent).await?;
        let mut curve = BTreeMap::from([(1, 1.0)]);
        let mut coarse = COARSE.into_iter();
        while let Some(stride) = coarse.next().or_else(|| finer(&curve)) {
            curve.insert(stride, self.median(stride, op, &mut spent).await? / whole);
            if self.is_over(&spent) {
                break;
            }
        }
        Ok(record_of(&curve))
    }

    fn is_over(&self, spent: &Spent) -> bool {
        spent.passes >= TIME / 2 || self.env.now().since(spent.begun) >= TIME
    }

    /// The median time of passes at a stride, in seconds: of fewer if the time is over.
    async fn median(&self, stride: u64, op: Op, spent: &mut Spent) -> Result<f64, IoError> {
        let mut times = Vec::with_capacity(PASSES);
        for _ in 0..PASSES {
            times.push(self.pass(stride, op, spent).await?.as_secs_f64());
            if self.is_over(spent) {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// One pass, in the range that is lent for it. Returns its time.
    async fn pass(&self, stride: u64, op: Op, spent: &mut Spent) -> Result<Duration, IoError> {
        let _lent = self.lender.lend().await.ok_or(IoError::new(IoErrorKind::Gone))?;
        let begun = self.env.now();
        let time = match op {
            Op::Read => self.read_pass(stride).await?,
            Op::Write => self.write_pass(stride).await?,
        };
        spent.passes += self.env.now().since(begun);
        Ok(time)
    }

    /// Reads the first block, every one at the stride from it, and the last one.
    async fn read_pass(&self, stride: u64) -> Result<Duration, IoError> {
        let begun = self.env.now();
        self.ask_all(stride, None).await?;
        Ok(self.env.now().since(begun))
    }

    /// Writes these blocks, with what was read just before, and flushes.
    async fn write_pass(&self, stride: u64) -> Result<Duration, IoError> {
        let content = self.read_all().await?;
        let begun = self.env.now();
        let written = match self.ask_all(stride, Some(&content)).await {
            Ok(()) => self.device.flush().await,
            failed => failed,
        };
        if let Err(error) = written {
            self.lender.note_failure(error).await;
        }
        let blocks: u64 = requests(stride).iter().map(|(_, count)| count).sum();
        self.lender.note_written(blocks * BLOCK);
        written.map(|()| self.env.now().since(begun))
    }

    /// All requests of a pass, to their end whatever fails: when the range is given back, nothing of it is under way.
    async fn ask_all(&self, stride: u64, content: Option<&[SharedBuf]>) -> Result<(), IoError> {
        let requests = stream::iter(requests(stride)).map(|place| self.ask(place, content));
        let ended = requests.buffer_unordered(UNDER_WAY);
        ended.fold(Ok(()), async |all: Result<(), IoError>, one| all.and(one)).await
    }

    /// Reads some blocks, or writes them from what lies there, in buffers of [`WHOLE_BLOCKS`].
    async fn ask(&self, (block, count): (u64, u64), content: Option<&[SharedBuf]>) -> Result<(), IoError> {
        let at = self.start_bytes + block * BLOCK;
        match content {
            None => {
                let buf = IoBuf::with_len((count * BLOCK) as usize);
                self.device.read(at, smallvec![buf]).await.result
            }
            Some(content) => {
                let (buf, first) = (&content[(block / WHOLE_BLOCKS) as usize], block % WHOLE_BLOCKS);
                let part = buf.slice((first * BLOCK) as usize..((first + count) * BLOCK) as usize);
                self.device.write(at, smallvec![part], WriteFlags::default()).await
            }
        }
    }

    /// All that lies in the range.
    async fn read_all(&self) -> Result<Vec<SharedBuf>, IoError> {
        let mut content = Vec::new();
        for (block, count) in requests(1) {
            let buf = IoBuf::with_len((count * BLOCK) as usize);
            let done = self.device.read(self.start_bytes + block * BLOCK, smallvec![buf]).await;
            content.push(done.into_one()?.freeze());
        }
        Ok(content)
    }
}

/// The requests of a pass, by their first block and their number of blocks. All blocks are asked for in long requests.
fn requests(stride: u64) -> Vec<(u64, u64)> {
    if stride == 1 {
        return (0..SPAN_BLOCKS).step_by(WHOLE_BLOCKS as usize).map(|block| (block, WHOLE_BLOCKS)).collect();
    }
    let last = SPAN_BLOCKS - 1;
    let scattered = (0..last).step_by(stride as usize).map(|block| (block, 1));
    scattered.chain([(last, 1)]).collect()
}

/// The next stride to measure: halfway between two on either side of the threshold, the longest such strides first; then
/// the shortest that is left.
fn finer(curve: &BTreeMap<u64, f64>) -> Option<u64> {
    let is_slow = |stride: &u64| curve[stride] >= THRESHOLD;
    let known: Vec<u64> = curve.keys().copied().collect();
    let crossed =
        known.windows(2).rev().find(|pair| pair[1] - pair[0] > 1 && is_slow(&pair[0]) != is_slow(&pair[1]));
    let halfway = crossed.map(|pair| pair[0].midpoint(pair[1]));
    halfway.or_else(|| (2..=u64::from(STRIDE_MAX)).find(|stride| !curve.contains_key(stride)))
}

/// What follows from a curve (msc-ct III-D): S_max is the smallest stride from which on the time stays below the
/// threshold, 64 if it never does; runs of shorter strides below it are excepted.
fn record_of(curve: &BTreeMap<u64, f64>) -> StrideRecord {
    let stays = curve.iter().rev().take_while(|(_, time)| **time < THRESHOLD).last();
    // If the time was over before the longest strides, no more than what was measured is known.
    let longest = curve.keys().next_back().map_or(1, |stride| stride + 1);
    let s_max = stays.map_or(longest.min(STRIDE_MAX.into()), |(stride, _)| *stride);
    let mut runs: SmallVec<[[u8; 2]; 8]> = SmallVec::new();
    let mut continues = false;
    for (stride, time) in curve.range(2..s_max.max(2)) {
        let is_fast = *time < THRESHOLD;
        match runs.last_mut().filter(|_| continues) {
            Some(run) if is_fast => run[1] = *stride as u8,
            _ if is_fast => runs.push([*stride as u8; 2]),
            _ => {}
        }
        continues = is_fast;
    }
    // The longest, if there are too many.
    runs.sort_by_key(|[first, last]| std::cmp::Reverse(last - first));
    runs.truncate(STRIDE_REGIONS);
    runs.sort();
    let mut record = StrideRecord { s_max: s_max as u32, ..StrideRecord::default() };
    record.except.iter_mut().zip(runs).for_each(|(region, run)| *region = run);
    for (stride, time) in curve.range(1..=STRIDES as u64) {
        record.times[*stride as usize - 1] = (time * 1000.0).clamp(1.0, f64::from(u16::MAX)) as u16;
    }
    record
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stripewise_device::memory::MemoryDevice;
    use stripewise_sim::{
        World,
        model::{
            DiskOptions,
            hdd::HddParams,
            ssd::{Ssd, SsdParams},
        },
    };

    use super::*;

    fn curve(times: &[(u64, f64)]) -> BTreeMap<u64, f64> {
        times.iter().copied().collect()
    }

    /// msc-ct Fig. 9 (d) has a region that is excepted.
    #[test]
    fn the_longest_strides_that_are_slow_bound_what_is_filled() {
        let record = record_of(&curve(&[
            (1, 1.0),
            (2, 3.0),
            (3, 1.1),
            (4, 1.0),
            (5, 2.0),
            (6, 1.3),
            (7, 1.1),
            (8, 0.9),
        ]));
        assert_eq!((record.s_max, record.except), (7, [[3, 4], [0; 2], [0; 2], [0; 2]]));
        assert_eq!(record.times[..9], [1000, 3000, 1100, 1000, 2000, 1300, 1100, 900, 0]);
        assert_eq!(record_of(&curve(&[(1, 1.0), (2, 1.1), (64, 0.1)])).s_max, 1);
        assert_eq!(record_of(&curve(&[(1, 1.0), (2, 1.1), (64, 1.3)])).s_max, 64);
        assert_eq!(record_of(&curve(&[(1, 1.0), (2, 3.0), (3, 2.0)])).s_max, 4, "the time was over");
    }

    #[test]
    fn a_limit_that_is_given_holds_until_the_measured_one_is_wanted() {
        let mut record = record_of(&curve(&[(1, 1.0), (2, 3.0), (3, 1.1)]));
        let measured = record;
        StrideLimit::Blocks(17).enter_into(&mut record);
        assert_eq!((record.s_max, record.s_max_given), (17, true));
        StrideLimit::Measured.enter_into(&mut record);
        assert_eq!(record, measured);
        let mut unknown = StrideRecord::default();
        StrideLimit::Measured.enter_into(&mut unknown);
        assert_eq!(unknown, StrideRecord::default());
    }

    #[test]
    fn strides_are_measured_where_the_curve_crosses_the_threshold() {
        let coarse = curve(&[(1, 1.0), (2, 3.0), (16, 1.3), (24, 1.1), (64, 0.5)]);
        assert_eq!(finer(&coarse), Some(20));
        let all = (1..=64).map(|stride| (stride, 1.0)).collect();
        assert_eq!(finer(&all), None);
        assert_eq!(finer(&curve(&[(1, 1.0), (2, 1.0)])), Some(3));
    }

    #[test]
    fn every_pass_has_the_same_first_and_last_block() {
        for stride in 1..=64 {
            let all = requests(stride);
            let (last, count) = all[all.len() - 1];
            assert_eq!((all[0].0, last + count), (0, SPAN_BLOCKS));
            assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
    }

    /// Of modelled disks, and within its time.
    #[test]
    fn disks_have_strides_to_fill_and_flash_has_none() {
        let mut world = World::new(1);
        let through = HddParams::seagate_cheetah_15k4_73().with_write_cache(false);
        let hdd = world.add_hdd("hdd", through, DiskOptions::default());
        let ssd = world.add_disk("ssd", Ssd::new(SsdParams::intel_x25e_64()), DiskOptions::default());
        let env = world.env();
        let (hdd, ssd, took) = world.run(async move {
            let begun = env.now();
            let hdd = measure_strides(&*env, &*hdd, Touch::WriteBack).await.unwrap();
            let took = env.now().since(begun);
            (hdd, measure_strides(&*env, &*ssd, Touch::WriteBack).await.unwrap(), took)
        });
        assert!(hdd.write.s_max > 2, "{hdd:?}");
        assert!(ssd.read.s_max <= 2 && ssd.write.s_max <= 2, "{ssd:?}");
        assert!(took < TIME + Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn contents_stay() {
        let world = World::new(2);
        let (env, device) = (world.env(), Arc::new(MemoryDevice::new("m", 32 << 20)));
        let content: Vec<u8> = (0..32 << 20).map(|i: u32| i.to_le_bytes()[(i % 4) as usize] ^ 0x5a).collect();
        let is_same = world.run(async move {
            let data = IoBuf::copy_of(&content).freeze();
            device.write(0, smallvec![data], WriteFlags::default()).await.unwrap();
            measure_strides(&*env, &*device, Touch::WriteBack).await.unwrap();
            let done = device.read(0, smallvec![IoBuf::with_len(32 << 20)]).await;
            done.into_one().unwrap()[..] == content[..]
        });
        assert!(is_same);
    }
}
