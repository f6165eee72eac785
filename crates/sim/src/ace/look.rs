//! A look at what a power failure has left: fsck finds nothing, it can be mounted, and it can be used then.

use stripewise_rafs::fs::{Fs, FsError};

use super::{
    found::{self, Found as Content, Sort, find, resize, with},
    model::Change,
    workload::Start,
};
use crate::{
    MemberImage, World,
    rafs::{Checker, Found, Volumes, finish, look_for_damage, mount},
};

/// A name that no workload uses.
const NEW_NAME: &str = "new";
/// Bytes that each file gains.
const GAINED: usize = 8192;

/// What the next mount finds.
pub(super) fn look(start: Start, members: &[MemberImage]) -> Result<Content, Found> {
    let mut world = World::new(start.seed);
    let volumes = Volumes::holding(&mut world, start.ground, members);
    let volume = volumes.open(&world, None)?;
    look_for_damage(&world, volume.clone())?;
    let fs = mount(&world, volume.clone())?;
    let mounted = fs.clone();
    let content = finish(&world, "reading all", async move { find(&mounted).await })?;
    let content = content.map_err(|error| (Checker::Content, error.to_string()))?;
    let found = content.clone();
    finish(&world, "using it", async move { use_all(&fs, &found).await })?
        .map_err(|what| (Checker::Client, what))?;
    look_for_damage(&world, volume)
        .map_err(|(checker, what)| (checker, format!("after it was used: {what}")))?;
    Ok(content)
}

/// Makes a file in each folder and removes it, lets each file grow, and unmounts.
async fn use_all(fs: &Fs, content: &Content) -> Result<(), String> {
    let of_folders = content.entries.iter().filter(|(_, entry)| entry.sort == Sort::Folder);
    let folders = of_folders.map(|(path, _)| format!("{path}/{NEW_NAME}")).chain([NEW_NAME.to_owned()]);
    for path in folders {
        for change in [Change::Make(Sort::File, path.clone()), Change::Unlink(path)] {
            found::make(fs, &change).await.map_err(|error| format!("{change:?} after the crash: {error}"))?;
        }
    }
    for (path, entry) in content.entries.iter().filter(|(_, entry)| entry.sort == Sort::File) {
        let grown = with(fs, path, async |inode| grow(fs, inode, entry.links as usize * GAINED).await).await;
        let grown = grown.map_err(|error| format!("{path} cannot grow after the crash: {error}"))?;
        if !grown {
            return Err(format!("{path}, which has grown after the crash, gains what nobody wrote"));
        }
    }
    fs.unmount().await.map_err(|error| format!("unmounting after the crash: {error}"))
}

/// A file gains zeroes. Returns whether it does.
async fn grow(fs: &Fs, inode: u64, gained: usize) -> Result<bool, FsError> {
    let before = fs.attr(inode).await?.is.size_bytes;
    resize(fs, inode, before as usize + gained).await?;
    let read = fs.read(inode, before, gained).await?;
    Ok(read.len() == gained && read.iter().all(|byte| *byte == 0))
}
