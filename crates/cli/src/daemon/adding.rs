//! Adding devices, and replacing members by them. A device that rotates is measured first, which takes long enough for the
//! command to be told how far that has come.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use stripewise::{
    AddOptions, ArrayError, ArrayReport, MemberState, examine,
    file::FileDevice,
    internals::{
        format::md::{Role, Superblock},
        uring::Started,
    },
};
use stripewise_wire::{ClassChoice, Notes, Reply};

use super::{
    measuring::{Benches, STEP},
    members,
    patience::Deadline,
    slow::Slow,
    state::{COMMAND_WAIT, DaemonState, member_name},
};
use crate::{probe::OWN_MEMBER, reports::member_class};

/// A device as an operator gives it.
pub(super) struct Given<'a> {
    pub(super) device: &'a str,
    /// What it holds may be overwritten.
    pub(super) force: bool,
    pub(super) class: Option<ClassChoice>,
    /// The command asks again while the device is measured.
    pub(super) steps: bool,
}

/// Devices on their way into the array, by the names that were given, between two questions of their commands.
#[derive(Default)]
pub(super) struct Adding(Mutex<BTreeMap<String, Begun>>);

/// A device on its way into the array.
struct Begun {
    ends: Started<Result<(), ArrayError>>,
    /// What is told then.
    notes: Notes,
    benches: Benches,
}

impl Begun {
    /// Waits for its end. With steps, returns earlier while the device is measured.
    fn wait(&mut self, slow: &Slow, steps: bool, deadline: Deadline) -> anyhow::Result<Reply> {
        let deadline = deadline.or_after(COMMAND_WAIT);
        loop {
            if let Some(ended) = self.ends.wait_for(deadline.within(STEP)) {
                ended?;
                return Ok(Reply::Done(std::mem::take(&mut self.notes)));
            }
            if let Some(step) = self.benches.step().filter(|_| steps) {
                return Ok(step);
            }
            ensure!(!deadline.is_over(), slow.hangs_and_goes_on());
        }
    }
}

impl Adding {
    /// How far a device has come, by the name that the command gave.
    pub(super) fn step(&self, device: &str, slow: &Slow, deadline: Deadline) -> anyhow::Result<Reply> {
        let begun = self.0.lock().remove(device).with_context(|| {
            format!("nothing is known of {device} being added any more; `stripewise status` tells whether it is a member")
        })?;
        self.go_on(device.to_owned(), begun, (slow, true), deadline)
    }

    fn go_on(
        &self,
        name: String,
        mut begun: Begun,
        (slow, steps): (&Slow, bool),
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        let reply = begun.wait(slow, steps, deadline)?;
        if matches!(reply, Reply::Measuring { .. }) {
            self.0.lock().insert(name, begun);
        }
        Ok(reply)
    }
}

impl DaemonState {
    pub(super) fn add(&self, given: &Given<'_>, deadline: Deadline) -> anyhow::Result<Reply> {
        let (device, notes) = self.open_new(given, deadline)?;
        let (array, benches) = (self.array.clone(), Benches::default());
        let options = options(given, &benches);
        let order = async move { array.add_with(device, options).await };
        self.begin_adding(given, (notes, benches), order, deadline)
    }

    pub(super) fn replace(
        &self,
        member: &str,
        given: &Given<'_>,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        let (old, new) = (member_name(member), member_name(given.device));
        let state = self.status()?.members.into_iter().find(|m| m.device == new).map(|m| m.state);
        let (device, notes) = match (state, given.class) {
            (None, _) => self.open_new(given, deadline).map(|(device, notes)| (Some(device), notes))?,
            // A member that is not a spare cannot replace anything, and is left as it is.
            (Some(state), Some(class)) if state == MemberState::Spare.name() => {
                (None, self.set_class(given.device, class, deadline)?)
            }
            _ => (None, Notes::new()),
        };
        let (array, benches) = (self.array.clone(), Benches::default());
        let options = options(given, &benches);
        let order = async move {
            if let Some(device) = device {
                array.add_with(device, options).await?;
            }
            array.replace(&old, &new).await
        };
        self.begin_adding(given, (notes, benches), order, deadline)
    }

    /// Opens a device that is to be a member.
    fn open_new(&self, given: &Given<'_>, deadline: Deadline) -> anyhow::Result<(Arc<FileDevice>, Notes)> {
        let Given { device, force, .. } = *given;
        if self.exports.is_own(Path::new(device)) {
            bail!("{device} is this array itself; it cannot be a member of its own");
        }
        let (name, members) = (member_name(device), self.status()?.members);
        if members.iter().any(|member| member.device == name) {
            bail!("{device} is a member already; one that is faulty can be added again once it is removed");
        }
        let opened = members::open(&self.host, device, deadline)?;
        members::check_apart_from(device, &opened, members.iter().map(|member| &member.device))?;
        let opened = Arc::new(opened);
        let agreed = self.was_member(&opened, deadline)?.then(|| OWN_MEMBER.to_owned());
        let notes = members::check_contents(device, &opened, force, agreed.as_slice())?;
        Ok((opened, notes))
    }

    /// Whether a device holds nothing but what this array has without it. It is filled anew, whatever is on it.
    fn was_member(&self, device: &Arc<FileDevice>, deadline: Deadline) -> anyhow::Result<bool> {
        let report = self.report_of_array()?;
        let examined = self.wait_for(examine(device.clone()), deadline.within(COMMAND_WAIT))?;
        Ok(examined.is_ok_and(|examined| has_left(&report, &examined.superblock)))
    }

    fn begin_adding(
        &self,
        given: &Given<'_>,
        (notes, benches): (Notes, Benches),
        order: impl Future<Output = Result<(), ArrayError>> + Send + 'static,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        let begun = Begun { ends: self.host.runtime().begin(order), notes, benches };
        self.adding.go_on(given.device.to_owned(), begun, (&self.slow, given.steps), deadline)
    }
}

/// Whether a superblock is of a member that this array has failed or let go of. It is not if it is one of the array's
/// members now, if it is newer than the array, or if its device was used after it had lost members that are in sync now:
/// then it may hold what they do not. It must count one of these in the same place. To look for lost ones is not enough:
/// the kernel's md writes the same for a lost member as for a number that was never given.
fn has_left(report: &ArrayReport, found: &Superblock) -> bool {
    let is_attached = report.members.iter().any(|member| member.uuid == found.device_uuid);
    let mut in_sync = report.members.iter().filter(|member| member.state == MemberState::InSync);
    let ran_apart = in_sync.any(|member| found.roles.of(member.dev_number) == Some(Role::Faulty));
    let counts_one = report.members.iter().any(|member| {
        let role = found.roles.of(member.dev_number);
        member.state == MemberState::InSync
            && member
                .slot
                .is_some_and(|slot| matches!(role, Some(Role::Active(place)) if usize::from(place) == slot.0))
    });
    let is_of_this_side = counts_one && !ran_apart;
    found.array_uuid == report.uuid && found.events <= report.events && !is_attached && is_of_this_side
}

fn options(given: &Given<'_>, benches: &Benches) -> AddOptions {
    AddOptions::default().class(given.class.map(member_class)).benches(benches.benches.clone())
}
