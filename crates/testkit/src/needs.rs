//! What a test needs and a machine may lack, and what follows: the test runs, is skipped on record, or fails.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{guest, programs::which, record::Skip};

/// Set to 1, a missing program or privilege fails a test instead of skipping it.
const REQUIRE: &str = "STRIPEWISE_REQUIRE_TOOLS";

/// Something that a test needs.
#[derive(Debug, Clone, Copy)]
pub enum Need<'a> {
    /// A program in the path.
    Tool(&'a str),
    /// The superuser's rights.
    Root,
    /// A device file of the kernel, such as `/dev/fuse`.
    Device(&'a str),
    /// A file system that the kernel can mount, perhaps after it has loaded a module.
    FileSystem(&'a str),
    /// A guest with a kernel of its own (`tests/uml/run-guest`).
    Guest,
}

/// Something that a test needs, and that is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// In a few words, such as "no fio".
    pub what: String,
    /// Whether an installation or more rights would give it: then `STRIPEWISE_REQUIRE_TOOLS=1` demands it.
    pub is_demanded: bool,
}

impl Lack {
    /// A program.
    pub fn tool(name: &str) -> Self {
        Self { what: format!("no {name}"), is_demanded: true }
    }

    /// Something that this kernel, or this processor, does not give whatever is installed.
    pub fn kernel(what: impl Into<String>) -> Self {
        Self { what: what.into(), is_demanded: false }
    }
}

/// What is not here of what is needed.
pub fn lacks(needs: &[Need<'_>]) -> Vec<Lack> {
    needs.iter().flat_map(|need| lacks_of(*need)).collect()
}

fn lacks_of(need: Need<'_>) -> Vec<Lack> {
    match need {
        Need::Tool(name) if which(name).is_none() => vec![Lack::tool(name)],
        Need::Root if !rustix::process::geteuid().is_root() => {
            vec![Lack { what: "not root".to_owned(), is_demanded: true }]
        }
        Need::Device(path) if !Path::new(path).exists() => {
            vec![Lack::kernel(format!("this kernel has no {path}"))]
        }
        Need::FileSystem(name) => lack_of_file_system(name).into_iter().collect(),
        Need::Guest => guest::lacks(),
        Need::Tool(_) | Need::Root | Need::Device(_) => Vec::new(),
    }
}

/// Looks for the file system's module as well: kernels load most of them at the first mount.
fn lack_of_file_system(name: &str) -> Option<Lack> {
    let is_known = || {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        known.split_whitespace().any(|word| word == name)
    };
    if is_known() {
        return None;
    }
    let Some(modprobe) = which("modprobe") else { return Some(Lack::tool("modprobe")) };
    let _ = Command::new(modprobe).arg(name).stderr(Stdio::null()).status();
    (!is_known()).then(|| Lack::kernel(format!("this kernel has no {name}")))
}

/// Whether a test can run; if not, it is recorded as skipped as a whole.
///
/// # Panics
/// If what is missing is demanded.
#[track_caller]
pub fn can_run(needs: &[Need<'_>]) -> bool {
    go_on(None, &lacks(needs))
}

/// Whether a part of a test can run; if not, `part` is recorded as not tried. The rest of the test goes on.
///
/// # Panics
/// If what is missing is demanded.
#[track_caller]
pub fn can_try(part: &str, needs: &[Need<'_>]) -> bool {
    go_on(Some(part), &lacks(needs))
}

/// As [`can_run`] and [`can_try`], for lacks that a test has found by itself.
///
/// # Panics
/// If what is missing is demanded.
#[track_caller]
pub fn go_on(part: Option<&str>, lacks: &[Lack]) -> bool {
    if lacks.is_empty() {
        return true;
    }
    let is_required = std::env::var_os(REQUIRE).is_some_and(|value| value == "1");
    let demanded = words(lacks.iter().filter(|lack| lack.is_demanded));
    assert!(!is_required || demanded.is_empty(), "{REQUIRE}=1, and this is missing: {demanded}");
    Skip::here(part, words(lacks.iter())).record();
    false
}

fn words<'a>(lacks: impl Iterator<Item = &'a Lack>) -> String {
    lacks.map(|lack| lack.what.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needs: &[Need<'_>]) -> Vec<(String, bool)> {
        lacks(needs).into_iter().map(|lack| (lack.what, lack.is_demanded)).collect()
    }

    #[test]
    fn a_tool_that_is_missing_is_demanded_and_what_the_kernel_lacks_is_not() {
        assert_eq!(found(&[Need::Tool("sh"), Need::Device("/dev/null"), Need::FileSystem("proc")]), []);
        let missing = [Need::Tool("no-such-tool"), Need::Device("/dev/no-such-device")];
        let expected = [("no no-such-tool", true), ("this kernel has no /dev/no-such-device", false)];
        assert_eq!(found(&missing), expected.map(|(what, is_demanded)| (what.to_owned(), is_demanded)));
    }

    #[test]
    fn a_file_system_without_a_module_is_the_kernels_lack() {
        let lacks = found(&[Need::FileSystem("no-such-file-system")]);
        let expected = match which("modprobe") {
            Some(_) => ("this kernel has no no-such-file-system".to_owned(), false),
            None => ("no modprobe".to_owned(), true),
        };
        assert_eq!(lacks, [expected]);
    }

    #[test]
    fn what_is_here_lets_a_test_go_on() {
        assert!(can_run(&[Need::Tool("sh")]) && can_try("a part", &[]) && go_on(None, &[]));
    }
}
