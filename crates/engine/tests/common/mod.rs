//! A simulated array beside a model of every sector, and checkers that do not use the engine's code.

#![allow(dead_code, unreachable_pub)]

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use stripewise_device::{Device, IoBuf, WriteFlags, ZeroFlags};
use stripewise_engine::{
    Array, AssembleError, AssembleOptions, CreateOptions, assemble,
    geometry::{Geometry, Level},
};
use stripewise_sim::{SimMember, World};

pub const SECTOR: usize = 512;
pub const MEMBER_BYTES: u64 = 2 << 20;
/// mdadm's data offset for members this small.
pub const DATA_OFFSET: u64 = 1 << 20;

/// A shape to test.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub level: Level,
    pub members: usize,
    pub chunk_bytes: u32,
}

pub const SHAPES: [Shape; 7] = [
    Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 },
    Shape { level: Level::Raid1, members: 3, chunk_bytes: 65536 },
    Shape { level: Level::Raid4, members: 5, chunk_bytes: 16384 },
    Shape { level: Level::Raid5, members: 3, chunk_bytes: 4096 },
    Shape { level: Level::Raid5, members: 5, chunk_bytes: 65536 },
    Shape { level: Level::Raid6, members: 4, chunk_bytes: 8192 },
    Shape { level: Level::Raid6, members: 6, chunk_bytes: 32768 },
];

/// What each sector may hold: its durable value, and every value written since the last flush.
pub struct Model {
    allowed: Vec<Vec<u64>>,
    next: u64,
}

impl Model {
    pub fn new(bytes: u64) -> Self {
        Self { allowed: vec![vec![0]; bytes as usize / SECTOR], next: 0 }
    }

    /// New content for a range of sectors: each sector tells its number and version.
    pub fn fill(&mut self, first: usize, count: usize) -> IoBuf {
        self.next += 1;
        let mut buf = IoBuf::with_len(count * SECTOR);
        for (i, sector) in buf.chunks_mut(SECTOR).enumerate() {
            let value = self.next << 24 | (first + i) as u64;
            sector.chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        }
        buf
    }

    /// A write of that content was begun.
    pub fn begin(&mut self, first: usize, content: &[u8]) {
        for (i, sector) in content.chunks(SECTOR).enumerate() {
            self.allowed[first + i].push(tag(sector));
        }
    }

    /// The write was acknowledged as durable, or a flush covers it: only the newest value may be found.
    pub fn settle(&mut self, first: usize, count: usize) {
        for allowed in &mut self.allowed[first..first + count] {
            let newest = *allowed.last().unwrap();
            *allowed = vec![newest];
        }
    }

    pub fn settle_all(&mut self) {
        self.settle(0, self.allowed.len());
    }

    /// After a crash: what is found is what is there from now on.
    pub fn adopt(&mut self, content: &[u8]) {
        for (sector, (allowed, found)) in self.allowed.iter_mut().zip(content.chunks(SECTOR)).enumerate() {
            let value = tag(found);
            assert!(allowed.contains(&value), "sector {sector} holds {value:#x}, allowed are {allowed:x?}");
            *allowed = vec![value];
        }
    }

    /// After a crash beyond what is promised: whatever is found.
    pub fn adopt_anything(&mut self, content: &[u8]) {
        self.allowed
            .iter_mut()
            .zip(content.chunks(SECTOR))
            .for_each(|(allowed, found)| *allowed = vec![tag(found)]);
    }

    /// While nothing crashed: exactly the newest value.
    pub fn check(&self, first: usize, content: &[u8]) {
        for (i, found) in content.chunks(SECTOR).enumerate() {
            let newest = *self.allowed[first + i].last().unwrap();
            assert_eq!(tag(found), newest, "sector {}", first + i);
        }
    }
}

/// The value a sector holds, the same all over; a sector that is none of ours has a value that no write gives.
fn tag(sector: &[u8]) -> u64 {
    let words = || sector.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let first = words().next().unwrap();
    if words().all(|word| word == first) {
        return first;
    }
    words().fold(0, |hash: u64, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3)) | 1 << 63
}

/// An array in a world, with its model.
pub struct Lab {
    pub world: World,
    pub shape: Shape,
    pub members: Vec<Arc<SimMember>>,
    pub array: Array,
    pub model: Arc<parking_lot_free::Cell<Model>>,
}

pub mod faulty;

/// A tiny lock for the model, so that tasks can share it.
pub mod parking_lot_free {
    use std::sync::Mutex;

    #[derive(Default)]
    pub struct Cell<T>(Mutex<T>);

    impl<T> Cell<T> {
        pub fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            f(&mut self.0.lock().unwrap())
        }
    }
}

pub fn devices(members: &[Arc<SimMember>]) -> Vec<Arc<dyn Device>> {
    members.iter().map(|m| m.clone() as Arc<dyn Device>).collect()
}

impl Lab {
    pub fn new(seed: u64, shape: Shape) -> Self {
        Self::with_member_bytes(seed, shape, MEMBER_BYTES)
    }

    pub fn with_member_bytes(seed: u64, shape: Shape, member_bytes: u64) -> Self {
        let mut world = World::new(seed);
        let members: Vec<_> =
            (0..shape.members).map(|i| world.add_member(format!("m{i}"), member_bytes)).collect();
        let mut options = CreateOptions::new("sim:lab", shape.level, devices(&members));
        options.chunk_bytes = shape.chunk_bytes;
        options.assume_clean = true;
        options.region_bytes = Some(u64::from(shape.chunk_bytes).max(65536));
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let model = Arc::new(parking_lot_free::Cell::new(Model::new(array.geometry().capacity_bytes())));
        Self { world, shape, members, array, model }
    }

    pub fn sectors(&self) -> usize {
        (self.array.geometry().capacity_bytes() as usize) / SECTOR
    }

    /// Starts clients that write, flush, zero and read disjoint parts of the array, checking what they read.
    pub fn start_clients(&self, clients: usize, requests: usize) {
        let span = self.sectors() / clients;
        for client in 0..clients {
            let seed = self.world.random(u64::MAX);
            let task =
                client_loop(self.array.clone(), self.model.clone(), seed, client * span, span, requests);
            self.world.env().spawn(Box::pin(task));
        }
    }

    /// Runs clients to their end.
    pub fn run_clients(&self, clients: usize, requests: usize) {
        let span = self.sectors() / clients;
        let loops: Vec<_> = (0..clients)
            .map(|client| {
                let seed = self.world.random(u64::MAX);
                client_loop(self.array.clone(), self.model.clone(), seed, client * span, span, requests)
            })
            .collect();
        self.world.run(async move {
            futures_util::future::join_all(loops).await;
        });
    }

    pub fn read_all(&self) -> Vec<u8> {
        let (array, len) = (self.array.clone(), self.array.geometry().capacity_bytes() as usize);
        self.world.run(async move { array.read(0, IoBuf::with_len(len)).await }).unwrap().to_vec()
    }

    pub fn check_all(&self) {
        let content = self.read_all();
        self.model.with(|model| model.check(0, &content));
    }

    pub fn wait_for_jobs(&self) {
        let array = self.array.clone();
        self.world.run(async move { array.wait_for_jobs().await });
    }

    pub fn stop(&self) {
        let array = self.array.clone();
        self.world.run(async move { array.stop().await }).unwrap();
    }

    pub fn assemble(&mut self, members: &[usize], options: AssembleOptions) -> Result<(), AssembleError> {
        let devices: Vec<_> = members.iter().map(|i| self.members[*i].clone() as Arc<dyn Device>).collect();
        let env = self.world.env();
        self.array = self.world.run(async move { assemble(env, devices, &options).await })?;
        Ok(())
    }

    pub fn assemble_all(&mut self, options: AssembleOptions) -> Result<(), AssembleError> {
        let all: Vec<_> = (0..self.members.len()).collect();
        self.assemble(&all, options)
    }

    /// Redundancy agrees everywhere, by arithmetic of the test's own. `members` by role.
    pub fn check_parity(&self, members: &[Arc<SimMember>]) {
        let bytes: Vec<_> = members.iter().map(|m| m.snapshot()).collect();
        check_parity(self.array.geometry(), &bytes.iter().map(|b| b.bytes()).collect::<Vec<_>>());
    }

    pub fn pass(&self, seconds: u64) {
        self.world.run_for(Duration::from_secs(seconds));
    }
}

async fn client_loop(
    array: Array,
    model: Arc<parking_lot_free::Cell<Model>>,
    seed: u64,
    first: usize,
    span: usize,
    requests: usize,
) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..requests {
        let len = random_len(&mut rng, span);
        let at = first + rng.usize(..=span - len);
        let offset = (at * SECTOR) as u64;
        match rng.u8(..20) {
            0..10 => {
                let content = model.with(|m| m.fill(at, len));
                let fua = rng.u8(..8) == 0;
                model.with(|m| m.begin(at, &content));
                if array.write(offset, content.freeze(), WriteFlags { fua }).await.is_err() {
                    return;
                }
                if fua {
                    model.with(|m| m.settle(at, len));
                }
            }
            10..12 => {
                let zeroes = vec![0; len * SECTOR];
                model.with(|m| m.begin(at, &zeroes));
                if array
                    .write_zeroes(offset, (len * SECTOR) as u64, ZeroFlags { may_unmap: true })
                    .await
                    .is_err()
                {
                    return;
                }
            }
            12 => {
                // What was acknowledged to this client before the flush is durable after it.
                if array.flush().await.is_err() {
                    return;
                }
                model.with(|m| m.settle(first, span));
            }
            _ => match array.read(offset, IoBuf::with_len(len * SECTOR)).await {
                Ok(found) => model.with(|m| m.check(at, &found)),
                Err(_) => return,
            },
        }
    }
}

fn random_len(rng: &mut Rng, span: usize) -> usize {
    let largest = match rng.u8(..4) {
        0 => 1,
        1 => 8,
        2 => 64,
        _ => 1024,
    };
    rng.usize(1..=largest.min(span))
}

/// GF(2^8) multiplication by shifting, modulo 0x11D.
fn gf_mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    product
}

/// Recomputes all redundancy byte by byte, from md(4)'s layouts written down once more.
pub fn check_parity(geometry: &Geometry, members: &[&[u8]]) {
    let (n, chunk) = (geometry.members(), geometry.chunk_bytes());
    let data_bytes = geometry.member_bytes() as usize;
    for at in 0..data_bytes {
        let byte = |member: usize| members[member][DATA_OFFSET as usize + at];
        let stripe = at / chunk;
        match geometry.level() {
            Level::Raid0 => {}
            Level::Raid1 => (1..n).for_each(|m| assert_eq!(byte(m), byte(0), "mirror {m} at {at}")),
            Level::Raid4 | Level::Raid5 => {
                let sum = (0..n).fold(0, |sum, m| sum ^ byte(m));
                assert_eq!(sum, 0, "stripe {stripe}, byte {at}");
            }
            Level::Raid6 => {
                let p = n - 1 - stripe % n;
                let q = (p + 1) % n;
                let (mut p_sum, mut q_sum, mut g) = (0, 0, 1u8);
                for i in 0..n - 2 {
                    let data = byte((q + 1 + i) % n);
                    p_sum ^= data;
                    q_sum ^= gf_mul(g, data);
                    g = gf_mul(g, 2);
                }
                assert_eq!((p_sum, q_sum), (byte(p), byte(q)), "stripe {stripe}, byte {at}");
            }
        }
    }
}
