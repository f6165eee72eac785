//! The Linux FUSE protocol: what a file system in user space says to the kernel, and hears from it.
//!
//! * [`protocol`]: opcodes, flags and structs of the ABI. No I/O.
//! * [`request`]: parses what the kernel sends into an [`Operation`]. No I/O.
//! * [`reply`]: encodes what is answered. No I/O.
//! * [`mount`]: makes and ends mounts, and clears those whose server has died.
//! * [`session`]: reads requests of one mount, and hands each to a [`Server`].
//!
//! The crate knows no file system. A server answers each request by its [`Reply`], on whichever thread and in whichever
//! order it likes. What the kernel sends is checked: bytes that are no request give a typed error, and never a
//! panic. The source of all numbers and layouts is the kernel's `include/uapi/linux/fuse.h`;
//! `docs/design/fuse.md` says what is negotiated and why.

pub mod mount;
pub mod protocol;
pub mod reply;
pub mod request;
pub mod session;

pub use rustix::io::Errno;

pub use self::{
    mount::{
        Mount, MountError, MountOptions, Unmount, clear_dead_mount, is_own_mount, own_mounts, owner_of_mount,
        unmount,
    },
    request::{Operation, Request},
    session::{Message, Negotiated, Reply, Server, Session, SessionError, Wishes},
};
