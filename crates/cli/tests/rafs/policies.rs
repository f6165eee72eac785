//! Journal modes, discards, the paper's rules, and what is counted of them.

use std::{fs, os::unix::fs::MetadataExt};

use serde_json::{Value, json};

use super::{
    common::{MIB, eventually, noise},
    world::{World, can_mount},
};

const NONE: [&str; 0] = [];

/// Bytes that a file takes.
fn stored(path: &str) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn counted(world: &World) -> Value {
    world.sandbox.json(&format!("stat --stripes {}", world.point()))[0].clone()
}

fn write_synced(world: &World, name: &str, bytes: &[u8]) {
    fs::write(world.inside(name), bytes).unwrap();
    fs::File::open(world.inside(name)).unwrap().sync_all().unwrap();
}

/// In each mode, what is synced is there after a mount of what is on the file at that moment.
#[test]
fn each_journal_mode_keeps_what_is_synced() {
    if !can_mount(&[]) {
        return;
    }
    for mode in ["ordered", "writeback", "data", "none"] {
        let world = World::new();
        let (sandbox, point) = (&world.sandbox, world.point());
        let (target, copy) = (sandbox.path("disk"), sandbox.path("copy"));
        sandbox.done(&format!("mkfs {target} --size 64M"));
        sandbox.done(&format!("mount {target} {point} -o journal={mode}"));
        let content = noise(1, 700_000);
        write_synced(&world, "file", &content);
        let done = counted(&world);
        assert_eq!(done["commits"].as_u64().unwrap() == 0, mode == "none", "{mode}: {done}");
        assert_eq!(done["journaled_blocks"].as_u64().unwrap() >= 100, mode == "data", "{mode}: {done}");
        fs::copy(&target, &copy).unwrap();
        world.umount();
        sandbox.done(&format!("mount {copy} {point} -o ro"));
        assert!(fs::read(world.inside("file")).unwrap() == content, "{mode}");
        world.umount();
        assert!(sandbox.json(&format!("fsck -n {copy}"))["clean"] == true);
    }
}

#[test]
fn what_is_removed_is_discarded_if_that_is_wanted() {
    if !can_mount(&[]) {
        return;
    }
    for discards in [true, false] {
        let world = World::new();
        let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
        sandbox.done(&format!("mkfs {target} --size 128M"));
        let option = if discards { "discard" } else { "nodiscard" };
        sandbox.done(&format!("mount {target} {point} -o {option},tt=200ms"));
        write_synced(&world, "large", &noise(1, 24 << 20));
        let full = stored(&target);
        assert!(full >= 24 * MIB);
        fs::remove_file(world.inside("large")).unwrap();
        if discards {
            eventually("the file's blocks are given back", || stored(&target) + 20 * MIB < full);
            assert!(counted(&world)["discarded_stripes"].as_u64().unwrap() >= 80);
        } else {
            fs::File::open(&point).unwrap().sync_all().unwrap();
            assert_eq!(
                (counted(&world)["discarded_stripes"].as_u64(), stored(&target) >= full),
                (Some(0), true)
            );
        }
        world.umount();
    }
}

#[test]
fn mkfs_discards_unless_it_is_told_not_to() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let target = world.sandbox.path("disk");
    fs::write(&target, noise(1, 64 << 20)).unwrap();
    let full = stored(&target);
    world.sandbox.done(&format!("mkfs {target} --force -K"));
    assert!(stored(&target) + 8 * MIB > full);
    world.sandbox.done(&format!("mkfs {target} --force"));
    assert!(stored(&target) < 8 * MIB);
}

/// An array whose members are files unmaps what is discarded on it; the stripe counter tells how it was written.
#[test]
fn the_stripe_counter_of_an_array_tells_whole_rows() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = sandbox.members(4, 96 * MIB);
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &members);
    sandbox.done("mkfs a");
    sandbox.done(&format!("mount a {point} -o preset=paper,without=allocation"));
    for number in 0..200 {
        fs::write(world.inside(&format!("file{number}")), noise(number, 10_000)).unwrap();
    }
    write_synced(&world, "last", b"it");
    fs::File::open(&point).unwrap().sync_all().unwrap();
    eventually("all is written out", || counted(&world)["written_blocks"].as_u64().unwrap() >= 600);
    let done = counted(&world);
    let data = &done["stripes"]["data"];
    assert!(data["full_rows"].as_u64().unwrap() >= 190, "{done}");
    assert!(data["partial_rows"] == 0 && done["stripes"]["journal"]["partial_rows"] == 0, "{done}");
    assert_eq!(done["stripes"]["parity"], json!({ "rmw_rows": 0, "rcw_rows": 0 }), "no row had to be read");
    assert_eq!(done["stripes"]["fill"].as_array().unwrap().len(), 12);
    let told = sandbox.run("stat a --stripes", &NONE).out;
    assert!(told.contains("rows by read-modify-write: ") && told.contains("commits"), "{told}");
    world.umount();
    sandbox.fails(1, "stat a", &NONE, &["not mounted"]);
    assert_eq!(sandbox.json("df a")[0]["activity"], json!(null));
}

#[test]
fn words_that_are_no_rules_are_refused_before_anything_is_mounted() {
    let world = World::new();
    let (sandbox, point, target) = (&world.sandbox, world.point(), world.sandbox.path("disk"));
    sandbox.done(&format!("mkfs {target} --size 64M"));
    for (word, known) in [
        ("journal=fast", "ordered, writeback, data, none"),
        ("preset=raid", "default, paper"),
        ("without=parity", "layout, buffer, flush, allocation"),
    ] {
        sandbox.fails(1, &format!("mount {target} {point} -o {word}"), &NONE, &[word, known]);
    }
}
