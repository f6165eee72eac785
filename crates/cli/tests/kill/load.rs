//! Several writers at once, until the daemon is killed under them.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use futures_util::future::join_all;
use smallvec::smallvec;
use stripewise::{Device, IoBuf, IoError, WriteFlags, ZeroFlags, export::nbd::NbdClient};

use crate::model::{Model, SECTOR};

const WRITERS: u64 = 12;
/// A few large requests cover whole stripes; most are small.
const LARGE_SECTORS: usize = 1024;
const SMALL_SECTORS: usize = 24;

/// Writes to sectors of `span`. How many requests were acknowledged.
pub(crate) async fn write_until_gone(
    client: Arc<NbdClient>,
    model: Arc<Mutex<Model>>,
    span: Range<usize>,
    seed: u64,
) -> u64 {
    let seeds = (0..WRITERS).map(|index| seed.wrapping_add(index));
    let writers = seeds.map(|seed| writer(client.clone(), model.clone(), span.clone(), seed));
    join_all(writers).await.into_iter().sum()
}

async fn writer(client: Arc<NbdClient>, model: Arc<Mutex<Model>>, span: Range<usize>, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut acknowledged = 0;
    loop {
        let range = pick(&mut random, &model, &span);
        let fua = random.u8(0..8) == 0;
        let done = match random.u8(0..16) {
            0 | 1 => read(&client, &model, range.clone()).await,
            2 => zero(&client, &model, range.clone(), random.bool()).await,
            _ => write(&client, &model, range.clone(), fua, &mut random).await,
        };
        // What failed stays as it is: a write that was not acknowledged.
        let Ok(is_durable) = done else { return acknowledged };
        model.lock().unwrap().end(range, is_durable);
        acknowledged += 1;
        if random.u8(..) == 0 {
            let count = model.lock().unwrap().count();
            if client.flush().await.is_err() {
                return acknowledged;
            }
            model.lock().unwrap().flushed(count);
        }
    }
}

/// A range that nobody else uses now. Writers meet in the same stripes often: half of them stay near the
/// start.
fn pick(random: &mut fastrand::Rng, model: &Mutex<Model>, span: &Range<usize>) -> Range<usize> {
    let mut model = model.lock().unwrap();
    loop {
        let longest = if random.u8(0..12) == 0 { LARGE_SECTORS } else { SMALL_SECTORS };
        let len = random.usize(1..=longest);
        let width = if random.bool() { span.len() } else { (span.len() / 16).max(2 * LARGE_SECTORS) };
        let start = span.start + random.usize(..width.min(span.len()) - len);
        if model.take(start..start + len) {
            return start..start + len;
        }
    }
}

async fn read(client: &NbdClient, model: &Mutex<Model>, range: Range<usize>) -> Result<bool, IoError> {
    let into = smallvec![IoBuf::with_len(range.len() * SECTOR)];
    let bytes = client.read((range.start * SECTOR) as u64, into).await.into_one()?;
    model.lock().unwrap().check(range.start, &bytes);
    Ok(false)
}

async fn write(
    client: &NbdClient,
    model: &Mutex<Model>,
    range: Range<usize>,
    fua: bool,
    random: &mut fastrand::Rng,
) -> Result<bool, IoError> {
    let mut data = IoBuf::with_len(range.len() * SECTOR);
    random.fill(&mut data);
    model.lock().unwrap().begin(range.clone(), Some(&data));
    let data = smallvec![data.freeze()];
    client.write((range.start * SECTOR) as u64, data, WriteFlags { fua }).await.map(|()| fua)
}

async fn zero(
    client: &NbdClient,
    model: &Mutex<Model>,
    range: Range<usize>,
    may_unmap: bool,
) -> Result<bool, IoError> {
    model.lock().unwrap().begin(range.clone(), None);
    let (start, len) = ((range.start * SECTOR) as u64, (range.len() * SECTOR) as u64);
    client.write_zeroes(start, len, ZeroFlags { may_unmap, ..ZeroFlags::default() }).await.map(|()| false)
}
