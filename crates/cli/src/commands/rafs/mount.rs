//! `stripewise mount`.

use std::{
    fs,
    io::{self, Write},
    num::NonZero,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use rustix::{
    fs::{StatVfsMountFlags, XattrFlags},
    io::Errno,
    mount::{MountFlags, mount_remount},
};
use stripewise_mount::report::{ATTRIBUTE, FREE_PERCENT_MAX, PaceChange};
use stripewise_wire::{MountChoice, MountedStatus, Reply, Request};

use super::{
    foreground::stay,
    options::Words,
    place::{Target, target_of},
    report_of, worked_for,
};
use crate::{
    client::{self, Attended},
    mounted::{self, MountSpec},
    numbers::{THREADS_MAX, within},
    printable::printable,
    said::{note, print_json, say},
    sizes::parse_size,
    times::parse_time,
};

/// T_f and T_t, if they are left out.
const FREE_PERCENT: u8 = 20;
const AGE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Args)]
pub(crate) struct MountArgs {
    /// The running array, block device or file that the file system is on.
    ///
    /// The daemon of an array serves the mount itself; other targets get a process of their own.
    target: String,
    /// The folder to mount it on.
    folder: PathBuf,
    /// Options, with commas between them: ro, noatime, nosuid, nodev, noexec, allow_other, and their opposites; tf=20, tt=5s,
    /// buffer=64M, threads=4 and noloop as the long options; norecovery with ro; journal=, preset=, without=, discard and noclean.
    /// What mount(8) alone knows is passed over.
    ///
    /// journal=ordered is the default. journal=writeback may leave blocks of files that were not synced unreadable after a crash,
    /// and saves a flush; journal=data journals all that is synced; journal=none makes checkpoints instead, for measurements.
    ///
    /// discard tells the array of stripes that became free. noclean leaves half-empty stripes as they are. preset=paper keeps to
    /// the rules of the RAFS paper. without=layout+buffer+flush+allocation switches techniques of the paper off.
    ///
    /// remount changes tf and tt, and for root nosuid, nodev, noexec and noatime, of what is mounted on the folder. As root, other users may come in, and set-user-ID programs
    /// and device files have effect, as with mount(8); else not.
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Stay in the foreground until it is unmounted. SIGTERM and ^C unmount it; a second one detaches it, if it is in use.
    #[arg(long)]
    foreground: bool,
    /// Memory for what is written and not yet written out.
    #[arg(long, default_value = "64M", value_parser = parse_size)]
    buffer: u64,
    /// Write out once less of the buffer than this is free, in percent; 20, if left out.
    #[arg(long, value_name = "PERCENT", value_parser = within(0..=FREE_PERCENT_MAX))]
    tf: Option<u8>,
    /// Write out what has waited for longer than this; names and attributes become durable as often. 5s, if left out.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    tt: Option<Duration>,
    /// Worker threads; as many as there are cores, if left out. Not of an array.
    #[arg(long, value_parser = within(1..=THREADS_MAX))]
    threads: Option<usize>,
    /// Put no loop device under the mount: then sync(2) does not reach the file system.
    #[arg(long)]
    no_loop: bool,
    /// mount(8) has called. An array that is mounted on the folder already is no failure: `mount --all` cannot tell that it is.
    #[arg(long, hide = true)]
    may_be_mounted: bool,
}

pub(crate) fn mount(args: &MountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let words = Words::parse(&args.options)?;
    let folder = args.folder.display();
    if words.is_remount {
        return remount(args, &words);
    }
    if let Some(mounted) = mounted_there(args) {
        tell(&mounted, json)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A dead mount of ours cannot be looked into, so it is cleared first.
    if stripewise_mount::fuse::clear_dead_mount(&args.folder)? {
        note!("stripewise: {}: a mount whose server had died was cleared", printable(&folder.to_string()));
    }
    let point = fs::canonicalize(&args.folder).with_context(|| folder.to_string())?;
    if !point.is_dir() {
        bail!("{folder}: is no folder");
    }
    let choice = choice(args, &words, point)?;
    match target_of(&args.target)? {
        Target::Array(name) => in_daemon(args, &name, choice, json)?,
        Target::Path(target) => {
            let cores = || thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
            let threads = words.threads.or(args.threads).unwrap_or_else(cores);
            let spec = MountSpec { target, choice, threads };
            if args.foreground {
                mounted::serve(&spec, |mounted| tell(mounted, json))?;
            } else {
                tell(&mounted::start(&spec)?, json)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The array as it is mounted on the folder already, where that is no failure. What cannot be looked at fails later.
fn mounted_there(args: &MountArgs) -> Option<MountedStatus> {
    let Ok(Target::Array(name)) = target_of(&args.target) else { return None };
    let point = args.may_be_mounted.then(|| fs::canonicalize(&args.folder).ok())??;
    client::status(&name).ok()?.mounted.filter(|mounted| mounted.point == point)
}

/// How it is mounted: options of `-o` come before others.
fn choice(args: &MountArgs, words: &Words, point: PathBuf) -> anyhow::Result<MountChoice> {
    let is_root = rustix::process::geteuid().is_root();
    let age = words.tt.or(args.tt).unwrap_or(AGE);
    Ok(MountChoice {
        point,
        read_only: words.read_only.unwrap_or(false),
        allow_other: words.allow_other.unwrap_or(is_root),
        nosuid: words.nosuid.unwrap_or(!is_root),
        nodev: words.nodev.unwrap_or(!is_root),
        noexec: words.noexec.unwrap_or(false),
        noatime: words.noatime.unwrap_or(true),
        buffer_bytes: words.buffer.unwrap_or(args.buffer),
        free_percent: words.tf.or(args.tf).unwrap_or(FREE_PERCENT),
        age_ms: u64::try_from(age.as_millis()).context("--tt")?,
        has_loop: !(args.no_loop || words.is_plain),
        journal: words.journal.clone(),
        preset: words.preset.clone(),
        without: words.without.clone(),
        discards: words.discards,
        cleans: words.cleans,
        no_recovery: words.has_no_recovery,
    })
}

/// Has the array's daemon mount it, and stays for as long as that is wanted.
fn in_daemon(args: &MountArgs, name: &str, choice: MountChoice, json: bool) -> anyhow::Result<()> {
    ensure!(
        args.threads.is_none(),
        "{name}: the array's daemon serves the mount, with its own threads; leave out --threads"
    );
    check_namespace(name, client::status(name)?.pid)?;
    let request = Request::Mount { choice };
    client::check_knows(name, &request)?;
    let mut attended = Attended::new(name)?;
    let mounted = match worked_for(&mut attended, &request, "mount")? {
        Reply::Mounted(mounted) => mounted,
        other => bail!("{name}: unexpected answer {other:?}"),
    };
    tell(&mounted, json)?;
    if args.foreground {
        io::stdout().flush()?;
        stay(&mut attended, &mounted.point)?;
    }
    Ok(())
}

/// Refuses a mount that would not be seen here.
fn check_namespace(name: &str, pid: u32) -> anyhow::Result<()> {
    let of_process = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    if let (Ok(own), Ok(of_daemon)) = (of_process("self"), of_process(&pid.to_string()))
        && own != of_daemon
    {
        bail!(
            "{name}: its daemon (process {pid}) is in another mount namespace, so that its mounts are not seen here; mount it \
             from there: `nsenter --target {pid} --mount stripewise mount ...`"
        );
    }
    Ok(())
}

/// Changes what can be changed of a mount.
fn remount(args: &MountArgs, words: &Words) -> anyhow::Result<ExitCode> {
    let folder = printable(&args.folder.display().to_string());
    if report_of(&args.folder)?.is_none() {
        bail!("{folder}: no RAFS file system is mounted there; `stripewise df` lists those that are");
    }
    let is_read_only = rustix::fs::statvfs(&args.folder)?.f_flag.contains(StatVfsMountFlags::RDONLY);
    ensure!(
        words.read_only.is_none_or(|wanted| wanted == is_read_only),
        "{folder}: it is mounted {}, which cannot be changed; unmount it, and mount it again",
        if is_read_only { "read-only" } else { "for writing" }
    );
    if words.has_fixed() {
        note!(
            "stripewise: {folder}: all but tf, tt, nosuid, nodev, noexec and noatime stays as it is; to change it, unmount it, and \
             mount it again"
        );
    }
    change_flags(args, words)?;
    let age = words.tt.or(args.tt);
    let change = PaceChange {
        free_percent: words.tf.or(args.tf),
        age_ms: age.map(|age| u64::try_from(age.as_millis())).transpose().context("--tt")?,
    };
    let value = serde_json::to_vec(&change)?;
    rustix::fs::setxattr(&args.folder, ATTRIBUTE, &value, XattrFlags::empty()).map_err(
        |error| match error {
            Errno::PERM => anyhow!("{folder}: only root, and the user who mounted it, can change it"),
            Errno::ROFS => anyhow!("{folder}: nothing is written out of a read-only mount"),
            other => anyhow!("{folder}: {other}"),
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Changes what the kernel alone looks at. mount(8) gives all that is to be so, and leaves out what is not.
fn change_flags(args: &MountArgs, words: &Words) -> anyhow::Result<()> {
    type Mount = MountFlags;
    type Has = StatVfsMountFlags;
    let folder = &args.folder;
    let has = rustix::fs::statvfs(folder)?.f_flag;
    let left_out = args.may_be_mounted.then_some(false);
    let mut flags = Mount::BIND;
    let mut is_changed = false;
    for (wanted, is_set, flag) in [
        (words.nosuid.or(left_out), Has::NOSUID, Mount::NOSUID),
        (words.nodev.or(left_out), Has::NODEV, Mount::NODEV),
        (words.noexec.or(left_out), Has::NOEXEC, Mount::NOEXEC),
        (words.noatime, Has::NOATIME, Mount::NOATIME),
        (None, Has::RDONLY, Mount::RDONLY),
    ] {
        let wanted = wanted.unwrap_or(has.contains(is_set));
        is_changed |= wanted != has.contains(is_set);
        flags.set(flag, wanted);
    }
    if !is_changed {
        return Ok(());
    }
    // Without a word of it, the kernel would keep noatime.
    flags.set(Mount::RELATIME, !flags.contains(Mount::NOATIME));
    mount_remount(folder, flags, c"").map_err(|error| match error {
        Errno::PERM => {
            anyhow!("{}: only root can change nosuid, nodev, noexec and noatime", folder.display())
        }
        other => anyhow!("{}: {other}", folder.display()),
    })
}

fn tell(mounted: &MountedStatus, json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(mounted);
    }
    let MountedStatus { target, point, .. } = mounted;
    say!("{} is mounted on {}", printable(target), printable(&point.display().to_string()));
    if let Some(warning) = &mounted.warning {
        note!("stripewise: {}: {}", printable(target), printable(warning));
    }
    if !mounted.is_block {
        note!(
            "stripewise: it has no loop device, so sync(2) does not reach it: what is written is durable after an fsync, after \
             the time of --tt, and after `stripewise umount`"
        );
    }
    Ok(())
}
