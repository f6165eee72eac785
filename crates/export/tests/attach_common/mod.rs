//! What the tests of `attach` share: knowing whether they can run here, running tools in bounded time, and leaving
//! nothing behind.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use stripewise_device::{
    Device,
    memory::MemoryDevice,
    uring::{Runtime, RuntimeOptions},
};
use stripewise_export::attach::{AttachMethod, AttachOptions, Attachment, DetachMode, attach};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;
/// No tool here takes more than some seconds on an idle machine.
const TOOL_WAIT: Duration = Duration::from_secs(90);

/// Whether FUSE, loop devices and the tools are there. If not, says so, or fails where everything is required.
pub(crate) fn can_run(tools: &[&str]) -> bool {
    let mut missing: Vec<String> =
        AttachMethod::FuseLoop.probe().err().map(|e| e.to_string()).into_iter().collect();
    missing.extend(tools.iter().filter(|tool| which(tool).is_none()).map(|tool| format!("no {tool}")));
    skip_or_fail(&missing)
}

/// Whether the kernel knows the file system, asking for its module.
pub(crate) fn kernel_has(file_system: &str) -> bool {
    let known = || {
        fs::read_to_string("/proc/filesystems").unwrap().split_whitespace().any(|word| word == file_system)
    };
    let load = || Command::new("modprobe").arg(file_system).stderr(Stdio::null()).status().is_ok();
    let has = known() || (load() && known());
    if !has {
        eprintln!("SKIPPED: this kernel has no {file_system}");
    }
    has
}

pub(crate) fn skip_or_fail(missing: &[String]) -> bool {
    if missing.is_empty() {
        return true;
    }
    let required = std::env::var_os("STRIPEWISE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(!required, "STRIPEWISE_REQUIRE_TOOLS=1, and this is missing: {missing:?}");
    eprintln!("\n*** SKIPPED, because: {}\n", missing.join("; "));
    false
}

pub(crate) fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Runs a tool that must succeed; its output.
pub(crate) fn tool(name: &str, arguments: &[&str]) -> String {
    let output = tool_output(name, arguments);
    let said =
        || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} {arguments:?} failed:\n{}", said());
    said()
}

/// Runs a tool, in bounded time.
pub(crate) fn tool_output(name: &str, arguments: &[&str]) -> Output {
    let path = which(name).unwrap_or_else(|| panic!("no {name}"));
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let drain_out = thread::spawn(move || drain(&mut out));
    let drain_err = thread::spawn(move || drain(&mut err));
    let status = wait(&mut child, name);
    Output { status, stdout: drain_out.join().unwrap(), stderr: drain_err.join().unwrap() }
}

fn drain(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

fn wait(child: &mut Child, name: &str) -> std::process::ExitStatus {
    let deadline = Instant::now() + TOOL_WAIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            panic!("{name} took more than {TOOL_WAIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a runtime of two workers.
pub(crate) fn runtime() -> Arc<Runtime> {
    Arc::new(Runtime::start(&RuntimeOptions { threads: 2, ..RuntimeOptions::default() }).unwrap())
}

/// A memory device attached by FUSE and loop. Dropping it unmounts and detaches, also in a test that failed.
pub(crate) struct Attached {
    pub(crate) attachment: Attachment,
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) folder: TempDir,
}

impl Attached {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self::with(block_bytes, |_| {})
    }

    pub(crate) fn with(block_bytes: u32, change: impl FnOnce(&mut AttachOptions)) -> Self {
        let runtime = runtime();
        let device = Arc::new(MemoryDevice::with_block_bytes("memory", 512 * MIB, block_bytes));
        let folder = tempfile::tempdir().unwrap();
        let mut options = AttachOptions::new(folder.path().join("run"), "test");
        options.method = Some(AttachMethod::FuseLoop);
        change(&mut options);
        let attachment = attach(device.clone(), &runtime, &options).unwrap();
        Self { attachment, device, runtime, folder }
    }

    /// The block device's path as text.
    pub(crate) fn node(&self) -> String {
        self.attachment.block_path().to_str().unwrap().to_owned()
    }

    /// What a file of the device's folder in sysfs says.
    pub(crate) fn sysfs(&self, name: &str) -> String {
        let node = self.attachment.block_path().file_name().unwrap();
        let path = Path::new("/sys/block").join(node).join(name);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    pub(crate) fn read(&self, offset_bytes: u64, len_bytes: usize) -> Vec<u8> {
        let bufs = [stripewise_device::IoBuf::with_len(len_bytes)].into_iter().collect();
        self.runtime.block_on(self.device.read(offset_bytes, bufs)).into_one().unwrap().to_vec()
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        let point = self.folder.path().join("mnt");
        fs::create_dir_all(&point).unwrap();
        point
    }

    pub(crate) fn detach(mut self) {
        let mount_point = self.folder.path().join("run/attach-test");
        self.attachment.detach(DetachMode::Refuse).unwrap();
        assert!(!mount_point.exists(), "the mount point stayed");
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if thread::panicking() {
            for mount in ["mnt", "run/attach-test"] {
                let _ = Command::new("umount").arg("-l").arg(self.folder.path().join(mount)).status();
            }
        }
    }
}

/// A mounted file system. Dropping it unmounts.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    pub(crate) fn new(node: &str, point: PathBuf) -> Self {
        tool("mount", &[node, point.to_str().unwrap()]);
        Self(point)
    }

    pub(crate) fn unmount(self) {
        // A child that another test is just starting has our open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !tool_output("umount", &[self.0.to_str().unwrap()]).status.success() {
            assert!(Instant::now() < deadline, "cannot unmount {}", self.0.display());
            thread::sleep(Duration::from_millis(20));
        }
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Every file below a folder with a checksum of its content.
pub(crate) fn checksums(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut sums = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let name = entry.path().strip_prefix(folder).unwrap().to_owned();
                sums.insert(name, checksum(&fs::read(entry.path()).unwrap()));
            }
        }
    }
    sums
}

fn checksum(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Bytes that follow no pattern, the same for a seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Asserts that the threads of these names are marked as part of the I/O path, where the machine lets us mark any.
/// Other tests of the process run unmarked workers of their own, so it is enough that each name has one.
pub(crate) fn assert_io_path_threads(names: &[&str]) {
    const MEMALLOC_NOIO: u64 = 0x0008_0000;
    let may_mark =
        thread::spawn(|| rustix::process::configure_io_flusher_behavior(true).is_ok()).join().unwrap();
    if !may_mark {
        eprintln!("NOT CHECKED: marking threads of the I/O path takes CAP_SYS_RESOURCE");
        return;
    }
    for wanted in names {
        let marked = fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let Some((name, rest)) = stat.split_once('(').and_then(|(_, tail)| tail.rsplit_once(')')) else {
                return false;
            };
            let flags: u64 = rest.split_whitespace().nth(6).unwrap().parse().unwrap();
            name.starts_with(wanted) && flags & MEMALLOC_NOIO != 0
        });
        assert!(marked, "no thread {wanted}* is marked");
    }
}
