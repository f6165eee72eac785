//! Discards free space where members unmap, and cost nothing elsewhere; zeroes are zeroes everywhere.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{MEMBER_BYTES, Shape, check_parity};
use stripewise_device::{
    Completion, Device, DeviceInfo, IoBuf, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags, ZeroFlags,
    wrap::{Trace, TraceEvent, TraceLog},
};
use stripewise_engine::{
    Array, ArrayError, AssembleOptions, CreateOptions, Tuning, assemble, examine, geometry::Level,
};
use stripewise_format::extension::Zeroing;
use stripewise_sim::{Manners, SimMember, World, Zeroes};

const SHAPES: [Shape; 4] = [
    Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 },
    Shape { level: Level::Raid4, members: 4, chunk_bytes: 16384 },
    Shape { level: Level::Raid5, members: 4, chunk_bytes: 4096 },
    Shape { level: Level::Raid6, members: 5, chunk_bytes: 8192 },
];

/// A member of which the operating system says something else, and that may leave what is zeroed as it is.
struct Told {
    inner: Arc<SimMember>,
    info: DeviceInfo,
    ignores_zeroes: bool,
}

impl Device for Told {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.inner.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.inner.write(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        self.inner.flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        match self.ignores_zeroes {
            true => IoFuture::ready(Ok(())),
            false => self.inner.write_zeroes(offset_bytes, len_bytes, flags),
        }
    }
}

fn told(inner: &Arc<SimMember>, unmaps: Option<bool>, ignores_zeroes: bool) -> Arc<dyn Device> {
    let info = DeviceInfo { unmaps, ..inner.info().clone() };
    Arc::new(Told { inner: inner.clone(), info, ignores_zeroes })
}

/// An array over members of which the first `plain` know no zero-write, full of one byte.
struct Bench {
    world: World,
    sims: Vec<Arc<SimMember>>,
    logs: Vec<Arc<TraceLog>>,
    array: Array,
}

impl Bench {
    fn new(seed: u64, shape: Shape, plain: usize) -> Self {
        let mut world = World::new(seed);
        let manners = |index| Manners {
            zeroes: if index < plain { Zeroes::Refuse } else { Zeroes::Unmap },
            ..Manners::default()
        };
        let sims: Vec<_> = (0..shape.members)
            .map(|index| world.add_member_with(format!("m{index}"), MEMBER_BYTES, manners(index)))
            .collect();
        let (members, logs): (Vec<_>, Vec<_>) = sims.iter().cloned().map(Trace::new).unzip();
        let members = members.into_iter().map(|member| Arc::new(member) as Arc<dyn Device>).collect();
        let mut options = CreateOptions::new("sim:discards", shape.level, members);
        options.chunk_bytes = shape.chunk_bytes;
        options.assume_clean = true;
        // Batches of one stripe, many of them on their way: each keeps its rows until those before it are
        // filled.
        options.tuning = Tuning { disk_batch_bytes: 4096, flash_batch_bytes: 4096, ..Tuning::PRODUCTION };
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let bench = Self { world, sims, logs, array };
        let data = IoBuf::copy_of(&vec![7; bench.capacity()]).freeze();
        bench.run(async move |array| array.write(0, data, WriteFlags::default()).await).unwrap();
        bench.logs.iter().for_each(|log| drop(log.take()));
        bench
    }

    fn capacity(&self) -> usize {
        self.array.geometry().capacity_bytes() as usize
    }

    fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        command: impl FnOnce(Array) -> F,
    ) -> T {
        self.world.run(command(self.array.clone()))
    }

    fn content(&self) -> Vec<u8> {
        let len = self.capacity();
        self.run(async move |array| array.read(0, IoBuf::with_len(len)).await).unwrap().to_vec()
    }

    /// Bytes of data that were written to members, and zero-requests made, since this was last asked.
    fn written(&self) -> (u64, usize) {
        let events: Vec<_> = self.logs.iter().flat_map(|log| log.take()).collect();
        let written = events.iter().map(|event| match event {
            TraceEvent::Write { offset_bytes, len_bytes, .. } if *offset_bytes >= common::DATA_OFFSET => {
                *len_bytes
            }
            _ => 0,
        });
        let zeroed = events.iter().filter(|event| matches!(event, TraceEvent::Zero { .. }));
        (written.sum(), zeroed.count())
    }
}

#[test]
fn where_a_member_does_not_unmap_a_discard_costs_nothing() {
    for (seed, shape) in (1..).zip(SHAPES) {
        for plain in [1, shape.members] {
            let bench = Bench::new(seed, shape, plain);
            assert!(!bench.array.unmaps());
            assert_eq!(bench.array.device().info().unmaps, Some(false));
            let len = bench.capacity() as u64;
            bench.run(async move |array| array.discard(0, len).await).unwrap();
            assert_eq!(bench.written(), (0, 0));
            assert!(bench.content().iter().all(|byte| *byte == 7), "and the data is as it was");
        }
    }
}

#[test]
fn members_that_unmap_get_one_request_for_a_run_of_stripes() {
    for (seed, shape) in (11..).zip(SHAPES) {
        let bench = Bench::new(seed, shape, 0);
        assert!(bench.array.unmaps());
        // Not from the first byte to the last: the stripes in part stay as they are.
        let (stripe, capacity) = (bench.array.geometry().stripe_bytes() as usize, bench.capacity());
        let (start, end) = (stripe / 2 / 4096 * 4096, capacity - 4096);
        bench.run(async move |array| array.discard(start as u64, (end - start) as u64).await).unwrap();
        let (written, zeroed) = bench.written();
        assert_eq!((written, zeroed), (0, shape.members), "one request to each member");
        let whole = start.div_ceil(stripe) * stripe..end / stripe * stripe;
        let content = bench.content();
        let is_as_it_must = |(at, byte): (usize, &u8)| *byte == if whole.contains(&at) { 0 } else { 7 };
        assert!(content.iter().enumerate().all(is_as_it_must));
        check_parity(&bench.array.geometry(), &bench.sims);
    }
}

#[test]
fn zeroes_are_zeroes_whatever_members_know() {
    for (seed, shape) in (21..).zip(SHAPES) {
        for plain in [0, 1, shape.members] {
            let bench = Bench::new(seed, shape, plain);
            let (start, end) = (4096, bench.capacity() - 8192);
            let flags = ZeroFlags { may_unmap: plain % 2 == 0, ..ZeroFlags::default() };
            bench
                .run(async move |array| array.write_zeroes(start as u64, (end - start) as u64, flags).await)
                .unwrap();
            let content = bench.content();
            assert!(content.iter().enumerate().all(|(at, byte)| (*byte == 0) == (start..end).contains(&at)));
            check_parity(&bench.array.geometry(), &bench.sims);
        }
    }
}

/// Zeroes beside a rebuild, which is somewhere in the middle of a run of stripes.
#[test]
fn zeroes_reach_a_member_that_is_being_filled() {
    for (seed, shape) in (31..).zip(SHAPES) {
        for steps in [40, 120, 300, 600] {
            let mut bench = Bench::new(seed, shape, 1);
            let spare = bench.world.add_member("spare", MEMBER_BYTES);
            let added: Arc<dyn Device> = spare.clone();
            bench
                .run(async move |array| {
                    array.fail("m0").await?;
                    array.add(added).await
                })
                .unwrap();
            bench.world.run_steps(steps);
            let len = bench.capacity() as u64;
            bench
                .run(async move |array| {
                    array.write_zeroes(0, len, ZeroFlags { may_unmap: true, ..ZeroFlags::default() }).await
                })
                .unwrap();
            bench.run(async move |array| array.wait_for_jobs().await);
            bench.sims[0] = spare;
            assert!(bench.content().iter().all(|byte| *byte == 0));
            check_parity(&bench.array.geometry(), &bench.sims);
        }
    }
}

/// What the operating system does not tell, as of files, is tried when a device becomes a member, and kept
/// there.
#[test]
fn what_zeroing_does_is_tried_once_and_kept() {
    let cases = [
        // told, refuses zeroes, ignores them, kept, unmaps
        (None, false, false, Zeroing::Unmaps, true),
        (None, true, false, Zeroing::Writes, false),
        (None, false, true, Zeroing::Writes, false),
        (Some(true), false, false, Zeroing::Unmaps, true),
        (Some(true), true, false, Zeroing::Writes, false),
        (Some(false), false, false, Zeroing::Writes, false),
    ];
    for (seed, (says, refuses, ignores_zeroes, kept, unmaps)) in (41..).zip(cases) {
        let mut world = World::new(seed);
        let manners =
            Manners { zeroes: if refuses { Zeroes::Refuse } else { Zeroes::Unmap }, ..Manners::default() };
        let sims: Vec<_> =
            (0..3).map(|i| world.add_member_with(format!("m{i}"), MEMBER_BYTES, manners)).collect();
        let members = || sims.iter().map(|sim| told(sim, says, ignores_zeroes)).collect::<Vec<_>>();
        let mut options = CreateOptions::new("sim:tried", Level::Raid5, members());
        options.assume_clean = true;
        let env = world.env();
        world.run(async move {
            let array = Array::create(env, options).await.unwrap();
            assert_eq!(array.unmaps(), unmaps);
            array.stop().await.unwrap();
        });
        let device: Arc<dyn Device> = sims[1].clone();
        let examined = world.run(async move { examine(device).await }).unwrap();
        assert_eq!(examined.extension.unwrap().0.zeroing, kept);
        // Opened elsewhere, where the operating system says that it does not: the disk is behind another
        // controller.
        let elsewhere: Vec<_> = sims.iter().map(|sim| told(sim, Some(false), ignores_zeroes)).collect();
        let (env, members, other_env) = (world.env(), members(), world.env());
        world.run(async move {
            let array = assemble(env, members, &AssembleOptions::default()).await.unwrap();
            assert_eq!(array.unmaps(), unmaps);
            array.stop().await.unwrap();
            let array = assemble(other_env, elsewhere, &AssembleOptions::default()).await.unwrap();
            assert!(!array.unmaps());
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn a_member_that_joins_and_does_not_unmap_ends_discards() {
    let mut bench = Bench::new(51, SHAPES[2], 0);
    let manners = Manners { zeroes: Zeroes::Refuse, ..Manners::default() };
    let plain: Arc<dyn Device> = bench.world.add_member_with("plain", MEMBER_BYTES, manners);
    bench
        .run(async move |array| {
            array.fail("m0").await?;
            assert!(array.unmaps());
            array.add(plain).await?;
            array.wait_for_jobs().await;
            Ok::<_, ArrayError>(())
        })
        .unwrap();
    assert!(!bench.array.unmaps());
}
