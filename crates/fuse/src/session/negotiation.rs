//! INIT: what kernel and server agree on. Pure. Why each flag is wanted: `docs/design/fuse.md`.

use zerocopy::IntoBytes;

use super::SessionError;
use crate::{
    protocol::{InitFlags, MAJOR, MINOR_MAX, MINOR_MIN, output::InitOut},
    request::Init,
};

/// The most that a request moves, in bytes: 256 pages, as `fs.fuse.max_pages_limit` has it by default.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Pages of a request to a kernel that does not negotiate them (`FUSE_DEFAULT_MAX_PAGES_PER_REQ`).
const PAGES_DEFAULT: u32 = 32;
/// The value of an attribute may have so many bytes (`XATTR_SIZE_MAX`), and must fit in the buffer as well.
const BODY_BYTES_MIN: usize = (64 << 10) + 512;

/// What is asked for at every INIT, where the kernel has it.
const ALWAYS: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::DO_READDIRPLUS)
    .union(InitFlags::READDIRPLUS_AUTO)
    .union(InitFlags::ATOMIC_O_TRUNC)
    .union(InitFlags::ASYNC_DIO)
    .union(InitFlags::ABORT_ERROR)
    .union(InitFlags::INIT_EXT);

/// What a server wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wishes {
    /// The most that a WRITE has, in bytes: from a page to [`REQUEST_BYTES_MAX`]. Each thread has a buffer of it.
    pub write_bytes_max: u32,
    /// The most that the kernel reads ahead, in bytes.
    pub readahead_bytes_max: u32,
    /// Requests that the kernel has under way without a caller who waits: read-ahead and write-back.
    pub background_max: u16,
    /// As many of them, and the kernel counts the mount as congested.
    pub congestion_threshold: u16,
    /// The unit of times, in nanoseconds.
    pub time_unit_ns: u32,
    /// The kernel gathers written data and writes them later, and keeps length and times of such files itself.
    pub writeback_cache: bool,
    /// The server clears set-user-ID and set-group-ID, and the kernel need not ask for attributes before each write.
    pub handles_killpriv: bool,
    /// The server looks up "." and ".." in any node, so that NFS can export the mount.
    pub export_support: bool,
    /// The kernel caches targets of symbolic links.
    pub cache_symlinks: bool,
    /// Shared mappings of files that are open with direct I/O.
    pub direct_io_mmap: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            write_bytes_max: REQUEST_BYTES_MAX,
            readahead_bytes_max: REQUEST_BYTES_MAX,
            background_max: 64,
            congestion_threshold: 48,
            time_unit_ns: 1,
            writeback_cache: false,
            handles_killpriv: false,
            export_support: false,
            cache_symlinks: true,
            direct_io_mmap: false,
        }
    }
}

impl Wishes {
    fn flags(&self) -> InitFlags {
        let choices = [
            (self.writeback_cache, InitFlags::WRITEBACK_CACHE),
            (self.handles_killpriv, InitFlags::HANDLE_KILLPRIV_V2),
            (self.export_support, InitFlags::EXPORT_SUPPORT),
            (self.cache_symlinks, InitFlags::CACHE_SYMLINKS),
            (self.direct_io_mmap, InitFlags::DIRECT_IO_ALLOW_MMAP),
        ];
        choices.into_iter().filter(|(is_wished, _)| *is_wished).fold(ALWAYS, |all, (_, flag)| all | flag)
    }
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The minor version that both sides speak.
    pub minor: u32,
    /// The kernel's own minor version.
    pub kernel_minor: u32,
    /// What the kernel offered.
    pub offered: InitFlags,
    /// What is in force.
    pub flags: InitFlags,
    /// The most that a WRITE has, in bytes.
    pub write_bytes_max: u32,
    /// The most that the kernel reads ahead, in bytes.
    pub readahead_bytes_max: u32,
}

impl Negotiated {
    /// What a buffer holds behind the head of a WRITE: the largest of all requests.
    pub(super) fn body_bytes(&self) -> usize {
        (self.write_bytes_max as usize).max(BODY_BYTES_MIN)
    }
}

/// The answer to an INIT.
pub(super) enum InitAnswer {
    /// Agreed.
    Agreed(Negotiated, InitOut),
    /// The kernel is of a later major version, and sends an INIT of ours next.
    Again(InitOut),
}

/// Decides on an INIT.
pub(super) fn negotiate(init: &Init, wishes: &Wishes) -> Result<InitAnswer, SessionError> {
    if init.major > MAJOR {
        return Ok(InitAnswer::Again(InitOut { major: MAJOR, minor: MINOR_MAX, ..InitOut::default() }));
    }
    if init.major < MAJOR || init.minor < MINOR_MIN {
        return Err(SessionError::OldKernel { major: init.major, minor: init.minor });
    }
    let negotiated = agree(init, wishes);
    let out = answer(&negotiated, wishes);
    Ok(InitAnswer::Agreed(negotiated, out))
}

fn agree(init: &Init, wishes: &Wishes) -> Negotiated {
    let flags = wishes.flags() & init.flags;
    let page_bytes = page_bytes();
    let limit =
        if flags.contains(InitFlags::MAX_PAGES) { REQUEST_BYTES_MAX } else { PAGES_DEFAULT * page_bytes };
    Negotiated {
        minor: init.minor.min(MINOR_MAX),
        kernel_minor: init.minor,
        offered: init.flags,
        flags,
        write_bytes_max: wishes.write_bytes_max.min(limit).max(page_bytes),
        readahead_bytes_max: wishes.readahead_bytes_max.min(init.readahead_bytes_max),
    }
}

fn answer(negotiated: &Negotiated, wishes: &Wishes) -> InitOut {
    let (flags, flags2) = negotiated.flags.halves();
    // The pages of a request are for reads as well, whatever a WRITE has.
    let pages =
        if negotiated.flags.contains(InitFlags::MAX_PAGES) { REQUEST_BYTES_MAX / page_bytes() } else { 0 };
    InitOut {
        major: MAJOR,
        minor: negotiated.minor,
        max_readahead: negotiated.readahead_bytes_max,
        flags,
        max_background: wishes.background_max,
        congestion_threshold: wishes.congestion_threshold,
        max_write: negotiated.write_bytes_max,
        time_gran: wishes.time_unit_ns,
        max_pages: u16::try_from(pages).unwrap_or(u16::MAX),
        flags2,
        ..InitOut::default()
    }
}

fn page_bytes() -> u32 {
    u32::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// The bytes of the answer. A kernel of another major version reads only the beginning, and wants no more.
pub(super) fn encoded(out: &InitOut) -> &[u8] {
    out.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(minor: u32, flags: InitFlags) -> Init {
        Init { major: 7, minor, readahead_bytes_max: 128 << 10, flags }
    }

    fn agreed(init: &Init, wishes: &Wishes) -> (Negotiated, InitOut) {
        match negotiate(init, wishes).unwrap() {
            InitAnswer::Agreed(negotiated, out) => (negotiated, out),
            InitAnswer::Again(_) => panic!("not agreed"),
        }
    }

    #[test]
    fn nothing_is_in_force_that_the_kernel_lacks() {
        let (negotiated, out) = agreed(&init(31, InitFlags::ASYNC_READ), &Wishes::default());
        assert_eq!(negotiated.flags, InitFlags::ASYNC_READ);
        assert_eq!((out.minor, out.flags, out.flags2, out.max_pages), (31, 1, 0, 0));
        assert_eq!(out.max_write, 32 * page_bytes(), "the kernel's own limit of pages");
        assert_eq!(out.max_readahead, 128 << 10);
    }

    #[test]
    fn a_newer_kernel_speaks_our_version() {
        let wishes = Wishes { writeback_cache: true, direct_io_mmap: true, ..Wishes::default() };
        let (negotiated, out) = agreed(&init(99, InitFlags::all()), &wishes);
        assert_eq!((negotiated.minor, negotiated.kernel_minor), (MINOR_MAX, 99));
        assert_eq!(negotiated.flags, wishes.flags());
        assert!(negotiated.flags.contains(InitFlags::WRITEBACK_CACHE) && out.flags2 == 1 << 4);
        assert_eq!(out.max_write, REQUEST_BYTES_MAX);
    }

    #[test]
    fn wishes_are_brought_to_what_is_possible() {
        let wishes = Wishes { write_bytes_max: 1, ..Wishes::default() };
        let (negotiated, _) = agreed(&init(45, InitFlags::all()), &wishes);
        assert_eq!(negotiated.write_bytes_max, page_bytes());
        assert!(negotiated.body_bytes() > 65536, "an attribute's value must fit");
    }

    #[test]
    fn other_major_versions() {
        let old = Init { major: 6, ..init(0, InitFlags::empty()) };
        assert!(matches!(negotiate(&old, &Wishes::default()), Err(SessionError::OldKernel { major: 6, .. })));
        assert!(negotiate(&init(30, InitFlags::all()), &Wishes::default()).is_err());
        let new = Init { major: 8, ..init(0, InitFlags::empty()) };
        assert!(matches!(negotiate(&new, &Wishes::default()), Ok(InitAnswer::Again(out)) if out.major == 7));
    }
}
