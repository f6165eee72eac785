//! Arrays whose members can be told to fail, and whose I/O is recorded.

use std::{ops::Range, sync::Arc};

use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags,
    wrap::{Fault, FaultRule, Faults, Operation, Trace, TraceLog},
};
use stripewise_engine::{
    Array, ArrayError, AssembleError, AssembleOptions, CreateOptions, assemble,
    locking::{PRESETS, Preset},
};
use stripewise_sim::{SimMember, World};

use super::{MEMBER_BYTES, Shape, devices, preset_of};

pub struct Bench {
    pub world: World,
    pub sims: Vec<Arc<SimMember>>,
    /// What the array is made of: each member of `sims`, with its faults.
    pub members: Vec<Arc<dyn Device>>,
    pub faults: Vec<Arc<Faults>>,
    pub logs: Vec<Arc<TraceLog>>,
    pub array: Array,
}

/// With the preset that the seed stands for.
pub fn bench(seed: u64, shape: Shape) -> Bench {
    bench_with(seed, shape, preset_of(seed))
}

/// With every preset.
pub fn benches(seed: u64, shape: Shape) -> impl Iterator<Item = Bench> {
    PRESETS.iter().map(move |preset| bench_with(seed, shape, preset))
}

pub fn bench_with(seed: u64, shape: Shape, preset: &'static Preset) -> Bench {
    println!("seed {seed}, {shape:?}, preset {}", preset.name);
    let mut world = World::new(seed);
    let sims: Vec<_> = (0..shape.members).map(|i| world.add_member(format!("m{i}"), MEMBER_BYTES)).collect();
    let mut members: Vec<Arc<dyn Device>> = Vec::new();
    let (mut faults, mut logs) = (Vec::new(), Vec::new());
    for sim in &sims {
        let (traced, log) = Trace::new(sim.clone());
        let (fault, handle) = Fault::new(traced);
        members.push(Arc::new(fault));
        faults.push(handle);
        logs.push(log);
    }
    let mut options = CreateOptions::new("sim:faults", shape.level, members.clone());
    options.chunk_bytes = shape.chunk_bytes;
    options.assume_clean = true;
    options.preset = preset;
    let env = world.env();
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    Bench { world, sims, members, faults, logs, array }
}

impl Bench {
    /// One more member that can be told to fail.
    pub fn spare(&mut self, name: &str) -> (Arc<dyn Device>, Arc<SimMember>, Arc<Faults>) {
        let sim = self.world.add_member(name, MEMBER_BYTES);
        let (fault, handle) = Fault::new(sim.clone());
        (Arc::new(fault), sim, handle)
    }

    pub fn write(&self, offset: u64, byte: u8, len: usize) -> Result<(), ArrayError> {
        let array = self.array.clone();
        let data = IoBuf::copy_of(&vec![byte; len]).freeze();
        self.world.run(async move { array.write(offset, data, WriteFlags::default()).await })
    }

    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, ArrayError> {
        let array = self.array.clone();
        self.world.run(async move { array.read(offset, IoBuf::with_len(len)).await }).map(|buf| buf.to_vec())
    }

    pub fn in_sync(&self) -> Vec<bool> {
        let array = self.array.clone();
        self.world.run(async move { array.report().await }).in_sync
    }

    pub fn fill(&self, byte: u8) {
        let capacity = self.array.geometry().capacity_bytes() as usize;
        self.write(0, byte, capacity).unwrap();
    }

    pub fn assemble(&self, members: Range<usize>, options: AssembleOptions) -> Result<Array, AssembleError> {
        let env = self.world.env();
        let devices = devices(&self.sims[members]);
        self.world.run(async move { assemble(env, devices, &options).await })
    }
}

pub fn latent_error(range_bytes: Range<u64>) -> FaultRule {
    FaultRule {
        operation: Operation::Read,
        range_bytes,
        kind: IoErrorKind::Medium,
        times: u32::MAX,
        healed_by_write: true,
    }
}

pub fn write_error() -> FaultRule {
    FaultRule {
        operation: Operation::Write,
        range_bytes: 0..u64::MAX,
        kind: IoErrorKind::Medium,
        times: u32::MAX,
        healed_by_write: false,
    }
}
