//! Mounts and unmounts by `fusermount3`. It opens `/dev/fuse`, mounts, and sends the descriptor by a socket.

use std::{
    io::{IoSliceMut, Read},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::{MountError, MountOptions, Unmount, clean};

const PROGRAM: &str = "fusermount3";
/// Names the socket's descriptor in the helper: it gets it as its standard input.
const SOCKET_VARIABLE: (&str, &str) = ("_FUSE_COMMFD", "0");

pub(super) fn mount(point: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    if options.block.is_some() {
        return Err(MountError::BadOption { option: "block device", why: "such a mount needs root" });
    }
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.map_err(MountError::system("make a socket to mount", point))?;
    let mut command = Command::new(PROGRAM);
    command.arg("-o").arg(options.for_helper()).arg("--").arg(point);
    command.env(SOCKET_VARIABLE.0, SOCKET_VARIABLE.1).stdin(theirs);
    let child = start(&mut command)?;
    // The command holds the other end: without it, a helper that fails is seen as the end of the socket.
    drop(command);
    let received = receive(&ours).map_err(MountError::system("receive the descriptor of", point));
    finish(child, "mount", point)?;
    received?.ok_or_else(|| MountError::Helper {
        what: "mount",
        point: point.to_owned(),
        said: "it ended without an error, and has sent no descriptor".to_owned(),
    })
}

pub(super) fn unmount(point: &Path, how: Unmount) -> Result<(), MountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if how != Unmount::Now {
        command.arg("-z");
    }
    command.arg("--").arg(point).stdin(Stdio::null());
    match finish(start(&mut command)?, "unmount", point) {
        // Another process was first.
        Err(_) if !clean::is_own_mount(point)? => Ok(()),
        result => result,
    }
}

fn start(command: &mut Command) -> Result<Child, MountError> {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(MountError::NoHelper)
}

/// Waits for the helper, and turns its failure into what it said.
fn finish(mut child: Child, what: &'static str, point: &Path) -> Result<(), MountError> {
    let mut said = Vec::new();
    if let Some(stderr) = &mut child.stderr {
        // What cannot be read is missing from a message.
        let _ = stderr.read_to_end(&mut said);
    }
    let status = child.wait().map_err(MountError::system("wait for the helper of", point))?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let said = if said.is_empty() { format!("it ended with {status}") } else { said };
    Err(MountError::Helper { what, point: point.to_owned(), said })
}

/// One byte comes with the descriptor. `None` if the helper has ended instead.
fn receive(socket: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let receive =
        || recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    rustix::io::retry_on_intr(receive)?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.next().and_then(|mut descriptors| descriptors.next()))
}
