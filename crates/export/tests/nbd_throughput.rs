//! How fast the server is, next to nbdkit's memory plugin on the same machine in the same run.
//!
//! `cargo test --release -p stripewise-export --test nbd_throughput -- --ignored --nocapture`

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use common::{Fixture, MIB, eventually, succeed, tool};
use stripewise_device::memory::MemoryDevice;
use stripewise_export::nbd::{Endpoint, Export, Limits};

const SIZE_BYTES: u64 = 512 * MIB;
const SECONDS: &str = "4";

/// One run of fio: IOPS and MB/s.
fn fio(uri: &str, pattern: &str, block: &str, depth: &str) -> (f64, f64) {
    let mut fio = tool("fio").unwrap();
    fio.args(["--name=t", "--ioengine=nbd", "--output-format=json", "--time_based", "--size=512m"]);
    fio.args(["--runtime", SECONDS, "--rw", pattern, "--bs", block, "--iodepth", depth]);
    let said = succeed(fio.arg(format!("--uri={uri}")));
    let json: serde_json::Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let side = &json["jobs"][0][if pattern.ends_with("read") { "read" } else { "write" }];
    (side["iops"].as_f64().unwrap(), side["bw_bytes"].as_f64().unwrap() / 1e6)
}

fn measure(name: &str, uri: &str) {
    // The first touch of the memory is not what is measured.
    fio(uri, "write", "256k", "8");
    for pattern in ["randread", "randwrite"] {
        let (iops, _) = fio(uri, pattern, "4k", "32");
        println!("{name:28} {pattern:9} 4 KiB, queue 32: {:8.0} IOPS", iops);
    }
    for pattern in ["read", "write"] {
        let (_, mb) = fio(uri, pattern, "256k", "8");
        println!("{name:28} {pattern:9} 256 KiB, queue 8: {:7.2} GB/s", mb / 1000.0);
    }
}

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn nbdkit(mut nbdkit: Command, socket: &Path) -> Kill {
    nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(socket).args(["memory", "512M"]);
    let child = Kill(nbdkit.stderr(Stdio::null()).spawn().unwrap());
    eventually("nbdkit listens", || socket.exists());
    child
}

#[test]
#[ignore = "a measurement of a minute"]
fn throughput_next_to_nbdkit() {
    let (Some(_), Some(kit)) = (tool("fio"), tool("nbdkit")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kit");
    {
        let _kit = nbdkit(kit, &socket);
        measure("nbdkit memory", &format!("nbd+unix:///?socket={}", socket.display()));
    }
    for threads in [1, 2] {
        let device = Arc::new(MemoryDevice::new("disk", SIZE_BYTES));
        let exports = |_: &_| vec![Export::new("disk", device)];
        let fixture =
            Fixture::build(threads, Limits::default(), exports, |dir| Endpoint::Unix(dir.join("s")));
        measure(&format!("stripewise memory, {threads} worker(s)"), &fixture.uri("disk"));
    }
}
