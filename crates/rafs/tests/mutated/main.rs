//! Whatever an image has, also where all CRCs are right: nothing panics, and nothing is wrong after a repair.

#![allow(clippy::unwrap_used)]

mod image;

use image::Image;

/// Inputs of the test: RAFS_INPUTS, for long runs.
fn count() -> u64 {
    std::env::var("RAFS_INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}

#[test]
fn what_is_changed_anywhere_is_mended() {
    let image = Image::make();
    assert!(!image.try_input(&[]));
    let seed: Option<u64> = std::env::var("RAFS_INPUT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..count(), |seed| seed..seed + 1);
    let (mut failed, mut mended) = (Vec::new(), 0);
    let inputs = seeds.end - seeds.start;
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut input = vec![0; 8 * rng.usize(1..5)];
        rng.fill(&mut input);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| image.try_input(&input)));
        mended += u64::from(matches!(tried, Ok(true)));
        failed.extend(tried.is_err().then_some(seed));
    }
    assert!(failed.is_empty(), "RAFS_INPUT_SEED tells one again: {failed:?}");
    // Others change bytes that nobody needs, or too much.
    assert!(inputs < 100 || mended > inputs / 8, "only {mended} of {inputs} were mended");
}
