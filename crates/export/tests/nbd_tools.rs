//! The clients that people use, against this server: libnbd's tools, qemu's, and fio.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{process::Command, sync::Arc, time::Duration};

use common::{Fixture, MIB, export, peek, succeed, tool};
use stripewise_device::{memory::MemoryDevice, uring::Runtime, wrap};
use stripewise_export::nbd::{Endpoint, Export, Limits};
use stripewise_testkit::{Need, can_run};

/// A file of random and zero pieces.
fn image(dir: &std::path::Path, size_bytes: u64) -> std::path::PathBuf {
    let mut random = fastrand::Rng::with_seed(11);
    let mut bytes = vec![0; size_bytes as usize];
    for piece in bytes.chunks_mut(128 << 10) {
        if random.bool() {
            piece.fill_with(|| random.u8(..));
        }
    }
    let path = dir.join("image");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn nbdinfo_reads_what_the_server_tells() {
    let Some(mut nbdinfo) = tool("nbdinfo") else { return };
    let second = Export { description: "a second disk".to_owned(), ..export("second", 2 * MIB) };
    let fixture = Fixture::unix(vec![export("first", MIB), second]);
    let told = succeed(nbdinfo.args(["--json", "--list", &fixture.uri("")]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["protocol"], "newstyle-fixed");
    let exports = told["exports"].as_array().unwrap();
    assert_eq!(exports.len(), 2);
    let first = &exports[0];
    assert_eq!(first["export-name"], "first");
    assert_eq!(first["export-size"], MIB);
    assert_eq!(exports[1]["description"], "a second disk");
    for can in ["can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
        assert_eq!(first[can], true, "{can}");
    }
    assert_eq!(first["is_read_only"], false);
    assert_eq!(first["is_rotational"], false);
    assert_eq!(first["block_size_minimum"], 512);
    assert_eq!(first["block_size_preferred"], 65_536);
    assert_eq!(first["block_size_maximum"], 33_554_432);
    assert_eq!(first["contexts"], serde_json::json!(["base:allocation"]));
}

#[test]
fn nbdinfo_maps_holes() {
    let (Some(mut nbdinfo), Some(mut nbdcopy)) = (tool("nbdinfo"), tool("nbdcopy")) else { return };
    let fixture = Fixture::unix(vec![export("disk", MIB)]);
    let path = fixture.dir.path().join("half");
    std::fs::write(&path, [vec![0; 524_288], vec![5; 524_288]].concat()).unwrap();
    succeed(nbdcopy.arg(&path).arg(fixture.uri("disk")));
    let map = succeed(nbdinfo.args(["--map", "--json", &fixture.uri("disk")]));
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let extent = |index: usize| {
        (map[index]["offset"].clone(), map[index]["length"].clone(), map[index]["type"].clone())
    };
    assert_eq!(extent(0), (0.into(), 524_288.into(), 3.into()));
    assert_eq!(extent(1), (524_288.into(), 524_288.into(), 0.into()));
}

#[test]
fn nbdcopy_copies_in_and_out() {
    let (Some(mut copy_in), Some(mut copy_out)) = (tool("nbdcopy"), tool("nbdcopy")) else { return };
    for fixture in
        [Fixture::unix(vec![export("disk", 16 * MIB)]), Fixture::tcp(vec![export("disk", 16 * MIB)])]
    {
        let image = image(fixture.dir.path(), 16 * MIB);
        let out = fixture.dir.path().join("out");
        succeed(copy_in.arg(&image).arg(fixture.uri("disk")));
        succeed(copy_out.arg(fixture.uri("disk")).arg(&out));
        assert!(std::fs::read(&image).unwrap() == std::fs::read(&out).unwrap());
        assert!(fixture.server.stats().accepted > 2, "several connections, as CAN_MULTI_CONN invites to");
        copy_in = tool("nbdcopy").unwrap();
        copy_out = tool("nbdcopy").unwrap();
    }
}

#[test]
fn qemu_img_converts_in_and_out() {
    let (Some(mut to), Some(mut from)) = (tool("qemu-img"), tool("qemu-img")) else { return };
    let fixture = Fixture::unix(vec![export("disk", 16 * MIB)]);
    let image = image(fixture.dir.path(), 16 * MIB);
    let out = fixture.dir.path().join("out");
    succeed(to.args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&image).arg(fixture.uri("disk")));
    succeed(from.args(["convert", "-f", "raw", "-O", "raw"]).arg(fixture.uri("disk")).arg(&out));
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&out).unwrap());
}

#[test]
fn qemu_io_writes_zeroes_discards_and_sees_errors() {
    let Some(mut qemu_io) = tool("qemu-io") else { return };
    let device = Arc::new(MemoryDevice::new("disk", MIB));
    let fixture = Fixture::unix(vec![Export::new("disk", device.clone())]);
    let commands = [
        "write -P 0x5a 0 128k",
        "write -f -P 0x5b 64k 64k",
        "write -z -u 4k 4k",
        "write -z 8k 4k",
        "read -P 0x5a 0 4k",
        "read -P 0 4k 8k",
        "read -P 0x5b 64k 64k",
        "read -P 0x5a 12345 100",
        "discard 128k 128k",
        "flush",
    ];
    qemu_io.args(["-f", "raw"]);
    for command in commands {
        qemu_io.args(["-c", command]);
    }
    let said = succeed(qemu_io.arg(fixture.uri("disk")));
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    assert!(peek(&*device, 65_536, 65_536).iter().all(|b| *b == 0x5b));
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(mut fio) = tool("fio") else { return };
    let slow = |runtime: &Runtime| {
        let memory = MemoryDevice::new("disk", 32 * MIB);
        vec![Export::new("disk", Arc::new(wrap::Delay::new(memory, runtime.env(), Duration::from_millis(1))))]
    };
    let fixture = Fixture::build(1, Limits::default(), slow, |dir| Endpoint::Unix(dir.join("nbd.sock")));
    let uri = format!("--uri={}", fixture.uri("disk"));
    succeed(fio.args([
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bssplit=4k/50:64k/40:512k/10",
        "--iodepth=32",
        "--size=32m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--verify_state_save=0",
    ]));
    assert!(fixture.server.stats().connection_peak_requests > 8, "requests were in flight together");
}

#[test]
fn nbdsh_meets_the_corners() {
    if !can_run(&[Need::Tool("nbdsh")]) {
        return;
    }
    let mut nbdsh = Command::new("nbdsh");
    let fixture = Fixture::unix(vec![export("disk", MIB)]);
    let script = "\
import errno
h.pwrite(b'x' * 1024, 512, nbd.CMD_FLAG_FUA)
assert h.can_df()
assert h.pread_structured(1024, 512, lambda *chunk: 0, nbd.CMD_FLAG_DF) == b'x' * 1024
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_ALIGN)
assert h.pread(10, 1020) == b'x' * 10
try:
    h.pwrite(b'y' * 10, 1020)
    refused = 0
except nbd.Error as error:
    refused = error.errnum
assert refused == errno.EINVAL
assert h.pread(512, 1024) == b'x' * 512
h.zero(512, 512, nbd.CMD_FLAG_NO_HOLE)
h.trim(4096, 0)
h.flush()
";
    // The system's Python has its module; another one that comes first may not.
    nbdsh.env("PATH", "/usr/bin:/bin");
    succeed(nbdsh.args(["-u", &fixture.uri("disk"), "-c", script]));
}
