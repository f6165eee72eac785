//! `stripewise mount`.

use std::{num::NonZero, path::PathBuf, process::ExitCode, thread, time::Duration};

use anyhow::{Context, bail};
use clap::Args;

use crate::{
    given::absolute_path,
    mounted::{self, KernelOptions, MountSpec, Mounted},
    numbers::{THREADS_MAX, within},
    printable::printable,
    said::{note, print_json, say},
    sizes::parse_size,
    times::parse_time,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct MountArgs {
    /// The block device or file that the file system is on.
    target: String,
    /// The folder to mount it on.
    folder: PathBuf,
    /// Options, with commas between them: ro, noatime, nosuid, nodev, noexec, allow_other, and their opposites.
    ///
    /// As root, other users may come in, and set-user-ID programs and device files have effect, as with mount(8); else
    /// not.
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Stay in the foreground until it is unmounted.
    #[arg(long)]
    foreground: bool,
    /// Memory for what is written and not yet written out.
    #[arg(long, default_value = "64M", value_parser = parse_size)]
    buffer: u64,
    /// Write out once less of the buffer than this is free, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = within(0..=90_u8))]
    tf: u8,
    /// Write out what has waited for longer than this; names and attributes become durable as often.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    tt: Duration,
    /// Worker threads; as many as there are cores, if left out.
    #[arg(long, value_parser = within(1..=THREADS_MAX))]
    threads: Option<usize>,
    /// Put no loop device under the mount: then sync(2) does not reach the file system.
    #[arg(long)]
    no_loop: bool,
}

pub(crate) fn mount(args: &MountArgs, json: bool) -> anyhow::Result<ExitCode> {
    let folder = args.folder.display();
    // A dead mount of ours cannot be looked into, so it is cleared first.
    if stripewise_mount::fuse::clear_dead_mount(&args.folder)? {
        note!("stripewise: {}: a mount whose server had died was cleared", printable(&folder.to_string()));
    }
    let point = std::fs::canonicalize(&args.folder).with_context(|| folder.to_string())?;
    if !point.is_dir() {
        bail!("{folder}: is no folder");
    }
    let (kernel, is_read_only) = kernel_options(&args.options)?;
    let cores = || thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let spec = MountSpec {
        target: absolute_path(&args.target)?,
        point,
        kernel,
        is_read_only,
        buffer_bytes: args.buffer,
        free_percent: args.tf,
        age: args.tt,
        threads: args.threads.unwrap_or_else(cores),
        has_loop: !args.no_loop,
    };
    if args.foreground {
        mounted::serve(&spec, |mounted| tell(mounted, json))?;
        return Ok(ExitCode::SUCCESS);
    }
    tell(&mounted::start(&spec)?, json)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(mounted: &Mounted, json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(mounted);
    }
    let Mounted { target, point, .. } = mounted;
    say!("{} is mounted on {}", printable(target), printable(&point.display().to_string()));
    if !mounted.is_block {
        note!(
            "stripewise: it has no loop device, so sync(2) does not reach it: what is written is durable after an fsync, after \
             the time of --tt, and after `stripewise umount`"
        );
    }
    Ok(())
}

/// What the words of `-o` say. The second value: nothing may be changed.
fn kernel_options(words: &[String]) -> anyhow::Result<(KernelOptions, bool)> {
    let is_root = rustix::process::geteuid().is_root();
    let mut options = KernelOptions {
        allow_other: is_root,
        nosuid: !is_root,
        nodev: !is_root,
        noexec: false,
        noatime: true,
    };
    let mut is_read_only = false;
    for word in words {
        match word.as_str() {
            "ro" => is_read_only = true,
            "rw" => is_read_only = false,
            "allow_other" => options.allow_other = true,
            "noallow_other" => options.allow_other = false,
            "nosuid" => options.nosuid = true,
            "suid" => options.nosuid = false,
            "nodev" => options.nodev = true,
            "dev" => options.nodev = false,
            "noexec" => options.noexec = true,
            "exec" => options.noexec = false,
            "noatime" => options.noatime = true,
            "atime" | "relatime" => options.noatime = false,
            "" | "defaults" | "default_permissions" => {}
            other => bail!(
                "-o {other}: no such option; known are ro, rw, noatime, nosuid, suid, nodev, dev, noexec, exec, allow_other and \
                 noallow_other"
            ),
        }
    }
    Ok((options, is_read_only))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_and_the_last_one_counts() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let (options, is_read_only) = kernel_options(&words("ro,nodev,dev,noexec,,defaults")).unwrap();
        assert!(is_read_only && options.noexec && !options.nodev);
        let error = kernel_options(&words("rw,user_xattr")).unwrap_err().to_string();
        assert!(error.contains("user_xattr") && error.contains("known are"), "{error}");
    }
}
