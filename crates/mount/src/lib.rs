//! Mounts RAFS: the operations of [`Fs`](stripewise_rafs::fs::Fs) behind a session of the FUSE codec.
//!
//! * [`target`]: finds the file system of a device, and opens it as a volume;
//! * [`served`]: makes the mount, and ends it with all written out;
//! * [`report`]: what a mounted file system tells of itself, and takes, by an extended attribute of its root;
//! * `server`: takes requests, and hands each to a task; `names`, `inodes`, `content`, `folders`, `xattrs`: how each is carried out;
//! * `checking`: a look at the last checkpoint's tree, while the file system is in use;
//! * `answer`: what is sent; `convert`: the two sides' words for the same things.
//!
//! `docs/rafs.md` says what a user may rely on.

mod answer;
mod checking;
mod content;
mod convert;
mod folders;
mod inodes;
mod names;
pub mod report;
pub mod served;
mod server;
pub mod target;
mod xattrs;

pub use stripewise_fuse as fuse;
pub use stripewise_rafs as rafs;
