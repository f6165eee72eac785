//! Writes of many stripes: as many at the same time as memory allows, and the next as soon as one is done.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    DATA_OFFSET, Shape,
    faulty::latent_error,
    timed::{How, Timed, WHILE, timed},
};
use fastrand::Rng;
use futures_util::future::{join, join_all};
use stripewise_device::{IoBuf, SharedBuf, WriteFlags};
use stripewise_engine::{ArrayError, geometry::Level, locking::PRESETS};

const CHUNK: usize = 16384;
const STRIPE: usize = 4 * CHUNK;
/// Of short stripes so many are written at once.
const AT_ONCE: usize = 64;
/// Writes that keep a stripe busy for longer than a write takes that finds blocks unreadable.
const BUSY: usize = 40;

fn array(level: Level, members: usize) -> Timed {
    let shape = Shape { level, members, chunk_bytes: CHUNK as u32 };
    timed(How { shape, preset: PRESETS.last().unwrap(), policy: None, delay: Some(WHILE) })
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn shared(bytes: &[u8]) -> SharedBuf {
    IoBuf::copy_of(bytes).freeze()
}

fn write(timed: &Timed, at: usize, bytes: &[u8]) {
    let (array, data) = (timed.array.clone(), shared(bytes));
    timed.world.run(async move { array.write(at as u64, data, WriteFlags::default()).await }).unwrap();
}

fn read(timed: &Timed, at: usize, len: usize) -> Vec<u8> {
    let array = timed.array.clone();
    timed.world.run(async move { array.read(at as u64, IoBuf::with_len(len)).await }).unwrap().to_vec()
}

/// With batches, each of which waits for its slowest, of sixteen stripes it would be twelve of them, two of
/// two rounds.
#[test]
fn a_large_write_waits_for_no_batch() {
    for (level, members) in [(Level::Raid4, 5), (Level::Raid5, 5), (Level::Raid6, 6)] {
        let timed = array(level, members);
        let (start, len) = (STRIPE / 2, (3 * AT_ONCE - 2) * STRIPE);
        // Marks the regions.
        write(&timed, 0, &random(1, start + len));
        let (bytes, began) = (random(2, len), timed.world.now().0);
        write(&timed, start, &bytes);
        let rounds = (timed.world.now().0 - began).div_ceil(WHILE.as_nanos() as u64);
        // Three, one more for the last stripe, which is read before it is written.
        assert!(rounds <= 5, "{level:?}: {rounds} rounds");
        assert!(read(&timed, start, len) == bytes, "{level:?}");
    }
}

/// Two members cannot read their blocks of the first row, part of which is written. So the first stripe fails,
/// while others of the same write are under way.
#[test]
fn a_stripe_that_fails_fails_its_large_write() {
    for (level, members) in [(Level::Raid4, 5), (Level::Raid5, 5)] {
        let timed = array(level, members);
        let len = (AT_ONCE + 20) * STRIPE;
        let old = random(5, len);
        write(&timed, 0, &old);
        // In stripe 0 of either level, P lies on the last member.
        for faults in &timed.faults[..2] {
            faults.add(latent_error(DATA_OFFSET..DATA_OFFSET + 512));
        }
        let (array, new) = (timed.array.clone(), random(6, len));
        // The other stripes wait behind writes of what they have. So as many as may be are under way when the
        // first one fails.
        let (before, data) = (shared(&old[STRIPE..(AT_ONCE + 2) * STRIPE]), shared(&new[512..]));
        let written = timed.world.run(async move {
            let busy = (0..BUSY).map(|_| array.write(STRIPE as u64, before.clone(), WriteFlags::default()));
            let busy = join_all(busy.collect::<Vec<_>>());
            join(array.write(512, data, WriteFlags::default()), busy).await.0
        });
        assert!(matches!(written, Err(ArrayError::Unreadable { .. })), "{level:?}: {written:?}");
        timed.faults.iter().for_each(|faults| faults.clear());
        let found = read(&timed, 0, len);
        for at in (0..len).step_by(4096) {
            let block = at..at + 4096;
            let is_old = found[block.clone()] == old[block.clone()];
            assert!(is_old || at > 0 && found[block.clone()] == new[block], "{level:?}: {at}");
        }
        timed.faults[1].set_gone(true);
        assert!(read(&timed, 0, len) == found, "{level:?}: parity agrees");
    }
}

/// Blocks of one write from many buffers, and small writes that are gathered: nothing of them changes places.
#[test]
fn data_of_many_buffers_is_written_in_its_order() {
    for (level, members) in [(Level::Raid1, 3), (Level::Raid4, 5), (Level::Raid5, 5), (Level::Raid6, 6)] {
        let timed = array(level, members);
        let mut rng = Rng::with_seed(3);
        let mut model = random(4, 6 * STRIPE);
        write(&timed, 0, &model);
        for round in 0..40 {
            let (a, b) = (rng.usize(..=model.len() / 4096), rng.usize(..=model.len() / 4096));
            let range = a.min(b) * 4096..a.max(b) * 4096;
            rng.fill(&mut model[range.clone()]);
            let pieces = || model[range.clone()].chunks(4096 * (1 + round % 3)).map(shared);
            let (array, at) = (timed.array.clone(), range.start as u64);
            if round % 4 == 0 {
                // A stream of clients.
                let offsets = (0..).map(|i| at + i * 4096 * (1 + round as u64 % 3));
                let writes: Vec<_> = offsets.zip(pieces()).collect();
                let written = timed.world.run(async move {
                    let write = |(at, data)| array.write(at, data, WriteFlags::default());
                    join_all(writes.into_iter().map(write)).await
                });
                assert!(written.iter().all(Result::is_ok));
            } else {
                let bufs = pieces().collect();
                let write = async move { array.write_vectored(at, bufs, WriteFlags::default()).await };
                timed.world.run(write).unwrap();
            }
            assert!(read(&timed, 0, model.len()) == model, "{level:?}, round {round}");
        }
        if level != Level::Raid1 {
            // Parity of all rows agrees.
            timed.faults[1].set_gone(true);
            assert!(read(&timed, 0, model.len()) == model, "{level:?}, a member lost");
        }
    }
}
