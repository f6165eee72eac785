//! The kernel's nbd driver. Where the kernel of this machine has none, in a guest under User Mode Linux,
//! whose kernel does: the guest runs this very program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod attach_common;

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use attach_common::{MIB, assert_io_path_threads, noise, runtime};
use stripewise_device::{Device, IoBuf, memory::MemoryDevice};
use stripewise_export::attach::{AttachError, AttachMethod, AttachOptions, DetachMode, attach};
use stripewise_testkit::{Need, can_run, guest, tool};

const IN_GUEST: &str = "STRIPEWISE_ATTACH_NBD_HERE";

/// Attaches, writes through the kernel, reads from the device, and detaches.
fn live_over_nbd() {
    let runtime = runtime();
    let device = Arc::new(MemoryDevice::with_block_bytes("memory", 32 * MIB, 4096));
    let folder = tempfile::tempdir().unwrap();
    let mut options = AttachOptions::new(folder.path(), "guest");
    options.method = Some(AttachMethod::KernelNbd);
    options.nbd_connections = 2;
    for round in 0..2 {
        let mut attachment = attach(device.clone(), &runtime, &options).unwrap();
        let node = attachment.block_path().to_owned();
        println!("round {round}: {}", node.display());
        assert_io_path_threads(&["stripewise-nbd", "stripewise-io"]);
        assert_eq!(sysfs(&node, "size"), (32 * MIB / 512).to_string());
        assert_eq!(sysfs(&node, "queue/logical_block_size"), "4096");

        let disk = fs::OpenOptions::new().read(true).write(true).open(&node).unwrap();
        disk.write_all_at(&noise(round, 8 << 20), 4096).unwrap();
        disk.sync_all().unwrap();
        let bufs = [IoBuf::with_len(8 << 20)].into_iter().collect();
        let read = runtime.block_on(device.read(4096, bufs)).into_one().unwrap();
        assert!(read[..] == noise(round, 8 << 20), "what the kernel wrote is not on the device");
        let mut back = vec![0; 1 << 20];
        disk.read_exact_at(&mut back, 4096).unwrap();
        assert!(back == noise(round, 8 << 20)[..1 << 20]);

        let error = attachment.detach(DetachMode::Refuse).unwrap_err();
        assert!(matches!(&error, AttachError::InUse { users, .. } if users.len() == 1), "{error}");
        drop(disk);
        attachment.detach(DetachMode::Refuse).unwrap();
        assert!(!Path::new("/sys/block").join(node.file_name().unwrap()).join("pid").exists());
    }
    force(&device, &runtime, &options);
}

fn force(
    device: &Arc<MemoryDevice>,
    runtime: &Arc<stripewise_device::uring::Runtime>,
    options: &AttachOptions,
) {
    let mut attachment = attach(device.clone(), runtime, options).unwrap();
    let disk = fs::File::open(attachment.block_path()).unwrap();
    attachment.detach(DetachMode::Force).unwrap();
    assert!(
        disk.read_exact_at(&mut [0; 4096], 16 << 20).is_err(),
        "a forced detach leaves nothing to read from"
    );
    println!("forced");
}

fn sysfs(node: &Path, name: &str) -> String {
    let path = Path::new("/sys/block").join(node.file_name().unwrap()).join(name);
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
fn an_array_over_the_kernels_nbd_driver() {
    let in_guest = std::env::var_os(IN_GUEST).is_some();
    if in_guest || AttachMethod::KernelNbd.probe().is_ok() {
        live_over_nbd();
    } else if can_run(&[Need::Guest]) {
        run_in_guest();
    }
}

fn run_in_guest() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let myself = std::env::current_exe().unwrap();
    // Without its debug information, which would not fit into the guest's memory.
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(&myself).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(&myself, &program).unwrap();
    }
    let script = folder.path().join("script");
    // A kernel of our own has the driver without a module.
    let steps = format!(
        "[ -e /dev/nbd0 ] || modprobe nbd nbds_max=2\n\
         {IN_GUEST}=1 LD_LIBRARY_PATH=/guest ./program --exact an_array_over_the_kernels_nbd_driver --nocapture\n"
    );
    fs::write(&script, steps).unwrap();
    let files = [program].into_iter().chain(libraries(&myself)).collect();
    let job = guest::Job { files, memory: Some("512M".to_owned()), ..guest::Job::default() };
    let said = guest::run(&job, &script, Duration::from_secs(80));
    println!("{}", said.out);
    assert!(said.code == Some(0) && said.out.contains("forced"), "{said:?}");
}

/// The shared libraries of a program.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let lines = tool("ldd", &[program.to_str().unwrap()]);
    let words = lines.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    words.filter(|path| !path.to_string_lossy().contains("ld-linux")).collect()
}
