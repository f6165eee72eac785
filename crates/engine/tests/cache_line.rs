//! Writers that lack room in the cache get it in turn.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use common::{
    Shape,
    timed::{How, Timed, timed},
};
use fastrand::Rng;
use futures_util::future::join_all;
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{CacheKind, CachePast, CacheSettings, geometry::Level, locking::PRESETS};

const BLOCK: usize = 4096;
const CLIENTS: u64 = 48;
const WRITES: u64 = 100;

const SHAPE: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };

/// An array whose members take this time for a request, with a cache past which no write goes.
fn cached(kind: CacheKind, cache_bytes: u64, delay: Duration) -> Timed {
    let bench = timed(How { shape: SHAPE, preset: &PRESETS[0], policy: None, delay: Some(delay) });
    let array = bench.array.clone();
    let new = CacheSettings::new(kind, cache_bytes);
    let settings = CacheSettings { flush_time: None, age: None, past: CachePast::Never, ..new };
    bench.world.run(async move { array.set_cache(settings).await }).unwrap();
    bench
}

/// Each client writes anywhere, and comes again as soon as it is served. Some write several blocks, which single ones would
/// overtake wherever room for one of them comes.
#[test]
fn no_writer_is_overtaken_again_and_again_while_the_cache_is_full() {
    for kind in [CacheKind::Pbg, CacheKind::Stripe, CacheKind::StripeCt] {
        let bench = cached(kind, 512 << 10, Duration::from_millis(1));
        let (served, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let clients = (0..CLIENTS).map(|client| {
            let (array, served, most) = (bench.array.clone(), served.clone(), most.clone());
            async move {
                let len = if client.is_multiple_of(8) { 8 * BLOCK } else { BLOCK };
                let mut rng = Rng::with_seed(client);
                for _ in 0..WRITES {
                    let at = rng.u64(..array.geometry().capacity_bytes() / len as u64) * len as u64;
                    let before = served.load(Relaxed);
                    let buf = IoBuf::zeroed(len).freeze();
                    array.write(at, buf, WriteFlags::default()).await.unwrap();
                    most.fetch_max(served.fetch_add(1, Relaxed) - before, Relaxed);
                }
            }
        });
        let clients = join_all(clients.collect::<Vec<_>>());
        bench.world.run(clients);
        assert!(bench.array.cache().unwrap().waits > CLIENTS, "{kind:?}: the cache was full");
        let most = most.load(Relaxed);
        assert!(most < 24 * CLIENTS, "{kind:?}: {most} writes overtook one");
    }
}

/// Clients that pause find the cache full now and then, and wait for no more room than they lack: it stays nearly full.
#[test]
fn a_full_cache_is_not_emptied_since_writers_wait() {
    let bench = cached(CacheKind::Stripe, 4 << 20, Duration::from_millis(20));
    let fills = Arc::new(Mutex::new(Vec::new()));
    let clients = (0..4).map(|client| {
        let (array, env, fills) = (bench.array.clone(), bench.world.env(), fills.clone());
        async move {
            let mut rng = Rng::with_seed(client);
            for write in 0..1500 {
                let at = rng.u64(..array.geometry().capacity_bytes() / BLOCK as u64) * BLOCK as u64;
                array.write(at, IoBuf::zeroed(BLOCK).freeze(), WriteFlags::default()).await.unwrap();
                let report = array.cache().unwrap();
                if report.waits > 0 {
                    fills.lock().unwrap().push(report.dirty_blocks as f64 / report.dirty_max as f64);
                    if write % 4 == 0 {
                        env.sleep(Duration::from_millis(2)).await;
                    }
                }
            }
        }
    });
    bench.world.run(join_all(clients.collect::<Vec<_>>()));
    let fills = fills.lock().unwrap();
    let mean = fills.iter().sum::<f64>() / fills.len() as f64;
    assert!(fills.len() > 1000 && mean > 0.8, "{mean} of {}", fills.len());
}
