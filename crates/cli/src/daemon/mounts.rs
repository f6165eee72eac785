//! Unmounts or writes out file systems on an array's block device, if they are mounted in this process's own
//! mount namespace. File systems mounted elsewhere cannot be reached by path, and are only named.
//!
//! Separate processes do this. A thread of this process that waited for writes which this process serves
//! could not be killed.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Child, Command},
    thread,
    time::Duration,
};

use stripewise::export::attach::BlockUser;

use super::patience::Patience;

const POLL: Duration = Duration::from_millis(10);

/// Unmounts all that can be unmounted. A mount below another one can go once the other has gone, so this
/// looks at the users again after each. After one that hangs, it tries no other: that would hang as well.
pub(super) fn unmount_all(users: impl Fn() -> Vec<BlockUser>, options: &[&str], patience: Patience<'_>) {
    loop {
        let found = users();
        let mut unmounted = false;
        for point in found.iter().filter_map(BlockUser::mount_point) {
            match unmount(point, options, patience) {
                Ok(true) => {
                    unmounted = true;
                    break;
                }
                Ok(false) => {}
                Err(Hangs) => {
                    let busy: Vec<_> = users().iter().map(ToString::to_string).collect();
                    let busy = busy.join(", ");
                    tracing::warn!(point = %point.display(), busy, "unmounting hangs, and is left to itself");
                    return;
                }
            }
        }
        if !unmounted {
            return;
        }
    }
}

/// A process did not end while it was waited for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hangs;

/// Unmounts one, and returns whether that worked.
fn unmount(point: &Path, options: &[&str], patience: Patience<'_>) -> Result<bool, Hangs> {
    tracing::info!(point = %point.display(), "unmounting");
    let Ok(child) = Command::new("umount").args(options).arg(point).spawn() else { return Ok(false) };
    wait_for(child, patience)
}

/// Unmounts what this process itself has mounted, and returns whether that worked. `is_lazy`: although it is in use.
pub(super) fn unmount_own(point: &Path, is_lazy: bool, patience: Patience<'_>) -> Result<bool, Hangs> {
    tracing::info!(point = %point.display(), is_lazy, "unmounting");
    let (program, words): (&str, &[&str]) = match (rustix::process::geteuid().is_root(), is_lazy) {
        (true, false) => ("umount", &[]),
        (true, true) => ("umount", &["--lazy"]),
        (false, false) => ("fusermount3", &["-u"]),
        (false, true) => ("fusermount3", &["-u", "-z"]),
    };
    let Ok(child) = Command::new(program).args(words).arg(point).spawn() else { return Ok(false) };
    wait_for(child, patience)
}

/// Writes out what the file systems on the device and its own cache hold, for as long as the patience lasts.
/// File systems that no path here leads to are written out together with all others of the machine. After one
/// that hangs, it tries no other: that would hang as well.
pub(super) fn write_out(node: &Path, users: &[BlockUser], patience: Patience<'_>) {
    let is_hidden =
        |user: &BlockUser| matches!(user, BlockUser::Mount { .. }) && user.mount_point().is_none();
    let mut orders: Vec<Vec<&OsStr>> = Vec::new();
    let points = users.iter().filter_map(BlockUser::mount_point);
    orders.extend(points.map(|point| vec!["--file-system".as_ref(), point.as_os_str()]));
    orders.extend(users.iter().any(is_hidden).then(Vec::new));
    orders.push(vec![node.as_os_str()]);
    for order in &orders {
        if sync(order, patience) == Err(Hangs) {
            let what =
                order.last().map_or_else(|| "all file systems".to_owned(), |what| what.display().to_string());
            let busy: Vec<_> = users.iter().map(ToString::to_string).collect();
            tracing::warn!(
                what,
                busy = busy.join(", "),
                "writing out does not end in time, and is left to itself: what is not written out is lost"
            );
            return;
        }
    }
}

fn sync(arguments: &[&OsStr], patience: Patience<'_>) -> Result<bool, Hangs> {
    match Command::new("sync").args(arguments).spawn() {
        Ok(child) => wait_for(child, patience),
        Err(_) => Ok(false),
    }
}

/// Waits for a process that may hang, and returns whether it succeeded.
fn wait_for(mut child: Child, patience: Patience<'_>) -> Result<bool, Hangs> {
    let mut watch = patience.watch();
    loop {
        match child.try_wait() {
            Ok(None) => {}
            ended => return Ok(ended.is_ok_and(|status| status.is_some_and(|status| status.success()))),
        }
        if !watch.goes_on() {
            abandon(child);
            return Err(Hangs);
        }
        thread::sleep(POLL);
    }
}

/// Kills a process that may take long to die.
fn abandon(mut child: Child) {
    let _ = child.kill();
    thread::spawn(move || child.wait());
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::daemon::patience::Deadline;

    fn long() -> Deadline {
        Deadline::after(Duration::from_secs(1000))
    }

    fn hanging() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn what_hangs_is_left_to_itself() {
        let patience =
            Patience { still_max: Duration::from_millis(50), ..Patience::while_written(&|| 0, long()) };
        assert_eq!(wait_for(hanging(), patience), Err(Hangs));
        let ended = Command::new("true").spawn().unwrap();
        assert_eq!(wait_for(ended, Patience::while_written(&|| 0, long())), Ok(true));
        let failed = Command::new("false").spawn().unwrap();
        assert_eq!(wait_for(failed, Patience::while_written(&|| 0, long())), Ok(false));
    }

    #[test]
    fn somebody_who_will_not_wait_is_heard_although_something_is_written() {
        let (written, asked) = (Cell::new(0), Cell::new(0));
        let patience = Patience {
            written: &|| {
                written.set(written.get() + 1);
                written.get()
            },
            is_over: &|| {
                asked.set(asked.get() + 1);
                asked.get() == 20
            },
            still_max: Duration::from_millis(50),
            deadline: long(),
        };
        assert_eq!(wait_for(hanging(), patience), Err(Hangs));
        assert_eq!(asked.get(), 20, "longer than it may stand still");
    }
}
