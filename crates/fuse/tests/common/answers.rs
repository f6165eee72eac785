//! How the file system in memory answers each request.

use std::time::{Duration, SystemTime};

use stripewise_fuse::{
    Errno, Message, Negotiated, Operation, Reply, Server,
    protocol::{FallocateMode, FileHandle, FileType, OpenReplyFlags, RenameFlags, Timestamp, XattrFlags},
    reply::{DirectoryBuffer, DirectoryEntry, FileSystemFigures, Opened, StatxAttributes},
    request::{Create, Fallocate, Lseek, ReadDirectory, Rename, SetTime, Setattr, Setxattr, Whence},
};

use super::memory::{BORN, FOLDER, Memory, Result, TYPE_MASK, Tree};

const VALID: Duration = Duration::from_secs(1);
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_777;
const O_TRUNC: u32 = 0o1000;
const RENAME_KNOWN: RenameFlags = RenameFlags::NOREPLACE.union(RenameFlags::EXCHANGE);

/// An answer, given while the tree is not locked.
enum Answer {
    Silent,
    Send(Box<dyn FnOnce(Reply)>),
}

fn send(answer: impl FnOnce(Reply) + 'static) -> Result<Answer> {
    Ok(Answer::Send(Box::new(answer)))
}

fn ok(_: ()) -> Answer {
    Answer::Send(Box::new(Reply::ok))
}

impl Server for Memory {
    fn begin(&self, negotiated: &Negotiated) {
        self.tree().seen.negotiated = Some(*negotiated);
    }

    fn handle(&self, message: Message, reply: Reply) {
        let answer = self.tree().answer(&message);
        match answer {
            Ok(Answer::Send(send)) => send(reply),
            Ok(Answer::Silent) => drop(reply),
            Err(error) => reply.error(error),
        }
    }
}

fn word(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::Lookup { .. } => "lookup",
        Operation::Readdir(_) => "readdir",
        Operation::Readdirplus(_) => "readdirplus",
        Operation::Syncfs => "syncfs",
        Operation::Statx(_) => "statx",
        Operation::Tmpfile(_) => "tmpfile",
        Operation::Destroy => "destroy",
        Operation::Fsync(_) => "fsync",
        Operation::Write(_) => "write",
        Operation::Fallocate(_) => "fallocate",
        Operation::Setattr(_) => "setattr",
        _ => "other",
    }
}

impl Tree {
    fn answer(&mut self, message: &Message) -> Result<Answer> {
        let request = message.request();
        let (node, owner) = (request.node.0, (request.caller.uid, request.caller.gid));
        *self.seen.operations.entry(word(&request.operation)).or_default() += 1;
        match request.operation {
            Operation::Lookup { name } => self.find(node, name).and_then(|found| self.answer_entry(found)),
            Operation::Forget { lookups } => {
                self.forget(node, lookups);
                Ok(Answer::Silent)
            }
            Operation::BatchForget(forgets) => {
                forgets.iter().for_each(|(node, lookups)| self.forget(node.0, lookups));
                Ok(Answer::Silent)
            }
            Operation::Interrupt { .. } => Ok(Answer::Silent),
            Operation::Getattr { .. } => self.answer_attributes(node),
            Operation::Statx(_) => self.answer_statx(node),
            Operation::Setattr(changes) => self.set(node, &changes),
            Operation::Readlink => {
                let target = self.get(node)?.content.clone();
                send(move |reply| reply.bytes(&target))
            }
            Operation::Symlink(link) => {
                let made = self.make(node, Some(link.name), SYMLINK, owner)?;
                self.get(made)?.write(0, link.target);
                self.answer_entry(made)
            }
            Operation::Mknod(make) => {
                let made = self.make(node, Some(make.name), make.mode, owner)?;
                self.get(made)?.attributes.rdev = make.rdev;
                self.answer_entry(made)
            }
            Operation::Mkdir(make) => {
                let made = self.make(node, Some(make.name), FOLDER | make.mode, owner)?;
                self.answer_entry(made)
            }
            Operation::Unlink { name } => self.remove(node, name, false).map(ok),
            Operation::Rmdir { name } => self.remove(node, name, true).map(ok),
            Operation::Rename(rename) => self.rename(node, &rename).map(ok),
            Operation::Link(link) => {
                self.get(node)?.names.insert(link.name.to_owned(), link.node.0);
                self.get(link.node.0)?.attributes.links += 1;
                self.answer_entry(link.node.0)
            }
            Operation::Open(open) => {
                if open.flags & O_TRUNC != 0 {
                    self.get(node)?.resize(0);
                }
                answer_open()
            }
            Operation::Opendir(_) => answer_open(),
            Operation::Create(create) => self.create(node, Some(create.name), &create, owner),
            Operation::Tmpfile(create) => self.create(node, None, &create, owner),
            Operation::Read(read) => self.read(node, read.offset_bytes, read.size_bytes),
            Operation::Write(write) => {
                self.seen.write_bytes_max = self.seen.write_bytes_max.max(write.data.len());
                self.get(node)?.write(write.offset_bytes, write.data);
                let size = write.data.len() as u32;
                send(move |reply| reply.written(size))
            }
            Operation::Statfs => answer_statfs(),
            Operation::Release(_) | Operation::Releasedir(_) | Operation::Flush { .. } => Ok(ok(())),
            Operation::Fsync(_) | Operation::Fsyncdir(_) | Operation::Syncfs | Operation::Destroy => {
                Ok(ok(()))
            }
            Operation::Readdir(read) => self.list(node, read, false),
            Operation::Readdirplus(read) => self.list(node, read, true),
            Operation::Setxattr(set) => self.set_xattr(node, &set).map(ok),
            Operation::Getxattr { name, size_bytes } => {
                let value = self.get(node)?.xattrs.get(name).cloned().ok_or(Errno::NODATA)?;
                answer_sized(value, size_bytes)
            }
            Operation::Listxattr { size_bytes } => {
                let names =
                    self.get(node)?.xattrs.keys().flat_map(|name| [&name[..], b"\0"].concat()).collect();
                answer_sized(names, size_bytes)
            }
            Operation::Removexattr { name } => {
                self.get(node)?.xattrs.remove(name).map(|_| ok(())).ok_or(Errno::NODATA)
            }
            Operation::Fallocate(fallocate) => self.fallocate(node, &fallocate).map(ok),
            Operation::Lseek(lseek) => self.seek(node, lseek),
            _ => Err(Errno::NOSYS),
        }
    }

    fn create(
        &mut self,
        parent: u64,
        name: Option<&[u8]>,
        create: &Create<'_>,
        owner: (u32, u32),
    ) -> Result<Answer> {
        let made = self.make(parent, name, REGULAR | create.mode, owner)?;
        let entry = self.entry(made)?;
        send(move |reply| reply.created(&entry, &OPENED))
    }

    fn answer_entry(&mut self, node: u64) -> Result<Answer> {
        let entry = self.entry(node)?;
        send(move |reply| reply.entry(&entry))
    }

    fn answer_attributes(&mut self, node: u64) -> Result<Answer> {
        let attributes = self.get(node)?.attributes;
        send(move |reply| reply.attributes(&attributes, VALID))
    }

    fn answer_statx(&mut self, node: u64) -> Result<Answer> {
        let attributes = self.get(node)?.attributes;
        let all = StatxAttributes { attributes, born: Some(BORN), ..StatxAttributes::default() };
        send(move |reply| reply.statx(&all, VALID))
    }

    fn set(&mut self, node: u64, changes: &Setattr) -> Result<Answer> {
        let inode = self.get(node)?;
        changes.size_bytes.into_iter().for_each(|size| inode.resize(size));
        let attributes = &mut inode.attributes;
        if let Some(mode) = changes.mode {
            attributes.mode = attributes.mode & TYPE_MASK | mode & !TYPE_MASK;
        }
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        let now = Timestamp::from(SystemTime::now());
        let time = |set: SetTime| if let SetTime::To(time) = set { time } else { now };
        attributes.accessed = changes.accessed.map_or(attributes.accessed, time);
        attributes.modified = changes.modified.map_or(attributes.modified, time);
        attributes.changed = changes.changed.unwrap_or(now);
        self.answer_attributes(node)
    }

    fn rename(&mut self, parent: u64, rename: &Rename<'_>) -> Result<()> {
        let moved = self.find(parent, rename.name)?;
        let new_parent = rename.new_parent.0;
        let there = self.find(new_parent, rename.new_name);
        if !RENAME_KNOWN.contains(rename.flags) {
            return Err(Errno::INVAL);
        }
        if rename.flags.contains(RenameFlags::EXCHANGE) {
            let other = there?;
            self.get(parent)?.names.insert(rename.name.to_owned(), other);
            self.get(other)?.parent = parent;
        } else {
            if there.is_ok() && rename.flags.contains(RenameFlags::NOREPLACE) {
                return Err(Errno::EXIST);
            }
            if let Ok(other) = there {
                let is_folder = self.get(other)?.is_folder();
                self.remove(new_parent, rename.new_name, is_folder)?;
            }
            self.get(parent)?.names.remove(rename.name);
        }
        self.get(new_parent)?.names.insert(rename.new_name.to_owned(), moved);
        self.get(moved)?.parent = new_parent;
        Ok(())
    }

    fn read(&mut self, node: u64, offset: u64, size: u32) -> Result<Answer> {
        let content = &self.get(node)?.content;
        let start = content.len().min(offset as usize);
        let end = content.len().min(start + size as usize);
        let bytes = content[start..end].to_vec();
        // In two slices, as from two blocks.
        send(move |reply| {
            let (left, right) = bytes.split_at(bytes.len() / 2);
            reply.slices(&[std::io::IoSlice::new(left), std::io::IoSlice::new(right)]);
        })
    }

    /// Positions are places in the order of names, which no test changes while it lists.
    fn list(&mut self, node: u64, read: ReadDirectory, plus: bool) -> Result<Answer> {
        let folder = self.get(node)?;
        let mut all = vec![(b".".to_vec(), node), (b"..".to_vec(), folder.parent)];
        all.extend(folder.names.iter().map(|(name, node)| (name.clone(), *node)));
        let mut buffer = DirectoryBuffer::new(read.size_bytes);
        for (index, (name, node)) in all.iter().enumerate().skip(read.offset as usize) {
            let kind = FileType::of_mode(self.get(*node)?.attributes.mode);
            let entry = DirectoryEntry { inode: *node, position: index as u64 + 1, kind, name };
            let is_in =
                if plus { self.push_plus(&mut buffer, &entry, index > 1)? } else { buffer.push(&entry) };
            if !is_in {
                break;
            }
        }
        send(move |reply| reply.directory(&buffer))
    }

    fn push_plus(
        &mut self,
        buffer: &mut DirectoryBuffer,
        entry: &DirectoryEntry<'_>,
        is_lookup: bool,
    ) -> Result<bool> {
        if !is_lookup {
            return Ok(buffer.push_plus(entry, None));
        }
        let found = self.entry(entry.inode)?;
        let is_in = buffer.push_plus(entry, Some(&found));
        if !is_in {
            self.forget(entry.inode, 1);
        }
        Ok(is_in)
    }

    fn set_xattr(&mut self, node: u64, set: &Setxattr<'_>) -> Result<()> {
        let xattrs = &mut self.get(node)?.xattrs;
        let is_there = xattrs.contains_key(set.name);
        if is_there && set.flags.contains(XattrFlags::CREATE) {
            return Err(Errno::EXIST);
        }
        if !is_there && set.flags.contains(XattrFlags::REPLACE) {
            return Err(Errno::NODATA);
        }
        xattrs.insert(set.name.to_owned(), set.value.to_owned());
        Ok(())
    }

    fn fallocate(&mut self, node: u64, fallocate: &Fallocate) -> Result<()> {
        let inode = self.get(node)?;
        let end = fallocate.offset_bytes + fallocate.length_bytes;
        if fallocate.mode.contains(FallocateMode::PUNCH_HOLE) {
            inode.punch(fallocate.offset_bytes, fallocate.length_bytes);
        } else if fallocate.mode.is_empty() && end > inode.attributes.size_bytes {
            inode.resize(end);
        } else if fallocate.mode.difference(FallocateMode::KEEP_SIZE) != FallocateMode::empty() {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(())
    }

    fn seek(&mut self, node: u64, lseek: Lseek) -> Result<Answer> {
        let found =
            self.get(node)?.seek(lseek.offset_bytes, lseek.whence == Whence::Data).ok_or(Errno::NXIO)?;
        send(move |reply| reply.position(found))
    }
}

const OPENED: Opened = Opened { handle: FileHandle(0), flags: OpenReplyFlags::empty() };

fn answer_open() -> Result<Answer> {
    send(|reply| reply.opened(&OPENED))
}

fn answer_statfs() -> Result<Answer> {
    let figures = FileSystemFigures {
        blocks: 1000,
        blocks_free: 600,
        blocks_available: 500,
        files: 40,
        files_free: 30,
        block_bytes: 4096,
        name_bytes_max: 255,
        fragment_bytes: 4096,
    };
    send(move |reply| reply.statfs(&figures))
}

fn answer_sized(bytes: Vec<u8>, size_bytes: u32) -> Result<Answer> {
    let len = bytes.len() as u32;
    match size_bytes {
        0 => send(move |reply| reply.xattr_size(len)),
        room if room < len => Err(Errno::RANGE),
        _ => send(move |reply| reply.bytes(&bytes)),
    }
}
