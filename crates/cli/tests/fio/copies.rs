//! Images copied in and out by the tools that people have.

use xxhash_rust::xxh3::xxh3_64;

use crate::common::{MIB, Need, Sandbox, can_run, noise, tool};

const IMAGE_BYTES: usize = 40 << 20;

/// A degraded array and an image of noise and holes that fits it.
fn setting() -> (Sandbox, String, String) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.ok("fail a", &members[..1]);
    let mut image = noise(21, IMAGE_BYTES);
    image.chunks_mut(1 << 20).step_by(3).for_each(|piece| piece.fill(0));
    let path = sandbox.path("image");
    std::fs::write(&path, image).unwrap();
    let uri = sandbox.serve("a");
    (sandbox, uri, path)
}

fn checksum(path: &str) -> u64 {
    xxh3_64(&std::fs::read(path).unwrap()[..IMAGE_BYTES])
}

#[test]
fn nbdcopy_goes_round() {
    if !can_run(&[Need::Tool("nbdcopy")]) {
        return;
    }
    let (sandbox, uri, image) = setting();
    let out = sandbox.path("out");
    tool("nbdcopy", &["--flush", &image, &uri]);
    tool("nbdcopy", &[&uri, &out]);
    assert_eq!(checksum(&image), checksum(&out));
    assert_eq!(std::fs::metadata(&out).unwrap().len(), sandbox.status("a")["size_bytes"].as_u64().unwrap());
}

#[test]
fn qemu_img_converts_in_and_out() {
    if !can_run(&[Need::Tool("qemu-img")]) {
        return;
    }
    let (sandbox, uri, image) = setting();
    let (out, compressed) = (sandbox.path("out"), sandbox.path("qcow2"));
    tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &image, &uri]);
    tool("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &compressed]);
    tool("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &uri, &compressed]);
    tool("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &compressed, &out]);
    assert_eq!(checksum(&image), checksum(&out));
}

#[test]
fn nbdinfo_maps_the_whole_export() {
    if !can_run(&[Need::Tool("nbdinfo"), Need::Tool("nbdcopy")]) {
        return;
    }
    let (sandbox, uri, image) = setting();
    tool("nbdcopy", &[&image, &uri]);
    let map: serde_json::Value = serde_json::from_str(&tool("nbdinfo", &["--map", "--json", &uri])).unwrap();
    let contents = std::fs::read(&image).unwrap();
    let mut at = 0;
    for extent in map.as_array().unwrap() {
        let (offset, length) = (extent["offset"].as_u64().unwrap(), extent["length"].as_u64().unwrap());
        assert_eq!(offset, at, "extents follow each other: {map}");
        let is_hole = extent["type"].as_u64().unwrap() & 2 != 0;
        let (from, to) = (offset as usize, ((offset + length) as usize).min(IMAGE_BYTES));
        let is_zero = from >= to || contents[from..to].iter().all(|byte| *byte == 0);
        assert!(!is_hole || is_zero, "{extent} is called zero and is not");
        at += length;
    }
    assert_eq!(at, sandbox.status("a")["size_bytes"].as_u64().unwrap());
}
