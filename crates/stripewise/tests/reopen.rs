//! Arrays that are stopped, or let go of, and opened again in the same process: their members are free at
//! once.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use stripewise::{
    Array, AssembleOptions, CreateOptions, Host, HostOptions, IoBuf, WriteFlags, geometry::Level,
};
use tempfile::TempDir;

const MEMBER_BYTES: u64 = 16 << 20;
/// Once 13 of 20 failed.
const ROUNDS: u8 = 20;

struct Ground {
    host: Host,
    members: Vec<PathBuf>,
    _folder: TempDir,
}

impl Ground {
    /// A host, and an array of three files that is stopped.
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let members: Vec<_> = (0..3).map(|number| folder.path().join(format!("m{number}"))).collect();
        for path in &members {
            std::fs::File::create(path).unwrap().set_len(MEMBER_BYTES).unwrap();
        }
        let host = Host::start(&HostOptions::default()).unwrap();
        let devices = members.iter().map(|path| host.open_member(path).unwrap()).collect();
        let array = host.create(CreateOptions::new("host:reopened", Level::Raid5, devices)).unwrap();
        host.block_on(async move { array.stop().await }).unwrap();
        Self { host, members, _folder: folder }
    }

    fn open(&self) -> Array {
        self.host.assemble(&self.members, AssembleOptions::default()).unwrap()
    }

    /// Writes a block that tells the round, with what the round before left before it.
    fn write(&self, array: &Array, round: u8) {
        let array = array.clone();
        let found = self.host.block_on(async move {
            let found = array.read(0, IoBuf::with_len(4096)).await?;
            let data = IoBuf::copy_of(&[round; 4096]).freeze();
            array.write(0, data, WriteFlags { fua: true }).await?;
            Ok::<_, stripewise::ArrayError>(found)
        });
        assert!(found.unwrap().iter().all(|byte| *byte == round - 1), "round {round}");
    }
}

#[test]
fn an_array_that_was_stopped_is_opened_again_at_once() {
    let ground = Ground::new();
    for round in 1..=ROUNDS {
        let array = ground.open();
        ground.write(&array, round);
        ground.host.block_on(async move { array.stop().await }).unwrap();
    }
}

/// As after a crash, but for the members, which nothing keeps.
#[test]
fn an_array_that_was_let_go_of_is_opened_again() {
    let ground = Ground::new();
    for round in 1..=ROUNDS {
        let array = ground.open();
        ground.write(&array, round);
    }
}
