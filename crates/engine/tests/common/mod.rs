//! A simulated array beside a model of every sector, and checkers that do not use the engine's code.

#![allow(dead_code, unreachable_pub)]

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use stripewise_device::{Device, IoBuf};
use stripewise_engine::{
    Array, AssembleError, AssembleOptions, CreateOptions, assemble,
    geometry::{Geometry, Level},
    locking::{PRESETS, Preset},
};
use stripewise_sim::{
    SimMember, World,
    check::layout::Layout,
    client::{Client, Desk},
};

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

/// An array in a world, with its model.
pub struct Lab {
    pub world: World,
    pub shape: Shape,
    pub members: Vec<Arc<SimMember>>,
    pub array: Array,
    pub desk: Arc<Desk>,
}

pub mod faulty;
pub mod timed;
pub mod wide;

pub fn devices(members: &[Arc<SimMember>]) -> Vec<Arc<dyn Device>> {
    members.iter().map(|m| m.clone() as Arc<dyn Device>).collect()
}

/// The preset that a seed stands for: neighbours have different ones.
pub fn preset_of(seed: u64) -> &'static Preset {
    &PRESETS[seed as usize % PRESETS.len()]
}

/// Every shape with every preset.
pub fn labs(seed: u64) -> impl Iterator<Item = Lab> {
    (seed..).zip(SHAPES).flat_map(|(seed, shape)| Lab::each(seed, shape))
}

impl Lab {
    /// With the preset that the seed stands for.
    pub fn new(seed: u64, shape: Shape) -> Self {
        Self::with_preset(seed, shape, preset_of(seed))
    }

    /// With every preset.
    pub fn each(seed: u64, shape: Shape) -> impl Iterator<Item = Self> {
        PRESETS.iter().map(move |preset| Self::with_preset(seed, shape, preset))
    }

    pub fn with_preset(seed: u64, shape: Shape, preset: &'static Preset) -> Self {
        Self::with(seed, shape, MEMBER_BYTES, preset)
    }

    pub fn with_member_bytes(seed: u64, shape: Shape, member_bytes: u64) -> Self {
        Self::with(seed, shape, member_bytes, preset_of(seed))
    }

    fn with(seed: u64, shape: Shape, member_bytes: u64, preset: &'static Preset) -> Self {
        println!("seed {seed}, {shape:?}, preset {}", preset.name);
        let mut world = World::new(seed);
        let members: Vec<_> =
            (0..shape.members).map(|i| world.add_member(format!("m{i}"), member_bytes)).collect();
        let mut options = CreateOptions::new("sim:lab", shape.level, devices(&members));
        options.chunk_bytes = shape.chunk_bytes;
        options.assume_clean = true;
        options.region_bytes = Some(u64::from(shape.chunk_bytes).max(65536));
        options.preset = preset;
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let desk = Desk::new(array.geometry().capacity_bytes());
        Self { world, shape, members, array, desk }
    }

    fn client(&self) -> Client {
        let seed = self.world.random(u64::MAX);
        let home = self.world.random(self.desk.sectors.lock().count() as u64) as usize;
        let rng = Rng::with_seed(seed);
        Client { array: self.array.clone(), desk: self.desk.clone(), rng, home, fua_one_in: 5 }
    }

    /// Starts clients that write, flush, zero and read anywhere, checking what they read.
    pub fn start_clients(&self, clients: usize, requests: usize) {
        for _ in 0..clients {
            self.world.env().spawn(Box::pin(self.client().run(requests)));
        }
    }

    /// Runs clients to their end.
    pub fn run_clients(&self, clients: usize, requests: usize) {
        let clients: Vec<_> = (0..clients).map(|_| self.client().run(requests)).collect();
        self.world.run(async move {
            futures_util::future::join_all(clients).await;
        });
    }

    /// Power fails.
    pub fn crash(&self) {
        self.world.crash();
        self.desk.sectors.lock().crash();
    }

    /// After a crash: what is found must be allowed, and is what is there from now on.
    pub fn adopt(&self) {
        let content = self.read_all();
        self.desk.sectors.lock().adopt(0, &content).unwrap_or_else(|violation| panic!("{violation}"));
    }

    /// After a crash beyond what is promised: whatever is found.
    pub fn adopt_anything(&self) {
        let mut sectors = self.desk.sectors.lock();
        let all = 0..sectors.count();
        sectors.forgive(all);
        drop(sectors);
        self.adopt();
    }

    pub fn flush(&self) {
        let begun = self.desk.sectors.lock().begin_flush();
        let array = self.array.clone();
        self.world.run(async move { array.flush().await }).unwrap();
        self.desk.sectors.lock().end_flush(begun);
    }

    pub fn read_all(&self) -> Vec<u8> {
        let (array, len) = (self.array.clone(), self.array.geometry().capacity_bytes() as usize);
        self.world.run(async move { array.read(0, IoBuf::with_len(len)).await }).unwrap().to_vec()
    }

    /// Nothing was wrong so far, and every sector holds what it may.
    pub fn check_all(&self) {
        let ticket = self.desk.sectors.lock().begin_read();
        let content = self.read_all();
        let checked = self.desk.sectors.lock().end_read(ticket, 0, &content);
        checked.and(self.desk.check()).unwrap_or_else(|violation| panic!("{violation}"));
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

    /// Redundancy agrees everywhere. `members` by role.
    pub fn check_parity(&self, members: &[Arc<SimMember>]) {
        check_parity(&self.array.geometry(), members);
    }

    pub fn pass(&self, seconds: u64) {
        self.world.run_for(Duration::from_secs(seconds));
    }
}

/// The rows of all members, by role, in which redundancy disagrees, by arithmetic that is not the engine's.
pub fn check_parity(geometry: &Geometry, members: &[Arc<SimMember>]) {
    if geometry.level() == Level::Raid0 {
        return;
    }
    let layout = Layout {
        level: geometry.level().number(),
        members: geometry.members(),
        chunk_bytes: geometry.chunk_bytes(),
        member_bytes: geometry.member_bytes() as usize,
    };
    let members: Vec<_> = members.iter().map(|member| member.bytes()).collect();
    let data: Vec<Option<&[u8]>> = members.iter().map(|bytes| Some(&bytes[DATA_OFFSET as usize..])).collect();
    assert_eq!(layout.disagreeing_rows(&data), [0; 0]);
}
