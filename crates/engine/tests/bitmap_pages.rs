//! Bitmaps of several pages: marks on all of them are written together, found again after a power failure,
//! and cleared.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::{
    devices,
    wide::{BLOCK_BYTES, DATA_BLOCKS, PAGES, STRIPES, Wide, filled},
};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{
    AssembleOptions, JobKind, JobOutcome, assemble,
    geometry::StripeIndex,
    locking::{PRESETS, Preset},
};
use stripewise_format::bitmap::{REGIONS_PER_PAGE, Slot, slot_offset_bytes};
use stripewise_sim::{EventKind, check::image::Image};

impl Wide {
    /// How often each page was written to each member since some time.
    fn page_writes(&self, since: stripewise_device::Timestamp) -> BTreeMap<(usize, u64), usize> {
        let start = self.bitmap.offset_bytes;
        let pages = start..start + slot_offset_bytes(PAGES, Slot::A);
        let mut counts = BTreeMap::new();
        for event in self.world.events() {
            if event.at >= since && event.kind == EventKind::WriteFua && pages.contains(&event.offset_bytes) {
                let page = (event.offset_bytes - start) / slot_offset_bytes(1, Slot::A);
                *counts.entry((event.member, page)).or_default() += 1;
            }
        }
        counts
    }

    fn with_image<R>(&self, look: impl FnOnce(&Image<'_>) -> R) -> R {
        let members: Vec<_> = self.members.iter().map(|member| member.bytes()).collect();
        let bytes: Vec<&[u8]> = members.iter().map(|bytes| &**bytes).collect();
        look(&Image::of(&bytes).unwrap())
    }

    /// The stripes whose parity is wrong.
    fn disagreeing(&self) -> BTreeSet<u64> {
        let layout = self.with_image(|image| image.freshest().layout);
        let members: Vec<_> = self.members.iter().map(|member| member.bytes()).collect();
        let data = members.iter().map(|bytes| Some(&bytes[self.data_offset_bytes as usize..]));
        layout.disagreeing_rows(&data.collect::<Vec<_>>()).into_iter().map(|row| row as u64).collect()
    }

    /// Turns bits of a stripe's parity over, behind everybody's back.
    fn turn_parity_over(&self, stripe: u64) {
        let role = self.array.geometry().member_of(StripeIndex(stripe), DATA_BLOCKS as usize).0;
        let at = self.data_offset_bytes + stripe * BLOCK_BYTES;
        let turned: Vec<u8> =
            self.members[role].bytes()[at as usize..][..512].iter().map(|byte| !byte).collect();
        self.members[role].poke(at, &turned);
    }

    fn read(&self, block: u64) -> Vec<u8> {
        let array = self.array.clone();
        let into = IoBuf::with_len(BLOCK_BYTES as usize);
        self.world.run(async move { array.read(block * BLOCK_BYTES, into).await }).unwrap().to_vec()
    }

    /// Of what was under way when power failed, each sector is there or not; all else is there. What was
    /// found is what there is from now on.
    fn check_content(&mut self, under_way: &BTreeSet<u64>, byte: u8) {
        let all: BTreeSet<u64> = self.blocks.keys().copied().chain(under_way.iter().copied()).collect();
        for block in all {
            let found = self.read(block);
            let before = self.blocks.get(&block).cloned().unwrap_or_else(|| filled(0));
            for (found, before) in found.chunks(512).zip(before.chunks(512)) {
                let has_arrived = under_way.contains(&block) && *found == [byte; 512];
                assert!(has_arrived || found == before, "block {block}");
            }
            self.blocks.insert(block, found);
        }
    }

    fn assemble(&mut self) {
        let (env, devices) = (self.world.env(), devices(&self.members));
        self.array =
            self.world.run(async move { assemble(env, devices, &AssembleOptions::default()).await }).unwrap();
    }

    /// Resyncs what is marked, and looks whether it was that and nothing else: on each page the parity of a
    /// marked stripe and of one that is not are made wrong beforehand.
    fn resync(&mut self, marked: &BTreeSet<u64>) {
        let mended: BTreeSet<u64> = (0..PAGES).map(|page| self.region_on(page, marked)).collect();
        let unmarked = |page| {
            let mut stripes = std::iter::repeat_with(|| self.draw_stripe(page));
            stripes.find(|stripe| !marked.contains(&self.region_of(*stripe))).unwrap()
        };
        let left: BTreeSet<u64> = (0..PAGES).map(unmarked).collect();
        mended.iter().chain(&left).for_each(|stripe| self.turn_parity_over(*stripe));
        self.assemble();
        let array = self.array.clone();
        self.world.run(async move { array.wait_for_jobs().await });
        let job = self.array.last_job().unwrap();
        assert_eq!((job.kind, job.outcome), (JobKind::Resync, Some(JobOutcome::Done)));
        let stripes = (0..STRIPES).filter(|stripe| marked.contains(&self.region_of(*stripe)));
        assert_eq!(job.total_stripes, stripes.count() as u64);
        assert_eq!(self.disagreeing(), left, "marked stripes are mended, and no others");
        left.iter().for_each(|stripe| self.turn_parity_over(*stripe));
    }

    /// One of the marked regions on a page; its first stripe has the same number.
    fn region_on(&self, page: u32, marked: &BTreeSet<u64>) -> u64 {
        let first = u64::from(page * REGIONS_PER_PAGE);
        let on_page: Vec<_> = marked.range(first..first + u64::from(REGIONS_PER_PAGE)).collect();
        *on_page[self.world.random(on_page.len() as u64) as usize]
    }

    /// Keeps one region in use until all others are cleared, on its own page and on the others.
    fn clear_all_but_one(&mut self, marked: &BTreeSet<u64>, byte: u8) {
        assert_eq!(self.marked(), *marked, "marks stay for a while");
        let stripe = self.region_on(1, marked);
        let (array, env) = (self.array.clone(), self.world.env());
        self.world.run(async move {
            for _ in 0..20 {
                let content = IoBuf::copy_of(&filled(byte)).freeze();
                array
                    .write(stripe * DATA_BLOCKS * BLOCK_BYTES, content, WriteFlags::default())
                    .await
                    .unwrap();
                env.sleep(Duration::from_millis(250)).await;
            }
        });
        self.blocks.insert(stripe * DATA_BLOCKS, filled(byte));
        assert_eq!(self.marked(), BTreeSet::from([self.region_of(stripe)]));
        self.world.run_for(Duration::from_secs(4));
        assert_eq!(self.marked(), BTreeSet::new());
        self.with_image(|image| {
            assert!(image.freshest().clean);
            image.check().unwrap_or_else(|violation| panic!("{violation}"));
        });
    }
}

fn write_crash_and_resync(seed: u64, preset: &'static Preset) {
    println!("seed {seed}, preset {}", preset.name);
    let mut wide = Wide::new(seed, preset);
    for round in 0..2 {
        let (done, under_way) = (wide.draw_blocks(), wide.draw_blocks());
        let begun = wide.world.now();
        wide.write_durably(&done, 4 * round + 1);
        // The first to come writes its mark, and all others, who wait for it, write theirs together.
        let page_writes = wide.page_writes(begun);
        assert!(page_writes.len() >= 2 * PAGES as usize, "two members have copies: {page_writes:?}");
        assert!(page_writes.values().all(|writes| *writes <= 2), "{page_writes:?}");
        assert_eq!(page_writes.values().filter(|writes| **writes > 1).count(), 2, "{page_writes:?}");
        assert_eq!(wide.marked(), wide.regions_of(&done));
        // Power fails before the last of them is done: marks stay for a second after that.
        let writes = wide.world.start(wide.start_writes(&under_way, 4 * round + 2));
        let steps = wide.world.random(600);
        (0..steps).take_while(|_| writes.lock().is_none()).for_each(|_| wide.world.run_steps(1));
        wide.world.crash();
        wide.with_image(|image| image.check()).unwrap_or_else(|violation| panic!("{violation}"));
        let marked = wide.marked();
        assert!(marked.is_superset(&wide.regions_of(&done)));
        assert!(marked.is_subset(&wide.regions_of(&done.union(&under_way).copied().collect())));
        wide.resync(&marked);
        wide.check_content(&under_way, 4 * round + 2);
        wide.clear_all_but_one(&marked, 4 * round + 3);
    }
}

#[test]
fn marks_on_every_page_outlive_a_power_failure_and_are_cleared() {
    for preset in PRESETS {
        write_crash_and_resync(u64::from(preset.number), preset);
    }
}
