//! Tests of the store of frames.

use super::*;

const BOUND: usize = 100 * FRAME_COST + 10;

/// All frames that nobody uses.
fn all_of(frames: &Frames) -> Vec<IoBuf> {
    std::iter::from_fn(|| frames.take_of_any()).collect()
}

#[test]
fn frames_end_at_the_bound_and_return() {
    let frames = Frames::new(BOUND).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
    assert_eq!((taken.len(), frames.left_bytes()), (100, 10));
    let mut places: Vec<_> = taken.iter().map(|frame| frame.as_ptr().addr()).collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= FRAME_BYTES));
    assert!(places.iter().all(|place| place.is_multiple_of(FRAME_BYTES)));
    drop(taken);
    assert_eq!(frames.left_bytes(), BOUND);
    assert_eq!(std::iter::from_fn(|| frames.take()).collect::<Vec<_>>().len(), 100);
}

#[test]
fn what_is_charged_takes_the_place_of_frames_and_gives_it_back() {
    let frames = Frames::new(BOUND).unwrap();
    drop(std::iter::from_fn(|| frames.take()).collect::<Vec<_>>());
    assert!(frames.charge(50 * FRAME_COST));
    let taken: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
    assert!(taken.len() <= 50 && taken.len() > 45, "{}", taken.len());
    assert!(!frames.charge(6 * FRAME_COST));
    let left = frames.left_bytes();
    assert!(frames.charge(left));
    assert_eq!(frames.left_bytes(), 0);
    drop(taken);
    frames.discharge(left + 50 * FRAME_COST);
    assert_eq!(frames.left_bytes(), BOUND);
    let again = all_of(&frames);
    assert!(again.len() > 95, "{}", again.len());
}

#[test]
fn what_is_no_longer_charged_becomes_frames() {
    let frames = Frames::new(BOUND).unwrap();
    assert!(frames.charge(BOUND) && frames.take().is_none());
    frames.discharge(BOUND);
    assert_eq!(all_of(&frames).len(), 100);
}

#[test]
fn threads_get_what_others_gave_back() {
    let frames = Frames::new(BOUND).unwrap();
    std::thread::scope(|scope| {
        drop(scope.spawn(|| std::iter::from_fn(|| frames.take()).collect::<Vec<_>>()).join().unwrap());
        let takes = || {
            let own: Vec<_> = std::iter::from_fn(|| frames.take()).collect();
            (own.len(), all_of(&frames).len())
        };
        let (own, others) = scope.spawn(takes).join().unwrap();
        assert!(own < 100, "others keep what they have, unless it is asked for");
        assert_eq!(own + others, 100);
    });
    assert_eq!(frames.left_bytes(), BOUND);
}

#[test]
fn a_block_outlives_the_store_that_it_came_from() {
    let frames = Frames::new(BOUND).unwrap();
    let mut frame = frames.take().unwrap();
    frame.fill(7);
    let block = Block::of(frame);
    let lent = block.lend(512..1024);
    drop((frames, block));
    assert_eq!(lent[..], [7; 512]);
}

/// A store that is used again has all its bound, and nothing that the last one lent.
#[test]
fn a_store_is_not_used_again_before_it_has_all_its_blocks_back() {
    let frames = Frames::new(BOUND).unwrap();
    let (store, lent) = (std::ptr::from_ref(frames.store), frames.take().unwrap());
    drop(frames);
    let others: Vec<_> = (0..8).map(|_| Frames::new(BOUND).unwrap()).collect();
    assert!(others.iter().all(|other| !std::ptr::eq(other.store, store)));
    drop(lent);
    drop(others);
    let again = Frames::new(BOUND).unwrap();
    assert_eq!(std::iter::from_fn(|| again.take()).collect::<Vec<_>>().len(), 100);
    assert_eq!(again.left_bytes(), BOUND);
}

fn block_of(frames: &Frames, value: u8) -> Block {
    let mut frame = frames.take().unwrap();
    frame.fill(value);
    Block::of(frame)
}

#[test]
fn what_is_shown_is_copied_until_it_is_hidden() {
    let frames = Frames::new(BOUND).unwrap();
    let (mut one, other) = (block_of(&frames, 1), block_of(&frames, 2));
    let look = |number| {
        let mut copy = [0; 512];
        frames.look(number, 1024, &mut copy).then_some(copy[511])
    };
    frames.show(7, &one);
    frames.show(8, &other);
    assert_eq!([look(7), look(8), look(9), look(u64::MAX)], [Some(1), Some(2), None, None]);
    let lent = one.lend(0..512);
    assert!(frames.own(7, &mut one).is_none(), "another has it");
    drop(lent);
    frames.own(7, &mut one).unwrap().fill(3);
    assert_eq!(look(7), None, "it was changed");
    frames.show(7, &one);
    assert_eq!(look(7), Some(3));
    frames.hide(8);
    assert_eq!((look(7), look(8)), (Some(3), None));
    // Numbers far apart share an entry, and the last one has it.
    frames.show(7 + (1 << 20), &other);
    assert_eq!((look(7), look(7 + (1 << 20))), (None, Some(2)));
    frames.hide(7);
    assert_eq!(look(7 + (1 << 20)), Some(2));
    let strange = Block::of(IoBuf::zeroed(FRAME_BYTES));
    frames.show(7 + (1 << 20), &strange);
    assert_eq!(look(7 + (1 << 20)), None, "it is of no store");
}

/// Blocks of many values come and go under some numbers, each of which only ever shows its own values.
#[test]
fn whoever_looks_sees_one_block_of_its_number() {
    let frames = Frames::new(BOUND).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2_u64 {
            let (frames, over) = (&frames, &over);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(number);
                let mut block = block_of(frames, number as u8);
                for _ in 0..20_000 {
                    let value = rng.u8(..8) << 1 | number as u8;
                    match frames.own(number, &mut block) {
                        Some(bytes) if rng.bool() => bytes.fill(value),
                        _ => {
                            frames.hide(number);
                            block = block_of(frames, value);
                        }
                    }
                    frames.show(number, &block);
                }
                over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            scope.spawn(move || {
                let mut copy = [0; FRAME_BYTES];
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    if frames.look(number, 0, &mut copy) {
                        assert!(copy.iter().all(|byte| *byte == copy[0]) && u64::from(copy[0] & 1) == number);
                    }
                }
            });
        }
    });
}

#[test]
fn nothing_is_lost_among_threads() {
    let frames = Frames::new(BOUND).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let frames = &frames;
            scope.spawn(move || {
                let (mut rng, mut held, mut charged) = (fastrand::Rng::with_seed(seed), Vec::new(), 0);
                for _ in 0..20_000 {
                    match rng.u8(..5) {
                        4 => held.extend(frames.take_of_any()),
                        0 => held.extend(frames.take()),
                        1 if !held.is_empty() => drop(held.swap_remove(rng.usize(..held.len()))),
                        2 if frames.charge(300) => charged += 300,
                        3 if charged > 0 => {
                            frames.discharge(charged);
                            charged = 0;
                        }
                        _ => {}
                    }
                }
                drop(held);
                frames.discharge(charged);
            });
        }
    });
    assert_eq!(frames.left_bytes(), BOUND);
}
