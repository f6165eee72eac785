//! A host with an array of three files.

#![allow(dead_code)]

use std::path::PathBuf;

use stripewise::{Array, AssembleOptions, CreateOptions, Host, HostOptions, geometry::Level};
use tempfile::TempDir;

const MEMBER_BYTES: u64 = 16 << 20;

pub(crate) struct Ground {
    pub(crate) host: Host,
    pub(crate) members: Vec<PathBuf>,
    _folder: TempDir,
}

impl Ground {
    /// A host, and an array of three files that is stopped.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let members: Vec<_> = (0..3).map(|number| folder.path().join(format!("m{number}"))).collect();
        for path in &members {
            std::fs::File::create(path).unwrap().set_len(MEMBER_BYTES).unwrap();
        }
        let host = Host::start(&HostOptions::default()).unwrap();
        let array = host.create(&members, CreateOptions::named("host:reopened", Level::Raid5)).unwrap();
        host.block_on(async move { array.stop().await }).unwrap();
        Self { host, members, _folder: folder }
    }

    pub(crate) fn open(&self) -> Array {
        self.host.assemble(&self.members, AssembleOptions::default()).unwrap()
    }
}
