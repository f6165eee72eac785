//! Mounts by mount(2).

use std::{
    ffi::CString,
    fs::OpenOptions,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::process::{getegid, geteuid};

use super::{DEVICE, MountError, MountOptions};

pub(super) fn mount(point: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let channel: OwnedFd =
        OpenOptions::new().read(true).write(true).open(DEVICE).map_err(MountError::NoDevice)?.into();
    let data = data(&channel, options);
    rustix::mount::mount(
        options.mounted_source(),
        point,
        options.kind(),
        options.flags(),
        Some(data.as_c_str()),
    )
    .map_err(MountError::system("mount a FUSE file system on", point))?;
    Ok(channel)
}

/// The kernel reads the descriptor's number, the root's type in octal, the owner, and the words.
fn data(channel: &OwnedFd, options: &MountOptions) -> CString {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let mut words = vec![format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", channel.as_raw_fd())];
    words.extend(options.words());
    CString::new(words.join(",")).expect("numbers and known words hold no NUL")
}
