//! The guest of `tests/uml`: a kernel of its own, with md and mdadm, over members that are files of this machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use crate::{
    needs::{Lack, Need, lacks as lacks_of},
    programs::{Said, run_bounded},
};

/// Names a kernel to boot instead of the packaged one (`tests/uml/run-guest`).
const KERNEL: &str = "STRIPEWISE_UML_KERNEL";

/// How long starting and ending a guest may take beyond its script.
const BOOT: Duration = Duration::from_secs(60);

/// What a guest is asked to do.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Member files, which are `/dev/ubda` and so on in the guest.
    pub members: Vec<PathBuf>,
    /// Files that lie in the script's folder.
    pub files: Vec<PathBuf>,
    /// Its memory, as the kernel has it ("512M"); enough for md if not given.
    pub memory: Option<String>,
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/uml").join(name)
}

/// What is missing for guests: programs, or a kernel that runs on this processor.
pub fn lacks() -> Vec<Lack> {
    let own_kernel = std::env::var_os(KERNEL).is_some();
    let kernel = (!own_kernel).then_some(Need::Tool("linux.uml"));
    let programs = ["mdadm", "busybox", "python3"].map(Need::Tool);
    let missing = lacks_of(&kernel.into_iter().chain(programs).collect::<Vec<_>>());
    if missing.is_empty() { refusal().map(Lack::kernel).into_iter().collect() } else { missing }
}

/// Why no guest runs here although everything is installed. Asked once: with some processors it takes a boot.
fn refusal() -> Option<String> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let ask = || {
        let said = run_bounded(&mut Command::new(script("can-run")), 2 * BOOT);
        (said.code != Some(0)).then(|| said.err.trim().to_owned())
    };
    REFUSAL.get_or_init(ask).clone()
}

/// Runs a script file as root in a guest, for at most `limit`.
///
/// # Panics
/// If the guest has not ended a minute after that.
pub fn run(job: &Job, steps: &Path, limit: Duration) -> Said {
    let mut command = Command::new(script("run-guest"));
    for member in &job.members {
        command.arg("--member").arg(member);
    }
    for file in &job.files {
        command.arg("--put").arg(file);
    }
    if let Some(memory) = &job.memory {
        command.args(["--memory", memory]);
    }
    command.args(["--timeout", &limit.as_secs().to_string()]).arg(steps);
    run_bounded(&mut command, limit + BOOT)
}
