//! A history while it runs: an array, its operations, and its allowed contents.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{
    Device, IoBuf, WriteFlags, ZeroFlags,
    wrap::{Fault, Faults},
};
use stripewise_engine::{Array, ArrayError, AssembleOptions, assemble};

use super::{
    history::{Op, Shape},
    point::Point,
    state::{STEPS_MAX, layout},
    teller::Base,
};
use crate::{
    World,
    check::{Checker, SECTOR_BYTES, Sectors, Violation},
    member::Fate,
    outlook::Outlook,
};

/// Time enough for regions to be cleared, and for the array to become clean.
const REST: Duration = Duration::from_secs(3);

/// The array of a history while it runs.
pub(super) struct Life {
    world: World,
    shape: Shape,
    pub(super) outlook: Outlook,
    faults: Vec<Arc<Faults>>,
    array: Array,
    pub(super) sectors: Arc<Mutex<Sectors>>,
    /// Counts requests that began or ended.
    told: Arc<AtomicU64>,
    pub(super) lost: Option<usize>,
    steps: u64,
}

/// Where a request's result will be.
pub(super) type Slot = Arc<Mutex<Option<Result<(), ArrayError>>>>;

impl Life {
    pub(super) fn begin(mut world: World, base: &Base) -> Result<Self, Violation> {
        let members = base.members.iter().enumerate();
        let members: Vec<_> =
            members.map(|(i, bytes)| world.add_member_holding(format!("m{i}"), bytes)).collect();
        let (devices, faults): (Vec<_>, Vec<_>) = members.iter().cloned().map(Fault::new).unzip();
        let devices = devices.into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect();
        let env = world.env();
        let options = AssembleOptions::default().cache(base.shape.cache());
        let opening = async move { assemble(env, devices, &options).await };
        let opened = world.run_within(STEPS_MAX, opening);
        let opened = opened.ok_or_else(|| Checker::Engine.violation("assembling does not come to an end"))?;
        let array = opened
            .map_err(|error| Checker::Service.violation(format!("assembling what was stopped: {error}")))?;
        Ok(Self {
            world,
            shape: base.shape,
            outlook: Outlook::new(members),
            faults,
            array,
            sectors: Arc::new(Mutex::new(base.sectors.clone())),
            told: Arc::default(),
            lost: None,
            steps: 0,
        })
    }

    /// Begins an operation that takes time.
    pub(super) fn ask(&mut self, op: Op) -> Option<Slot> {
        let (array, told) = (self.array.clone(), self.told.clone());
        let sectors = self.sectors.clone();
        told.fetch_add(1, Ordering::Relaxed);
        let (offset, len) = op.range(self.shape);
        let (first, count) = (offset as usize / SECTOR_BYTES, len as usize / SECTOR_BYTES);
        match op {
            Op::Write { fua, .. } => {
                let mut content = IoBuf::with_len(len as usize);
                let ticket = {
                    let mut sectors = sectors.lock();
                    sectors.fill(first, &mut content);
                    sectors.begin_write(first, &content)
                };
                Some(self.world.start(async move {
                    let result = array.write(offset, content.freeze(), WriteFlags { fua }).await;
                    sectors.lock().end_write(ticket, result.is_ok(), fua);
                    told.fetch_add(1, Ordering::Relaxed);
                    result
                }))
            }
            Op::Zero => {
                let ticket = sectors.lock().begin_zeroes(first, count);
                Some(self.world.start(async move {
                    let result = array.write_zeroes(offset, len, ZeroFlags::default()).await;
                    sectors.lock().end_write(ticket, result.is_ok(), false);
                    told.fetch_add(1, Ordering::Relaxed);
                    result
                }))
            }
            Op::Flush => Some(self.world.start(async move {
                let begun = sectors.lock().begin_flush();
                let result = array.flush().await;
                if result.is_ok() {
                    sectors.lock().end_flush(begun);
                }
                told.fetch_add(1, Ordering::Relaxed);
                result
            })),
            Op::Rest => {
                let env = self.world.env();
                Some(self.world.start(async move {
                    env.sleep(REST).await;
                    Ok(())
                }))
            }
            Op::Lose => {
                let role = layout(self.shape).place(self.shape.stripe_bytes() as usize).role;
                self.faults[role].set_gone(true);
                self.lost = Some(role);
                None
            }
        }
    }

    pub(super) fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Checker::Engine.violation("a request does not come to an end"));
        }
        self.world.run_steps(1);
        Ok(())
    }

    /// Whether a power failure may leave another state than the last one.
    pub(super) fn has_changed(&mut self) -> bool {
        self.outlook.has_changed(self.told.load(Ordering::Relaxed))
    }

    /// When power failed and what it left, in words.
    pub(super) fn describe(&self, point: &Point, fates: &[Fate], absent: Option<usize>) -> String {
        let told = point.moment.describe(fates);
        let lost = match (self.lost, absent) {
            (None, _) => String::new(),
            (Some(lost), None) => format!("; m{lost}, which had vanished, is back"),
            (Some(lost), Some(_)) => format!("; m{lost} has vanished"),
        };
        let us = self.world.now().0 / 1000;
        format!("power fails at step {}, {us} us: {told}{lost}", self.steps)
    }
}
