//! Damage, what `dump` shows of it, and what `fsck -y` makes of it.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
};

use super::{
    common::{KIB, MIB, noise},
    world::{World, can_mount},
};

const NONE: [&str; 0] = [];

/// A file system with some folders and files, unmounted. Returns where it is, and inodes of a file and of its folder.
fn made(world: &World) -> (String, u64, u64) {
    let (sandbox, point) = (&world.sandbox, world.point());
    let target = sandbox.path("disk");
    sandbox.done(&format!("mkfs {target} --size 64M --geometry 4x64K --order rows"));
    sandbox.done(&format!("mount {target} {point}"));
    for folder in 0..4 {
        fs::create_dir(world.inside(&format!("{folder}"))).unwrap();
        for file in 0..40 {
            let content = noise(file, 200 + file as usize * 300);
            fs::write(world.inside(&format!("{folder}/{file}")), content).unwrap();
        }
    }
    let large = world.inside("1/large");
    fs::write(&large, noise(7, (3 * MIB) as usize)).unwrap();
    let numbers = (fs::metadata(large).unwrap().ino(), fs::metadata(world.inside("1")).unwrap().ino());
    world.umount();
    (target, numbers.0, numbers.1)
}

#[test]
fn damage_is_shown_and_mended_and_the_rest_stays() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let sandbox = &world.sandbox;
    let (target, large, folder) = made(&world);
    let dump = |what: &str| sandbox.json(&format!("dump {target} {what}"));
    assert!(dump("superblock").as_array().unwrap().iter().all(|copy| copy["says"]["data_columns"] == 4));
    assert!(dump("anchors").as_array().unwrap().iter().any(|copy| copy["says"]["is_clean"] == true));
    let nodes = dump("tree");
    let leaves: Vec<u64> = (nodes.as_array().unwrap().iter())
        .filter(|node| node["level"] == 0)
        .map(|node| node["block"].as_u64().unwrap())
        .collect();
    assert!(leaves.len() > 3, "{nodes}");
    let extents = dump(&format!("extents {large}"));
    assert!(extents.as_array().unwrap().iter().all(|one| one["bad"] == serde_json::json!([])), "{extents}");
    assert!(sandbox.done(&format!("dump {target} inode {folder}")).contains("large"));
    assert!(sandbox.done(&format!("dump {target} lists")).contains("free_blocks"));
    assert!(sandbox.done(&format!("dump {target} journal")).contains("no record"));
    assert!(sandbox.done(&format!("dump {target} group 0")).contains("kind"));
    let stripe = extents[0]["extent"]["block"].as_u64().unwrap() / 64;
    assert!(sandbox.done(&format!("dump {target} stripe {stripe}")).contains(&format!("of inode {large}")));
    sandbox.fails(1, &format!("dump {target} stripe 100000"), &NONE, &["there are stripes"]);
    sandbox.fails(2, &format!("dump {target} odd"), &NONE, &["odd"]);

    // A leaf in the middle, and all copies of the first superblock. Slots are numbered by rows: 4 columns of 16 blocks.
    let place = leaves[leaves.len() / 2];
    let (stripe, slot) = (place / 64, place % 64);
    let offset = (stripe * 64 + slot % 4 * 16 + slot / 4) * 4096;
    let file = File::options().write(true).open(&target).unwrap();
    file.write_all_at(&[0x5a; 4096], offset).unwrap();
    (0..4).for_each(|column| file.write_all_at(&[0x5a; 4096], column * 64 * KIB).unwrap());
    assert!(sandbox.done(&format!("dump {target} tree")).contains("damaged"));
    assert!(sandbox.done(&format!("dump {target} superblock")).contains("damaged"));
    let said = sandbox.run(&format!("fsck -n {target}"), &NONE);
    assert_eq!(said.code, Some(4), "{said:?}");
    let said = sandbox.run(&format!("fsck -y {target}"), &NONE);
    assert_eq!(said.code, Some(1), "{said:?}");
    let looked = sandbox.json(&format!("fsck {target}"));
    assert_eq!(looked["clean"], true, "{looked}");
    sandbox.done(&format!("mount {target} {}", world.point()));
    let mut kept = 0;
    for folder in 0..4 {
        for file in 0..40 {
            let content = noise(file, 200 + file as usize * 300);
            kept += u32::from(
                fs::read(world.inside(&format!("{folder}/{file}"))).is_ok_and(|read| read == content),
            );
        }
    }
    assert!(kept >= 100, "{kept} of 160 are as they were");
    world.umount();
    assert_eq!(sandbox.json(&format!("fsck {target}"))["clean"], true);
}
