//! What must hold of the state that a power failure left: the members' metadata is true; the array opens;
//! reads return allowed contents; a resync makes redundancy agree, and changes nothing that was read.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use stripewise_device::{Device, IoBuf};
use stripewise_engine::{Array, AssembleError, AssembleOptions, assemble, geometry::Level};

use super::history::Shape;
use crate::{
    SimMember, World,
    check::{
        Checker, SECTOR_BYTES, Sectors, Violation,
        image::Image,
        layout::{Layout, ROW_BYTES},
    },
    member::MemberImage,
    story::panic_text,
};

/// Steps of the scheduler after which an operation counts as hanging.
pub(super) const STEPS_MAX: u64 = 1_000_000;

/// The state after a power failure.
pub(super) struct State<'a> {
    pub(super) shape: Shape,
    pub(super) seed: u64,
    /// By role.
    pub(super) members: &'a [MemberImage],
    /// The allowed contents.
    pub(super) sectors: &'a Sectors,
    /// A missing member.
    pub(super) absent: Option<usize>,
}

/// Checks a state.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(state: &State<'_>) -> Result<(), Violation> {
    guarded(Opening::new(state), Opening::check)
}

/// Runs a check; a panic of the engine is a violation, too.
pub(super) fn guarded<T, R>(
    mut of: T,
    check: impl FnOnce(&mut T) -> Result<R, Violation>,
) -> Result<R, Violation> {
    let checked = catch_unwind(AssertUnwindSafe(|| check(&mut of)));
    // The state that a panic left half done may panic again when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(of)));
    checked.unwrap_or_else(|panic| Err(Checker::Engine.violation(panic_text(&*panic))))
}

/// An array that is assembled again.
struct Opening<'a> {
    shape: Shape,
    world: World,
    members: Vec<Arc<SimMember>>,
    sectors: Sectors,
    state: &'a State<'a>,
}

/// The superblocks' state before the opening.
struct Standing {
    /// Roles with a member in sync.
    in_sync: Vec<bool>,
    clean: bool,
}

impl<'a> Opening<'a> {
    fn new(state: &'a State<'a>) -> Self {
        let mut world = World::new(state.seed);
        let members = state.members.iter().enumerate();
        let members = members.map(|(i, bytes)| world.add_member_holding(format!("m{i}"), bytes)).collect();
        Self { shape: state.shape, world, members, sectors: state.sectors.clone(), state }
    }

    fn check(&mut self) -> Result<(), Violation> {
        let before = self.with_image(|image| {
            image.check_bitmap()?;
            image.check()?;
            image.check_filled()?;
            let in_sync = image.in_sync().iter().map(Option::is_some).collect();
            Ok(Standing { in_sync, clean: image.freshest().clean })
        })?;
        let array = self.open(&before)?;
        self.forgive_hole(&before, &array)?;
        let content = self.read_all(&array)?;
        self.sectors.adopt(0, &content)?;
        self.resync(&array)?;
        let again = self.read_all(&array)?;
        if let Some(sector) = (0..content.len()).step_by(SECTOR_BYTES).find(|at| {
            let sector = *at..at + SECTOR_BYTES;
            content[sector.clone()] != again[sector]
        }) {
            let what = format!("sector {} was read, and the resync has changed it", sector / SECTOR_BYTES);
            return Err(Checker::Sectors.violation(what));
        }
        self.with_image(|image| image.check_redundancy())
    }

    /// Looks at the members as a foreign program would.
    fn with_image<R>(&self, look: impl FnOnce(&Image<'_>) -> Result<R, Violation>) -> Result<R, Violation> {
        let guards: Vec<_> = self.members.iter().map(|member| member.bytes()).collect();
        let mut bytes: Vec<&[u8]> = guards.iter().map(|guard| &**guard).collect();
        if let Some(absent) = self.state.absent {
            bytes[absent] = &[];
        }
        let image = Image::of(&bytes);
        look(&image.ok_or_else(|| Checker::Metadata.violation("no member has a valid superblock"))?)
    }

    fn finish<T: Send + 'static>(
        &self,
        what: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Violation> {
        let done = self.world.run_within(STEPS_MAX, future);
        done.ok_or_else(|| Checker::Engine.violation(format!("{what} does not come to an end")))
    }

    fn open(&self, before: &Standing) -> Result<Array, Violation> {
        let mut force = false;
        loop {
            let options = AssembleOptions::default().run(true).force(force);
            let there =
                self.members.iter().enumerate().filter(|(index, _)| self.state.absent != Some(*index));
            let devices = there.map(|(_, member)| member.clone() as Arc<dyn Device>).collect();
            let env = self.world.env();
            let opening = async move { assemble(env, devices, &options).await };
            match self.finish("assembling", opening)? {
                Ok(array) => return Ok(array),
                Err(AssembleError::DirtyDegraded) if !force => {
                    let in_danger = !before.clean && before.in_sync.contains(&false);
                    if !in_danger || self.shape.level == Level::Raid1 {
                        return Err(
                            Checker::Service.violation("nothing is in danger, and the array is refused")
                        );
                    }
                    force = true;
                }
                Err(error) => return Err(Checker::Service.violation(format!("assembling: {error}"))),
            }
        }
    }

    /// The write hole (`docs/failure-model.md`): the data of open rows on a missing member is not promised.
    fn forgive_hole(&mut self, before: &Standing, array: &Array) -> Result<(), Violation> {
        if self.shape.level == Level::Raid1 {
            return Ok(());
        }
        let array = array.clone();
        let after = self.finish("a report", async move { array.report().await })?.in_sync;
        let layout = layout(self.shape);
        let row_of = |sector: usize| layout.place(sector * SECTOR_BYTES).offset_bytes / ROW_BYTES;
        let mut rows: Vec<usize> = self.sectors.open().map(row_of).collect();
        rows.sort_unstable();
        rows.dedup();
        let is_lost = |role: usize| !before.in_sync[role] || !after[role];
        let in_hole = |sector: &usize| {
            is_lost(layout.place(sector * SECTOR_BYTES).role) && rows.binary_search(&row_of(*sector)).is_ok()
        };
        let forgiven: Vec<usize> = (0..self.sectors.count()).filter(in_hole).collect();
        self.sectors.forgive(forgiven);
        Ok(())
    }

    fn read_all(&self, array: &Array) -> Result<Vec<u8>, Violation> {
        let (array, len) = (array.clone(), self.shape.capacity_bytes() as usize);
        let read = self.finish("reading", async move { array.read(0, IoBuf::with_len(len)).await })?;
        let content = read.map_err(|error| Checker::Service.violation(format!("reading: {error}")))?;
        Ok(content.to_vec())
    }

    /// Lets the resync end, and makes its repairs durable.
    fn resync(&self, array: &Array) -> Result<(), Violation> {
        let array = array.clone();
        let flushed = self.finish("a resync and a flush", async move {
            array.wait_for_jobs().await;
            array.flush().await
        })?;
        flushed.map_err(|error| Checker::Service.violation(format!("a flush: {error}")))
    }
}

/// The layout, by arithmetic that is not the engine's.
pub(super) fn layout(shape: Shape) -> Layout {
    Layout {
        level: shape.level.number(),
        members: shape.members,
        chunk_bytes: shape.chunk_bytes() as usize,
        member_bytes: shape.data_bytes() as usize,
    }
}
