//! `dump TARGET buffer`: what waits in the memory of the process that serves a mount.

use std::{
    fs::{self, File},
    path::Path,
};

use serde_json::{Value, json};

use super::{
    common::{KIB, MIB, noise},
    world::{World, can_mount},
};

const NONE: [&str; 0] = [];

/// What the lists hold: numbers, blocks of an entry, entries, blocks.
fn held(told: &Value) -> Vec<[u64; 4]> {
    let fields = ["list", "entry_blocks", "entries", "blocks"];
    let lists = told["lists"].as_array().unwrap();
    lists.iter().map(|list| fields.map(|field| list[field].as_u64().unwrap())).collect()
}

/// `target` is mounted, and nothing waits there.
fn tells(world: &World, target: &str) {
    let (sandbox, point) = (&world.sandbox, world.point());
    // 7 blocks are entries of 4, 2 and 1.
    fs::write(world.inside("seven"), noise(1, (28 * KIB) as usize)).unwrap();
    fs::write(world.inside("two"), noise(2, (8 * KIB) as usize)).unwrap();
    for place in [target, &point, world.inside("seven").to_str().unwrap()] {
        let told = sandbox.json(&format!("dump {place} buffer"));
        assert_eq!(held(&told), [[0, 1, 1, 1], [1, 2, 2, 4], [2, 4, 1, 4]], "{told}");
        assert_eq!((&told["target"], &told["point"]), (&json!(target), &json!(point)));
        assert!(told["lists"][2]["oldest_ms"].as_u64().unwrap() < 120_000, "{told}");
    }
    let told = sandbox.done(&format!("dump {target} buffer"));
    assert!(told.contains("list 1: entries of 2 blocks: 2; 4 blocks") && told.contains("9 blocks"), "{told}");
    // Lists of what lies on the volume are not told while that changes.
    let advice = format!("stripewise dump {point} buffer");
    sandbox.fails(1, &format!("dump {point} lists"), &NONE, &["is mounted on", &advice, "umount"]);
    sync(&world.inside("seven"));
    sandbox.done(&format!("umount {point}"));
    sandbox.fails(
        1,
        &format!("dump {target} buffer"),
        &NONE,
        &["is not mounted", "only while it is mounted"],
    );
    sandbox.fails(1, &format!("dump {point} buffer"), &NONE, &["no RAFS file system is mounted there"]);
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

#[test]
fn the_buffer_lists_of_a_mount_are_told() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
    sandbox.done(&format!("mkfs {target} --size 64M"));
    sandbox.done(&format!("mount {target} {point} --tt 10m"));
    let told = sandbox.json(&format!("dump {target} buffer"));
    assert_eq!(held(&told), Vec::<[u64; 4]>::new());
    tells(&world, &target);
    sandbox.fails(1, &format!("dump {} buffer", sandbox.path("none")), &NONE, &["none"]);
}

#[test]
fn the_buffer_lists_of_an_array_are_told() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = sandbox.members(3, 64 * MIB);
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &members);
    sandbox.done("mkfs a");
    sandbox.fails(1, "dump a lists", &NONE, &["stripewise attach a"]);
    sandbox.done(&format!("mount a {point} --tt 10m"));
    tells(&world, "a");
}
