//! A look at what a power failure has left: fsck finds nothing, it can be mounted, and it can be used then.

use stripewise_rafs::fs::{Fs, FsError, Preset};

use super::{
    found::{self, Found as Content, Sort, find, resize, with},
    model::Change,
    workload::Start,
};
use crate::{
    MemberImage, World,
    rafs::{Checker, Found, Volumes, finish, look_for_damage, mount, small_options},
};

/// A name that no workload uses.
const NEW_NAME: &str = "new";
/// Bytes that each file gains.
const GAINED: usize = 8192;

/// What the next mount finds.
pub(super) fn look(start: Start, members: &[MemberImage]) -> Result<Content, Found> {
    let mut world = World::new(start.seed);
    let volumes = Volumes::holding(&mut world, start.ground, members);
    let fs = open(&world, &volumes)?;
    let content = read_all(&world, &fs)?;
    let (used, found) = (fs.clone(), content.clone());
    finish(&world, "using it", async move { use_all(&used, &found).await })?
        .map_err(|what| (Checker::Client, what))?;
    let wanted = read_all(&world, &fs)?;
    drop(fs);
    world.crash();
    look_again(&world, &volumes, &wanted).map_err(|(checker, what)| {
        (checker, format!("after it was used and synced, and power has failed again: {what}"))
    })?;
    Ok(content)
}

/// fsck finds nothing, and it can be mounted.
fn open(world: &World, volumes: &Volumes) -> Result<Fs, Found> {
    let volume = volumes.open(world)?;
    look_for_damage(world, volume.clone())?;
    mount(world, volume, small_options(Preset::Default))
}

fn read_all(world: &World, fs: &Fs) -> Result<Content, Found> {
    let fs = fs.clone();
    let content = finish(world, "reading all", async move { find(&fs).await })?;
    content.map_err(|error| (Checker::Content, error.to_string()))
}

/// Everything was durable: it is there, and it can be unmounted.
fn look_again(world: &World, volumes: &Volumes, wanted: &Content) -> Result<(), Found> {
    let fs = open(world, volumes)?;
    if read_all(world, &fs)? != *wanted {
        return Err((Checker::Content, "it is not what was synced".to_owned()));
    }
    let unmounted = finish(world, "unmounting", async move { fs.unmount().await })?;
    unmounted.map_err(|error| (Checker::Client, format!("unmounting: {error}")))?;
    look_for_damage(world, volumes.open(world)?)
}

/// Makes a file in each folder and removes it, lets each file grow, and makes all of that durable.
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
    fs.sync().await.map_err(|error| format!("a sync after the crash: {error}"))
}

/// A file gains zeroes. Returns whether it does.
async fn grow(fs: &Fs, inode: u64, gained: usize) -> Result<bool, FsError> {
    let before = fs.attr(inode).await?.is.size_bytes;
    resize(fs, inode, before as usize + gained).await?;
    let read = fs.read(inode, before, gained).await?;
    Ok(read.len() == gained && read.iter().all(|byte| *byte == 0))
}
