//! The end of what uses the file system, when the array is stopped.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use stripewise_mount::fuse::is_own_mount;
use stripewise_wire::Notes;

use super::{
    super::{
        exports::Users,
        mounts,
        patience::{Deadline, Patience},
    },
    FileSystem, Use, Work, in_use,
    mounting::Event,
};
use crate::printable::printable;

/// How often it is looked whether a mount has ended, or an operator waits no longer.
const POLL: Duration = Duration::from_millis(50);
/// How long what is buffered may take to be written out by force, and the mount to be taken out of the tree before.
const FORCED_WRITE_OUT: Duration = Duration::from_secs(30);
const FORCED_DETACH: Duration = Duration::from_secs(5);
/// How long the thread of a mount may take beyond that.
const FORCED_MORE: Duration = Duration::from_secs(2);

/// What uses it now.
enum Found {
    Nothing,
    Work(Work),
    Mounted(PathBuf),
}

impl FileSystem {
    /// Ends its use, for good: a mount that is in use keeps the array from being stopped, unless it is taken from its users by
    /// force. Then what is buffered is written out all the same, for a while.
    ///
    /// # Errors
    /// If it is in use.
    pub(in crate::daemon) fn end(&self, users: Users, patience: Patience<'_>) -> anyhow::Result<Notes> {
        loop {
            match self.found_or_closed(users) {
                Found::Nothing => return Ok(Notes::new()),
                Found::Work(work) if users == Users::Refuse => {
                    bail!("{}; wait for that, and stop it then", work.told())
                }
                // The work may have been a mount, which is in use now: look again.
                Found::Work(_) if self.waits_while(patience, |used| matches!(used, Use::Work(_))) => {}
                Found::Work(work) if users == Users::Force => {
                    self.close();
                    return Ok(vec![format!("{}, and is cut short", work.told())]);
                }
                Found::Work(work) => bail!("{}", work.told()),
                Found::Mounted(point) => match users {
                    Users::Refuse => bail!(
                        "{}, or give --force: the files that are open in it fail then, and what is buffered is written out for {} s \
                         at most",
                        in_use(&point),
                        FORCED_WRITE_OUT.as_secs()
                    ),
                    Users::Unmount => self.unmount(&point, patience)?,
                    Users::Force => return Ok(self.force(&point, patience)),
                },
            }
        }
    }

    /// The array is not stopped after all.
    pub(in crate::daemon) fn reopen(&self) {
        self.state.lock().is_closed = false;
    }

    /// Whether nothing uses it, or will not in a moment.
    pub(super) fn rests_within(&self, deadline: Deadline) -> bool {
        let mut state = self.state.lock();
        let until = deadline.or_after(Duration::from_millis(300)).instant();
        let is_used = |state: &mut super::State| matches!(state.used, Use::Mounted { .. });
        !self.changed.wait_while_until(&mut state, is_used, until).timed_out()
            || !matches!(state.used, Use::Mounted { .. })
    }

    /// What uses it; if nothing does, nothing will.
    fn found_or_closed(&self, users: Users) -> Found {
        let mut state = self.state.lock();
        match &state.used {
            Use::Work(work) if users == Users::Refuse || !work.only_reads() => return Found::Work(*work),
            Use::Mounted { status, .. } => return Found::Mounted(status.point.clone()),
            // What only reads fails when the array has stopped.
            Use::None | Use::Work(_) => {}
        }
        state.is_closed = true;
        Found::Nothing
    }

    fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Waits until nothing uses it. Returns whether that came to pass.
    fn waits(&self, patience: Patience<'_>) -> bool {
        self.waits_while(patience, |used| !matches!(used, Use::None))
    }

    /// Waits while `is_such` holds for its use. Returns whether it no longer does.
    fn waits_while(&self, patience: Patience<'_>, is_such: impl Fn(&Use) -> bool) -> bool {
        let mut watch = patience.watch();
        let mut state = self.state.lock();
        while is_such(&state.used) {
            let _ = self.changed.wait_for(&mut state, POLL);
            if !watch.goes_on() {
                return !is_such(&state.used);
            }
        }
        true
    }

    /// Unmounts as umount(8) does, and waits until all is written out.
    fn unmount(&self, point: &Path, patience: Patience<'_>) -> anyhow::Result<()> {
        let told = printable(&point.display().to_string());
        if !is_own_mount(point).unwrap_or(true) {
            bail!("{}", in_use(point));
        }
        match mounts::unmount_own(point, false, patience) {
            Ok(true) if self.waits(patience) => Ok(()),
            Ok(true) => bail!("{told} is unmounted, and what was buffered is still being written out"),
            Ok(false) => bail!("{told} is in use, so that its file system cannot be unmounted"),
            Err(mounts::Hangs) => bail!("unmounting {told} hangs"),
        }
    }

    /// Takes the mount from its users. It is waited for as long as something is written, and no longer than its limit.
    fn force(&self, point: &Path, patience: Patience<'_>) -> Notes {
        // Nothing may begin from here on: it would write at the same time as what is left of this mount.
        self.close();
        let told = printable(&point.display().to_string());
        let detach = Patience { deadline: patience.deadline.or_after(FORCED_DETACH), ..patience };
        // What else is mounted there by now is none of its business.
        let is_there = is_own_mount(point).unwrap_or(true);
        let is_out = !is_there || mounts::unmount_own(point, true, detach).unwrap_or(false);
        let limit = patience.deadline.within(FORCED_WRITE_OUT);
        if let Use::Mounted { tell, .. } = &self.state.lock().used {
            // A thread that has ended meanwhile needs to hear nothing.
            let _ = tell.send(Event::Force(limit));
        }
        let has_ended = self.waits(Patience { deadline: Deadline::after(limit + FORCED_MORE), ..patience });
        let lost = self.lost().filter(|_| has_ended);
        let lost =
            lost.or_else(|| (!has_ended).then(|| "it could not all be written out in time".to_owned()));
        let of_data = lost.map(|why| format!("what was written to {told} and not synced is lost: {why}"));
        let of_mount = (!is_out)
            .then(|| format!("{told} fails every request now; `stripewise umount {told}` clears it"));
        of_data.into_iter().chain(of_mount).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    fn ended(own: &FileSystem, users: Users, limit: Duration) -> anyhow::Result<Notes> {
        own.end(users, Patience::while_written(&|| 0, Deadline::after(limit)))
    }

    const MOMENT: Duration = Duration::from_millis(20);

    #[test]
    fn a_command_waits_for_no_work_and_a_signal_only_for_what_writes() {
        let own = Arc::new(FileSystem::default());
        let check = own.claim(Work::Check).unwrap();
        let said = ended(&own, Users::Refuse, MOMENT).unwrap_err().to_string();
        assert!(said.contains("being checked"), "{said}");
        assert!(ended(&own, Users::Unmount, MOMENT).is_ok(), "a check may fail halfway");
        drop(check);
        assert!(own.claim(Work::Look).is_err(), "nothing begins in an array that is being stopped");
        own.reopen();
        let make = own.claim(Work::Make).unwrap();
        for users in [Users::Refuse, Users::Unmount] {
            assert!(ended(&own, users, MOMENT).is_err());
        }
        let notes = ended(&own, Users::Force, MOMENT).unwrap();
        assert!(notes[0].contains("cut short"), "{notes:?}");
        own.reopen();
        thread::scope(|scope| {
            let stops = scope.spawn(|| ended(&own, Users::Unmount, Duration::from_secs(30)));
            thread::sleep(MOMENT);
            drop(make);
            assert!(stops.join().unwrap().unwrap().is_empty());
        });
        assert!(own.claim(Work::Mount).is_err());
    }
}
