//! Requests on extended attributes.

use stripewise_fuse::{
    Errno,
    protocol::XattrFlags,
    request::{Caller, Setxattr},
};
use stripewise_rafs::fs::{ROOT, SetAttribute};

use crate::{
    answer::{Answer, Result},
    convert::errno,
    report::{self, BufferReport, PaceChange},
    server::Rafs,
};

/// The namespace of ACLs. They are not obeyed, so they are not kept either.
const SYSTEM: &[u8] = b"system.";

impl Rafs {
    pub(crate) async fn set_xattr(&self, inode: u64, set: &Setxattr<'_>, caller: Caller) -> Result<Answer> {
        if inode == ROOT && set.name == report::ATTRIBUTE.as_bytes() {
            return self.change_pace(set.value, caller).await;
        }
        check_namespace(set.name)?;
        let how = match (set.flags.contains(XattrFlags::CREATE), set.flags.contains(XattrFlags::REPLACE)) {
            (false, false) => SetAttribute::Either,
            (true, false) => SetAttribute::Create,
            (false, true) => SetAttribute::Replace,
            (true, true) => return Err(Errno::INVAL),
        };
        let done = self.fs.set_attribute(inode, set.name, set.value, how).await;
        done.map(|()| Answer::Done).map_err(errno)
    }

    pub(crate) async fn xattr(&self, inode: u64, name: &[u8], room: u32, caller: Caller) -> Result<Answer> {
        if inode == ROOT && name == report::ATTRIBUTE.as_bytes() {
            return sized(self.report().await?, room);
        }
        if inode == ROOT && name == report::BEGIN_LOOK_ATTRIBUTE.as_bytes() {
            return sized(self.begin_look(caller)?, room);
        }
        if inode == ROOT && name == report::LOOK_ATTRIBUTE.as_bytes() {
            return sized(self.look_told(caller)?, room);
        }
        if inode == ROOT && name == report::BUFFER_ATTRIBUTE.as_bytes() {
            self.check_owner(caller)?;
            let report = BufferReport::of(&self.fs.buffer_lists().await);
            return sized(serde_json::to_vec(&report).map_err(|_| Errno::IO)?, room);
        }
        check_namespace(name)?;
        sized(self.fs.attribute(inode, name).await.map_err(errno)?, room)
    }

    pub(crate) async fn xattrs(&self, inode: u64, room: u32) -> Result<Answer> {
        let names = self.fs.attributes(inode).await.map_err(errno)?;
        let zeroed = names.into_iter().flat_map(|mut name| {
            name.push(0);
            name
        });
        sized(zeroed.collect(), room)
    }

    pub(crate) async fn remove_xattr(&self, inode: u64, name: &[u8]) -> Result<Answer> {
        check_namespace(name)?;
        self.fs.remove_attribute(inode, name).await.map(|()| Answer::Done).map_err(errno)
    }

    /// The kernel checks no permissions for attributes of this namespace.
    pub(crate) fn check_owner(&self, caller: Caller) -> Result<()> {
        if caller.uid != 0 && caller.uid != self.user { Err(Errno::PERM) } else { Ok(()) }
    }

    async fn change_pace(&self, value: &[u8], caller: Caller) -> Result<Answer> {
        self.check_owner(caller)?;
        let change: PaceChange = serde_json::from_slice(value).map_err(|_| Errno::INVAL)?;
        let pace = change.of(self.fs.pace()).ok_or(Errno::INVAL)?;
        tracing::info!(?pace, "written out at another pace");
        self.fs.set_pace(pace).await;
        Ok(Answer::Done)
    }

    async fn report(&self) -> Result<Vec<u8>> {
        let report = report::Report::of(&self.identity, &self.fs.usage().await, self.fs.pace());
        let report = report.with(&self.fs.counters().await, &self.fs.stripes().await);
        serde_json::to_vec(&report).map_err(|_| Errno::IO)
    }
}

fn check_namespace(name: &[u8]) -> Result<()> {
    if name.starts_with(SYSTEM) { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

/// A value, or its length where there is no room at all.
fn sized(value: Vec<u8>, room: u32) -> Result<Answer> {
    let len = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
    match room {
        0 => Ok(Answer::AttributeLength(len)),
        room if room < len => Err(Errno::RANGE),
        _ => Ok(Answer::Bytes(value)),
    }
}
