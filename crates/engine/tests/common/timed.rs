//! Arrays over memory, whose members are done at once or after a while, and can be told to fail.

use std::{sync::Arc, time::Duration};

use stripewise_device::{
    Device,
    memory::MemoryDevice,
    wrap::{Delay, Fault, Faults},
};
use stripewise_engine::{Array, CreateOptions, locking::Preset, plan::selection::Policy};
use stripewise_sim::World;

use super::Shape;

/// Of each member.
pub const TIMED_BYTES: u64 = 4 << 20;
/// What a member takes that is not done at once.
pub const WHILE: Duration = Duration::from_micros(100);

pub struct Timed {
    pub world: World,
    pub array: Array,
    pub members: Vec<Arc<MemoryDevice>>,
    pub faults: Vec<Arc<Faults>>,
}

/// How an array is made.
#[derive(Clone, Copy)]
pub struct How {
    pub shape: Shape,
    pub preset: &'static Preset,
    /// The default, if it is left out.
    pub policy: Option<&'static Policy>,
    /// What members take that are not done at once.
    pub delay: Option<Duration>,
}

pub fn timed(how: How) -> Timed {
    let How { shape, preset, policy, delay } = how;
    let world = World::new(1);
    let memory = |i| Arc::new(MemoryDevice::new(format!("memory{i}"), TIMED_BYTES));
    let members: Vec<_> = (0..shape.members).map(memory).collect();
    let (devices, faults): (Vec<_>, Vec<_>) =
        members.iter().map(|member| Fault::new(member.clone() as Arc<dyn Device>)).unzip();
    let env = world.env();
    let devices = devices.into_iter().map(|device| match delay {
        Some(delay) => Arc::new(Delay::new(device, env.clone(), delay)) as Arc<dyn Device>,
        None => Arc::new(device),
    });
    let mut options = CreateOptions::new("sim:timed", shape.level, devices.collect());
    options.chunk_bytes = shape.chunk_bytes;
    options.assume_clean = true;
    options.policy = policy;
    options.preset = preset;
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    Timed { world, array, members, faults }
}
