//! The record of what was skipped: a line in the file that `STRIPEWISE_SKIPS` names, or words on standard error.

use std::{fs::OpenOptions, io::Write, panic::Location, path::Path, thread};

/// Names the file that collects the records; `scripts/test` sets it.
const FILE: &str = "STRIPEWISE_SKIPS";

/// What was skipped, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// Package and test program, such as `stripewise-cli/fio`.
    program: String,
    /// The test.
    test: String,
    /// The part of it that was not tried, if the rest was.
    part: Option<String>,
    reason: String,
}

impl Skip {
    /// In the test that runs on this thread.
    #[track_caller]
    pub(crate) fn here(part: Option<&str>, reason: String) -> Self {
        let caller = Location::caller();
        // Test runners name a test's thread by the test. With a single thread they run it on their main one.
        let named = thread::current().name().filter(|name| *name != "main").map(str::to_owned);
        let test = named.unwrap_or_else(|| format!("{}:{}", caller.file(), caller.line()));
        Self { program: program(), test, part: part.map(str::to_owned), reason }
    }

    /// Keeps it. Not by a macro that prints: test runners hide what those say in a test that passes.
    pub(crate) fn record(&self) {
        let Some(file) = std::env::var_os(FILE) else {
            let text = format!("\n*** SKIPPED: {}, because: {} ***\n\n", self.subject(), self.reason);
            let _ = std::io::stderr().write_all(text.as_bytes());
            return;
        };
        let appended = append(Path::new(&file), &format!("{}\t{}\n", self.reason, self.subject()));
        assert!(appended.is_ok(), "{FILE} names {}, which takes no records: {appended:?}", file.display());
    }

    fn subject(&self) -> String {
        let part = self.part.as_ref().map_or_else(String::new, |part| format!(" ({part} only)"));
        format!("{} {}{part}", self.program, self.test)
    }
}

/// In one write, so that the lines of programs that run side by side stay whole.
fn append(file: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

fn program() -> String {
    let executable = std::env::current_exe().unwrap_or_default();
    let stem = executable.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = without_hash(&stem);
    match std::env::var("CARGO_PKG_NAME") {
        Ok(package) => format!("{package}/{name}"),
        Err(_) => name.to_owned(),
    }
}

/// Cargo names a test program `name-0123456789abcdef`.
fn without_hash(stem: &str) -> &str {
    let is_hash = |tail: &str| tail.len() == 16 && tail.bytes().all(|byte| byte.is_ascii_hexdigit());
    stem.rsplit_once('-').filter(|(_, tail)| is_hash(tail)).map_or(stem, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_program_test_and_part() {
        let skip = Skip::here(Some("mdadm's view"), "no mdadm".to_owned());
        assert_eq!(skip.test, "record::tests::a_record_names_program_test_and_part");
        let subject = skip.subject();
        let expected =
            "/stripewise_testkit record::tests::a_record_names_program_test_and_part (mdadm's view only)";
        assert!(subject.ends_with(expected), "{subject}");
    }

    #[test]
    fn without_a_name_the_thread_is_told_by_the_caller() {
        let spawned = thread::Builder::new().spawn(|| Skip::here(None, String::new()).test);
        let test = spawned.map(thread::JoinHandle::join);
        assert!(matches!(&test, Ok(Ok(test)) if test.contains("record.rs:")), "{test:?}");
    }

    #[test]
    fn only_cargos_hash_is_taken_off() {
        assert_eq!(without_hash("attach_nbd-0123456789abcdef"), "attach_nbd");
        assert_eq!(without_hash("attach-nbd"), "attach-nbd");
    }
}
