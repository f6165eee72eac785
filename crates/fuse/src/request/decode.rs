//! From a body to an operation: one small function for each kind of argument.

use super::{
    ParseErrorKind,
    arguments::{
        CopyFileRange, Create, Fallocate, Forgets, Fsync, Init, Link, Lseek, Mkdir, Mknod, Open, Read,
        ReadDirectory, Release, Rename, SetTime, Setattr, Setxattr, Statx, Symlink, Whence, Write,
    },
    cursor::Cursor,
    operation::Operation,
};
use crate::protocol::{
    FallocateMode, FileHandle, FsyncFlags, InitFlags, NodeId, Opcode, OpenRequestFlags, ReadFlags,
    ReleaseFlags, RenameFlags, RequestId, Timestamp, WriteFlags, XattrFlags,
    input::{self, GETATTR_FH, setattr},
};

type Parsed<T> = Result<T, ParseErrorKind>;

/// The operation with this opcode and body. `data` is what a WRITE's body goes on with elsewhere.
pub(super) fn operation<'a>(code: u32, body: &'a [u8], data: &'a [u8]) -> Parsed<Operation<'a>> {
    let Some(opcode) = Opcode::from_code(code) else { return Ok(Operation::Unknown(code)) };
    let body = &mut Cursor::new(body);
    Ok(match opcode {
        Opcode::Init => Operation::Init(init(body)?),
        Opcode::Lookup => Operation::Lookup { name: body.name()? },
        Opcode::Forget => Operation::Forget { lookups: body.read::<input::ForgetIn>()?.nlookup },
        Opcode::BatchForget => Operation::BatchForget(forgets(body)?),
        Opcode::Getattr => Operation::Getattr { handle: getattr(body)? },
        Opcode::Setattr => Operation::Setattr(set_attributes(&body.read()?)),
        Opcode::Readlink => Operation::Readlink,
        Opcode::Symlink => Operation::Symlink(Symlink { name: body.name()?, target: body.string()? }),
        Opcode::Mknod => Operation::Mknod(mknod(body)?),
        Opcode::Mkdir => Operation::Mkdir(mkdir(body)?),
        Opcode::Unlink => Operation::Unlink { name: body.name()? },
        Opcode::Rmdir => Operation::Rmdir { name: body.name()? },
        Opcode::Rename => Operation::Rename(rename(body.read::<input::RenameIn>()?.newdir, 0, body)?),
        Opcode::Rename2 => Operation::Rename(rename2(body)?),
        Opcode::Link => Operation::Link(link(body)?),
        Opcode::Open => Operation::Open(open(body)?),
        Opcode::Opendir => Operation::Opendir(open(body)?),
        Opcode::Read => Operation::Read(read(&body.read()?)?),
        Opcode::Readdir => Operation::Readdir(read_directory(body)?),
        Opcode::Readdirplus => Operation::Readdirplus(read_directory(body)?),
        Opcode::Write => Operation::Write(write(body, data)?),
        Opcode::Statfs => Operation::Statfs,
        Opcode::Release => Operation::Release(release(body)?),
        Opcode::Releasedir => Operation::Releasedir(release(body)?),
        Opcode::Fsync => Operation::Fsync(fsync(body)?),
        Opcode::Fsyncdir => Operation::Fsyncdir(fsync(body)?),
        Opcode::Setxattr => Operation::Setxattr(set_xattr(body)?),
        Opcode::Getxattr => get_xattr(body)?,
        Opcode::Listxattr => Operation::Listxattr { size_bytes: body.read::<input::GetxattrIn>()?.size },
        Opcode::Removexattr => Operation::Removexattr { name: xattr_name(body)? },
        Opcode::Flush => flush(body)?,
        Opcode::Access => Operation::Access { mask: body.read::<input::AccessIn>()?.mask },
        Opcode::Create => Operation::Create(create(body)?),
        Opcode::Tmpfile => Operation::Tmpfile(tmpfile(body)?),
        Opcode::Interrupt => {
            Operation::Interrupt { request: RequestId(body.read::<input::InterruptIn>()?.unique) }
        }
        Opcode::Destroy => Operation::Destroy,
        Opcode::Fallocate => Operation::Fallocate(fallocate(body)?),
        Opcode::Lseek => Operation::Lseek(lseek(body)?),
        Opcode::CopyFileRange => Operation::CopyFileRange(copy_file_range(&body.read()?)?),
        Opcode::Syncfs => body.read::<input::SyncfsIn>().map(|_| Operation::Syncfs)?,
        Opcode::Statx => Operation::Statx(statx(body)?),
    })
}

fn init(body: &mut Cursor<'_>) -> Parsed<Init> {
    let init = body.read::<input::InitIn>()?;
    // Older kernels end here.
    let high = body.read::<input::InitInExtension>().map_or(0, |extension| extension.flags2);
    let flags = InitFlags::from_halves(init.flags, 0);
    let high = if flags.contains(InitFlags::INIT_EXT) { high } else { 0 };
    let flags = InitFlags::from_halves(init.flags, high);
    Ok(Init { major: init.major, minor: init.minor, readahead_bytes_max: init.max_readahead, flags })
}

fn forgets<'a>(body: &mut Cursor<'a>) -> Parsed<Forgets<'a>> {
    let count = body.read::<input::BatchForgetIn>()?.count;
    let bytes =
        usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<input::ForgetOne>()));
    let bytes = bytes.ok_or(ParseErrorKind::BadValue { field: "count", value: u64::from(count) })?;
    Ok(Forgets(body.bytes(bytes)?))
}

fn getattr(body: &mut Cursor<'_>) -> Parsed<Option<FileHandle>> {
    let getattr = body.read::<input::GetattrIn>()?;
    Ok(handle_if(getattr.getattr_flags & GETATTR_FH != 0, getattr.fh))
}

fn handle_if(is_valid: bool, handle: u64) -> Option<FileHandle> {
    is_valid.then_some(FileHandle(handle))
}

fn set_attributes(raw: &input::SetattrIn) -> Setattr {
    let has = |bit: u32| raw.valid & bit != 0;
    let time = |is_set: bool, is_now: bool, seconds: u64, nanoseconds: u32| match (is_set, is_now) {
        (_, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::To(timestamp(seconds, nanoseconds))),
        (false, false) => None,
    };
    Setattr {
        handle: handle_if(has(setattr::FH), raw.fh),
        mode: has(setattr::MODE).then_some(raw.mode),
        uid: has(setattr::UID).then_some(raw.uid),
        gid: has(setattr::GID).then_some(raw.gid),
        size_bytes: has(setattr::SIZE).then_some(raw.size),
        accessed: time(has(setattr::ATIME), has(setattr::ATIME_NOW), raw.atime, raw.atimensec),
        modified: time(has(setattr::MTIME), has(setattr::MTIME_NOW), raw.mtime, raw.mtimensec),
        changed: has(setattr::CTIME).then(|| timestamp(raw.ctime, raw.ctimensec)),
        lock_owner: has(setattr::LOCKOWNER).then_some(raw.lock_owner),
        kills_suidgid: has(setattr::KILL_SUIDGID),
    }
}

/// The kernel's seconds are signed, whatever the header says.
fn timestamp(seconds: u64, nanoseconds: u32) -> Timestamp {
    Timestamp { seconds: seconds.cast_signed(), nanoseconds: nanoseconds.min(999_999_999) }
}

fn mknod<'a>(body: &mut Cursor<'a>) -> Parsed<Mknod<'a>> {
    let mknod = body.read::<input::MknodIn>()?;
    Ok(Mknod { name: body.name()?, mode: mknod.mode, rdev: mknod.rdev, umask: mknod.umask })
}

fn mkdir<'a>(body: &mut Cursor<'a>) -> Parsed<Mkdir<'a>> {
    let mkdir = body.read::<input::MkdirIn>()?;
    Ok(Mkdir { name: body.name()?, mode: mkdir.mode, umask: mkdir.umask })
}

fn rename2<'a>(body: &mut Cursor<'a>) -> Parsed<Rename<'a>> {
    let rename2 = body.read::<input::Rename2In>()?;
    rename(rename2.newdir, rename2.flags, body)
}

fn rename<'a>(new_parent: u64, flags: u32, body: &mut Cursor<'a>) -> Parsed<Rename<'a>> {
    let flags = RenameFlags::from_bits_retain(flags);
    Ok(Rename { name: body.name()?, new_parent: NodeId(new_parent), new_name: body.name()?, flags })
}

fn link<'a>(body: &mut Cursor<'a>) -> Parsed<Link<'a>> {
    let node = NodeId(body.read::<input::LinkIn>()?.oldnodeid);
    Ok(Link { node, name: body.name()? })
}

fn open(body: &mut Cursor<'_>) -> Parsed<Open> {
    let open = body.read::<input::OpenIn>()?;
    Ok(Open { flags: open.flags, open_flags: OpenRequestFlags::from_bits_retain(open.open_flags) })
}

fn create<'a>(body: &mut Cursor<'a>) -> Parsed<Create<'a>> {
    let create = body.read::<input::CreateIn>()?;
    Ok(created(&create, body.name()?))
}

/// The kernel names a file without a name "/".
fn tmpfile<'a>(body: &mut Cursor<'a>) -> Parsed<Create<'a>> {
    let create = body.read::<input::CreateIn>()?;
    Ok(created(&create, body.string()?))
}

fn created<'a>(create: &input::CreateIn, name: &'a [u8]) -> Create<'a> {
    let open_flags = OpenRequestFlags::from_bits_retain(create.open_flags);
    Create { name, flags: create.flags, mode: create.mode, umask: create.umask, open_flags }
}

fn read(read: &input::ReadIn) -> Parsed<Read> {
    within(read.offset, u64::from(read.size))?;
    Ok(Read {
        handle: FileHandle(read.fh),
        offset_bytes: read.offset,
        size_bytes: read.size,
        read_flags: ReadFlags::from_bits_retain(read.read_flags),
        lock_owner: read.lock_owner,
        flags: read.flags,
    })
}

/// Refuses a range whose end cannot be told.
fn within(offset: u64, length: u64) -> Parsed<()> {
    match offset.checked_add(length) {
        Some(_) => Ok(()),
        None => Err(ParseErrorKind::BadValue { field: "offset", value: offset }),
    }
}

fn read_directory(body: &mut Cursor<'_>) -> Parsed<ReadDirectory> {
    let read = body.read::<input::ReadIn>()?;
    Ok(ReadDirectory { handle: FileHandle(read.fh), offset: read.offset, size_bytes: read.size })
}

fn write<'a>(body: &mut Cursor<'a>, elsewhere: &'a [u8]) -> Parsed<Write<'a>> {
    let write = body.read::<input::WriteIn>()?;
    within(write.offset, u64::from(write.size))?;
    let inside = body.rest();
    let data = match (inside.is_empty(), elsewhere.is_empty()) {
        (true, _) => elsewhere,
        (false, true) => inside,
        (false, false) => return Err(ParseErrorKind::UnexpectedData),
    };
    let needed_bytes = write.size as usize;
    if data.len() != needed_bytes {
        return Err(ParseErrorKind::Short { needed_bytes, found_bytes: data.len() });
    }
    Ok(Write {
        handle: FileHandle(write.fh),
        offset_bytes: write.offset,
        data,
        write_flags: WriteFlags::from_bits_retain(write.write_flags),
        lock_owner: write.lock_owner,
        flags: write.flags,
    })
}

fn release(body: &mut Cursor<'_>) -> Parsed<Release> {
    let release = body.read::<input::ReleaseIn>()?;
    Ok(Release {
        handle: FileHandle(release.fh),
        flags: release.flags,
        release_flags: ReleaseFlags::from_bits_retain(release.release_flags),
        lock_owner: release.lock_owner,
    })
}

fn fsync(body: &mut Cursor<'_>) -> Parsed<Fsync> {
    let fsync = body.read::<input::FsyncIn>()?;
    Ok(Fsync { handle: FileHandle(fsync.fh), flags: FsyncFlags::from_bits_retain(fsync.fsync_flags) })
}

fn flush<'a>(body: &mut Cursor<'_>) -> Parsed<Operation<'a>> {
    let flush = body.read::<input::FlushIn>()?;
    Ok(Operation::Flush { handle: FileHandle(flush.fh), lock_owner: flush.lock_owner })
}

/// A slash is allowed in the name of an attribute.
fn xattr_name<'a>(body: &mut Cursor<'a>) -> Parsed<&'a [u8]> {
    let name = body.string()?;
    if name.is_empty() { Err(ParseErrorKind::BadName) } else { Ok(name) }
}

fn set_xattr<'a>(body: &mut Cursor<'a>) -> Parsed<Setxattr<'a>> {
    let set = body.read::<input::SetxattrIn>()?;
    let name = xattr_name(body)?;
    Ok(Setxattr {
        name,
        value: body.bytes(set.size as usize)?,
        flags: XattrFlags::from_bits_retain(set.flags),
    })
}

fn get_xattr<'a>(body: &mut Cursor<'a>) -> Parsed<Operation<'a>> {
    let size_bytes = body.read::<input::GetxattrIn>()?.size;
    Ok(Operation::Getxattr { name: xattr_name(body)?, size_bytes })
}

fn fallocate(body: &mut Cursor<'_>) -> Parsed<Fallocate> {
    let fallocate = body.read::<input::FallocateIn>()?;
    within(fallocate.offset, fallocate.length)?;
    Ok(Fallocate {
        handle: FileHandle(fallocate.fh),
        offset_bytes: fallocate.offset,
        length_bytes: fallocate.length,
        mode: FallocateMode::from_bits_retain(fallocate.mode),
    })
}

fn lseek(body: &mut Cursor<'_>) -> Parsed<Lseek> {
    let lseek = body.read::<input::LseekIn>()?;
    let whence = match lseek.whence {
        3 => Whence::Data,
        4 => Whence::Hole,
        other => return Err(ParseErrorKind::BadValue { field: "whence", value: u64::from(other) }),
    };
    Ok(Lseek { handle: FileHandle(lseek.fh), offset_bytes: lseek.offset, whence })
}

fn copy_file_range(copy: &input::CopyFileRangeIn) -> Parsed<CopyFileRange> {
    within(copy.off_in, copy.len)?;
    within(copy.off_out, copy.len)?;
    Ok(CopyFileRange {
        handle: FileHandle(copy.fh_in),
        offset_bytes: copy.off_in,
        to_node: NodeId(copy.nodeid_out),
        to_handle: FileHandle(copy.fh_out),
        to_offset_bytes: copy.off_out,
        length_bytes: copy.len,
        flags: copy.flags,
    })
}

fn statx(body: &mut Cursor<'_>) -> Parsed<Statx> {
    let statx = body.read::<input::StatxIn>()?;
    let handle = handle_if(statx.getattr_flags & GETATTR_FH != 0, statx.fh);
    Ok(Statx { handle, flags: statx.sx_flags, mask: statx.sx_mask })
}
