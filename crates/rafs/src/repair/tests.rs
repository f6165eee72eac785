//! Damaged images: whatever was done to them, a repair ends with a file system without damage, and loses nothing that was not hit.
//!
//! * `image`: file systems with a past, and what is in them;
//! * `stored`: what lies on an image, read by the format alone; `damage`: what is done to it.

mod damage;
mod image;
mod single;
mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::{
    damage::{Damage, Hit},
    image::{Image, Tree},
};
use super::*;
use crate::{
    check::check,
    test_env::TestEnv,
    test_volume::{TestVolume, now},
};

/// Damaged images of the test: RAFS_DAMAGES, for long runs.
fn count() -> u64 {
    std::env::var("RAFS_DAMAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

/// What has become of files, over all images.
#[derive(Debug, Default)]
struct Sums {
    images: u64,
    files: u64,
    hit: u64,
    lost: u64,
    changed: u64,
    moved: u64,
}

fn as_volume(volume: &Arc<TestVolume>) -> Arc<dyn Volume> {
    volume.clone()
}

fn mended(volume: &Arc<TestVolume>) -> Result<Repaired, RepairError> {
    now(repair(&as_volume(volume), 1, &Progress::silent()))
}

fn problems(volume: &Arc<TestVolume>) -> Vec<Problem> {
    let report = now(check(&as_volume(volume))).expect("it can be looked at");
    report.problems.into_iter().chain(report.notes).collect()
}

/// What was not hit is as it was: at its place, if nothing on the way there was hit.
fn judge(image: &Image, hit: &Hit, found: &Tree, sums: &mut Sums) {
    sums.images += 1;
    let by_inode: BTreeMap<u64, &image::File> = found.values().map(|file| (file.inode, file)).collect();
    for (path, file) in &image.tree {
        sums.files += 1;
        let is_hit = hit.may_be_older()
            || hit.inodes.contains(&file.inode)
            || hit.has_journal && image.since.contains(path);
        sums.hit += u64::from(is_hit);
        let is_way_hit = file.way.iter().any(|folder| hit.inodes.contains(folder));
        let there = found.get(path).filter(|there| there.inode == file.inode);
        let somewhere = by_inode.get(&file.inode).copied();
        match (there, somewhere) {
            (None, None) => sums.lost += 1,
            (None, Some(_)) => sums.moved += 1,
            _ => {}
        }
        sums.changed += u64::from(somewhere.is_some_and(|one| one.content != file.content));
        if is_hit {
            continue;
        }
        let one = if is_way_hit || hit.has_journal { somewhere } else { there };
        let one = one.unwrap_or_else(|| panic!("{path:?} is lost, and was not hit: {hit:?}"));
        assert!(one.content == file.content, "{path:?} has changed, and was not hit: {hit:?}");
    }
}

/// Damages an image, mends it, and looks at all of it. Now and then, power fails meanwhile.
fn story(image: &Image, seed: u64, sums: &mut Sums) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let volume = Arc::new(image.volume.copy());
    let mut hit = Hit::default();
    for _ in 0..1 + rng.u32(0..4) / 3 {
        let damage = Damage::ALL[rng.usize(..Damage::ALL.len())];
        damage.strike(image, &volume, &mut rng, &mut hit);
    }
    let before = now(check(&as_volume(&volume))).map(|report| report.problems);
    if rng.u8(..).is_multiple_of(3) {
        // It takes some ten writes and flushes.
        volume.stop_after(rng.u64(0..14));
        let _ = mended(&volume);
        let share = rng.f64();
        volume.lose_power(|| rng.f64() < share);
        let after = now(check(&as_volume(&volume))).map(|report| report.problems);
        let is_new = after.as_ref().is_ok_and(|problems| !problems.iter().any(is_of_tree));
        // Without an anchor, a tree that is there as a whole counts.
        assert!(
            is_new || after == before || hit.has_lost_anchors(),
            "neither old nor new: {after:?}\n{before:?}"
        );
    }
    if std::env::var("RAFS_TELL").is_ok() {
        eprintln!("{hit:?} {before:?}");
    }
    match mended(&volume) {
        Ok(_) => {}
        Err(RepairError::Open(MountError::Ground(_))) if hit.has_all_superblocks() || hit.may_be_older() => {
            return;
        }
        Err(error) => panic!("{error}: {hit:?}"),
    }
    assert_eq!(problems(&volume), [], "{hit:?}");
    let repaired = mended(&volume).unwrap();
    assert!(!repaired.is_changed);
    let found = image::read(&volume, seed);
    judge(image, &hit, &found, sums);
    assert_eq!(problems(&volume), [], "after a mount");
}

fn is_of_tree(problem: &Problem) -> bool {
    !matches!(problem, Problem::Superblock { .. } | Problem::Anchor { .. } | Problem::AnchorCopies { .. })
}

#[test]
fn what_was_not_hit_is_not_lost() {
    let mut sums = Sums::default();
    let seed: Option<u64> = std::env::var("RAFS_DAMAGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..count(), |seed| seed..seed + 1);
    let (mut image, mut failed) = (None, Vec::new());
    for seed in seeds {
        if seed % 16 == 0 || image.is_none() {
            image = Some(Image::make(seed / 16));
        }
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            story(image.as_ref().unwrap(), seed, &mut sums);
        }));
        failed.extend(told.is_err().then_some(seed));
    }
    eprintln!("{sums:?}");
    assert!(failed.is_empty(), "RAFS_DAMAGE_SEED tells one again: {failed:?}");
}
