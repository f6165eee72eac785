//! Whatever an image has, also where all CRCs are right: nothing panics while it is used as it is, and nothing is wrong after a repair.

#![allow(clippy::unwrap_used)]

mod image;

use image::{Image, Tried};

/// Inputs of the test: RAFS_INPUTS, for long runs.
fn count() -> u64 {
    std::env::var("RAFS_INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}

#[test]
fn what_is_changed_anywhere_is_mended() {
    let image = Image::make();
    assert_eq!(image.try_input(&[]), Tried { is_mounted: true, is_mended: false });
    let seed: Option<u64> = std::env::var("RAFS_INPUT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..count(), |seed| seed..seed + 1);
    let (mut failed, mut mended, mut mounted) = (Vec::new(), 0, 0);
    let inputs = seeds.end - seeds.start;
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut input = vec![0; 8 * rng.usize(1..5)];
        rng.fill(&mut input);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| image.try_input(&input)));
        mended += u64::from(tried.as_ref().is_ok_and(|tried| tried.is_mended));
        mounted += u64::from(tried.as_ref().is_ok_and(|tried| tried.is_mounted));
        failed.extend(tried.is_err().then_some(seed));
    }
    assert!(failed.is_empty(), "RAFS_INPUT_SEED tells one again: {failed:?}");
    // Others change bytes that nobody needs, or too much.
    assert!(inputs < 100 || mended > inputs / 8, "only {mended} of {inputs} were mended");
    assert!(inputs < 100 || mounted > inputs / 4, "only {mounted} of {inputs} were mounted as they were");
}
