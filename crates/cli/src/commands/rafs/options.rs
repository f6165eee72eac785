//! The words of `mount -o`: ours, the kernel's, and those that mount(8) reads from fstab and passes on.

use std::{str::FromStr, time::Duration};

use anyhow::{anyhow, bail, ensure};
use stripewise_mount::{
    rafs::fs::{JournalMode, Preset, Technique, UnknownWord},
    report::FREE_PERCENT_MAX,
};

use crate::{
    numbers::{THREADS_MAX, within},
    sizes::parse_size,
    times::parse_time,
};

/// What mount(8), systemd and the kernel's own list of mounts say, and what changes nothing here.
const PASSED_OVER: &[&str] = &[
    "",
    "defaults",
    "default_permissions",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "async",
    "nodiratime",
    "diratime",
    "lazytime",
    "nolazytime",
    "norelatime",
    "nostrictatime",
    "silent",
    "loud",
    "nomand",
    "seclabel",
];
/// The same, with a value.
const PASSED_OVER_WITH: &[&str] =
    &["x-", "X-", "comment=", "user=", "user_id=", "group_id=", "blksize=", "max_read=", "rootmode=", "fd="];

/// What the words say. What is none was not said; of opposites the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) read_only: Option<bool>,
    pub(super) allow_other: Option<bool>,
    pub(super) nosuid: Option<bool>,
    pub(super) nodev: Option<bool>,
    pub(super) noexec: Option<bool>,
    pub(super) noatime: Option<bool>,
    pub(super) tf: Option<u8>,
    pub(super) tt: Option<Duration>,
    pub(super) buffer: Option<u64>,
    pub(super) threads: Option<usize>,
    pub(super) journal: Option<String>,
    pub(super) preset: Option<String>,
    pub(super) without: Vec<String>,
    pub(super) discards: bool,
    pub(super) cleans: Option<bool>,
    /// Without a loop device under it.
    pub(super) is_plain: bool,
    pub(super) is_remount: bool,
    /// Without what the journal has.
    pub(super) has_no_recovery: bool,
}

impl Words {
    /// Reads them.
    ///
    /// # Errors
    /// Of a word that nobody knows, or a value that is none.
    pub(super) fn parse(words: &[String]) -> anyhow::Result<Self> {
        let mut said = Self::default();
        for word in words {
            said.take(word)?;
        }
        ensure!(
            !said.has_no_recovery || said.is_remount || said.read_only == Some(true),
            "-o norecovery: give ro, too; a mount for writing repeats what the journal has"
        );
        Ok(said)
    }

    /// Whether something was given that cannot be changed while it is mounted. mount(8) gives allow_other as it is.
    pub(super) fn has_fixed(&self) -> bool {
        self.buffer.is_some()
            || self.threads.is_some()
            || self.is_plain
            || self.journal.is_some()
            || self.preset.is_some()
            || self.cleans.is_some()
            || self.discards
            || !self.without.is_empty()
    }

    fn take(&mut self, word: &str) -> anyhow::Result<()> {
        match word {
            "ro" => self.read_only = Some(true),
            "rw" => self.read_only = Some(false),
            "allow_other" => self.allow_other = Some(true),
            "noallow_other" => self.allow_other = Some(false),
            "nosuid" => self.nosuid = Some(true),
            "suid" => self.nosuid = Some(false),
            "nodev" => self.nodev = Some(true),
            "dev" => self.nodev = Some(false),
            "noexec" => self.noexec = Some(true),
            "exec" => self.noexec = Some(false),
            "noatime" => self.noatime = Some(true),
            "atime" | "relatime" | "strictatime" => self.noatime = Some(false),
            "discard" => self.discards = true,
            "nodiscard" => self.discards = false,
            "clean" => self.cleans = Some(true),
            "noclean" => self.cleans = Some(false),
            "noloop" => self.is_plain = true,
            "remount" => self.is_remount = true,
            "norecovery" => self.has_no_recovery = true,
            other => return self.take_value(other),
        }
        Ok(())
    }

    fn take_value(&mut self, word: &str) -> anyhow::Result<()> {
        match word.split_once('=') {
            Some(("tf", value)) => self.tf = Some(read(word, within(0..=FREE_PERCENT_MAX)(value))?),
            Some(("tt", value)) => self.tt = Some(read(word, parse_time(value))?),
            Some(("buffer", value)) => self.buffer = Some(read(word, parse_size(value))?),
            Some(("threads", value)) => self.threads = Some(read(word, within(1..=THREADS_MAX)(value))?),
            Some(("journal", value)) => self.journal = Some(known::<JournalMode>(word, value)?),
            Some(("preset", value)) => self.preset = Some(known::<Preset>(word, value)?),
            // A comma parts options, so a plus parts these.
            Some(("without", value)) => {
                for technique in value.split('+') {
                    self.without.push(known::<Technique>(word, technique)?);
                }
            }
            _ if PASSED_OVER.contains(&word) => {}
            _ if PASSED_OVER_WITH.iter().any(|begin| word.starts_with(begin)) => {}
            _ => bail!(
                "-o {word}: no such option; known are ro, rw, noatime, nosuid, suid, nodev, dev, noexec, exec, allow_other, \
                 noallow_other, tf=, tt=, buffer=, threads=, journal=, preset=, without=, discard, nodiscard, clean, noclean, \
                 noloop, norecovery and remount"
            ),
        }
        Ok(())
    }
}

/// What the value of a word was read as.
fn read<T>(word: &str, read: Result<T, impl std::fmt::Display>) -> anyhow::Result<T> {
    read.map_err(|why| anyhow!("-o {word}: {why}"))
}

/// A word that this type knows.
fn known<T: FromStr<Err = UnknownWord>>(word: &str, value: &str) -> anyhow::Result<String> {
    read(word, value.parse::<T>()).map(|_| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Words> {
        Words::parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_of_opposites_counts_and_what_mount_8_passes_on_is_passed_over() {
        let said =
            parse("ro,nodev,dev,noexec,,defaults,noauto,nofail,_netdev,user,x-systemd.automount").unwrap();
        let expected =
            Words { read_only: Some(true), nodev: Some(false), noexec: Some(true), ..Words::default() };
        assert_eq!(said, expected);
        let error = parse("rw,user_xattr").unwrap_err().to_string();
        assert!(error.contains("user_xattr") && error.contains("known are"), "{error}");
    }

    #[test]
    fn values_are_read_and_bounded() {
        let said = parse("tf=7,tt=250ms,buffer=8M,threads=2,noloop,remount").unwrap();
        let (tf, tt, buffer) = (said.tf, said.tt, said.buffer);
        assert_eq!((tf, tt, buffer), (Some(7), Some(Duration::from_millis(250)), Some(8 << 20)));
        assert!(said.threads == Some(2) && said.is_plain && said.is_remount);
        let said =
            parse("journal=data,preset=paper,without=layout+flush,without=buffer,discard,noclean").unwrap();
        assert_eq!((said.journal.as_deref(), said.preset.as_deref()), (Some("data"), Some("paper")));
        assert_eq!(said.without, ["layout", "flush", "buffer"]);
        assert!(said.discards && said.cleans == Some(false));
        for bad in ["journal=some", "preset=", "without=layout+", "without"] {
            assert!(parse(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
        for bad in ["tf=91", "tf=", "tf=-1", "tt=soon", "buffer=much", "threads=0", "tf"] {
            assert!(parse(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn norecovery_is_for_mounts_that_change_nothing() {
        assert!(parse("ro,norecovery").is_ok() && parse("norecovery,rw").is_err());
    }
}
