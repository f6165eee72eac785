//! Man pages and shell completions, made from the command line's own description.

use std::{
    fs::{self, File},
    path::Path,
    process::ExitCode,
};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, roman};

use crate::{args::Cli, said};

/// A section of the main page: terms, each with its text.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

/// What fits into the help of no single command.
const SECTIONS: [Section; 4] = [
    (
        "EXAMPLES",
        &[
            (
                "stripewise create tank --level 5 /dev/sdb /dev/sdc /dev/sdd",
                "Make an array and start it. Then `stripewise attach tank` makes /dev/stripewise/tank of it.",
            ),
            (
                "stripewise assemble tank /dev/sdb /dev/sdc /dev/sdd",
                "Start it again from its members, in any order.",
            ),
            (
                "stripewise replace tank /dev/sdb --with /dev/sde --wait",
                "Put another disk in, without ever being degraded; then `stripewise remove tank /dev/sdb`.",
            ),
            (
                "stripewise explain tank --write 0:128K",
                "Show how such a write would be carried out; `stripewise trace tank` shows those that are.",
            ),
            (
                "stripewise bench run tank --rw randread --bs 4K --iodepth 8 --runtime 10",
                "Measure it, with percentiles.",
            ),
            ("stripewise scrub tank start --wait", "Check redundancy; exits with 1 if anything disagreed."),
            ("stripewise stop tank", "Leave it clean."),
            (
                "stripewise mkfs /dev/stripewise/tank; stripewise mount /dev/stripewise/tank /mnt",
                "Make a RAFS file system on an array that is attached, and mount it; `stripewise umount /mnt` writes all out.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "Done."),
            (
                "1",
                "Failed; standard error says why. `scrub --wait` and `scrub status`: something disagreed. `bench run`: a \
                 request failed, or it was interrupted; what was done until then is printed.",
            ),
            ("2", "The words given mean nothing; nothing was touched."),
            (
                "fsck",
                "As of fsck(8), added up: 0: no damage; 1: mended; 4: damage is left; 8: it could not be looked at, or mended; 16: the \
                 words given mean nothing.",
            ),
            ("detail --test", "0: all is well; 1: degraded; 2: unusable; 4: that cannot be told."),
        ],
    ),
    (
        "FILES",
        &[
            (
                "/run/stripewise",
                "For each array NAME: NAME.sock, on which its daemon takes commands; NAME.log, its log, and NAME.log.old, what \
                 was logged before that was begun anew; NAME.lock, which it \
                 holds; NAME.remains, block devices that outlived it. Of other users than root: \
                 $XDG_RUNTIME_DIR/stripewise, or else a folder in the temporary directory.",
            ),
            (
                "/run/stripewise/mount-FOLDER.log",
                "The log of what serves the mount on FOLDER, whose slashes are written as dashes; there if something was logged.",
            ),
            ("/dev/stripewise/NAME", "Leads to the block device of an attached array."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            (
                "STRIPEWISE_RUN_DIR",
                "Takes the place of /run/stripewise, and its folder dev that of /dev/stripewise. Commands see the arrays of \
                 one such folder.",
            ),
            (
                "STRIPEWISE_LOG",
                "What is logged to standard error, or to its log by a daemon: error, warn, info, debug or trace, also for \
                 parts of the program, such as stripewise_engine=debug. Daemons inherit it; they log info without it, \
                 other commands warn.",
            ),
            ("NO_COLOR", "If set, what is logged has no colours."),
        ],
    ),
];

pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    // Not directly to standard output: `generate` panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(Cli::command()), "stripewise", &mut script);
    said::print_text(&String::from_utf8(script).context("a completion script is text")?)?;
    Ok(ExitCode::SUCCESS)
}

/// A command without the subcommands that only this program calls: completions would offer them.
fn without_hidden(command: Command) -> Command {
    let is_shown = |sub: &&Command| !sub.is_hide_set();
    let shown: Vec<_> = command.get_subcommands().filter(is_shown).cloned().map(without_hidden).collect();
    // clap adds subcommands to a command, but cannot remove them.
    let mut bare = Command::new(command.get_name().to_owned()).args(command.get_arguments().cloned());
    if let Some(about) = command.get_about() {
        bare = bare.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        bare = bare.version(version.to_owned());
    }
    bare.subcommands(shown)
}

pub(crate) fn man(folder: &Path) -> anyhow::Result<ExitCode> {
    let place = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(place)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    // Sets the names under which the commands are called.
    command.build();
    clap_mangen::generate_to(with_usage(command), folder).with_context(place)?;
    let mut main = File::options().append(true).open(folder.join("stripewise.1")).with_context(place)?;
    sections().to_writer(&mut main).with_context(place)?;
    Ok(ExitCode::SUCCESS)
}

/// Uses the usage line of `--help` for the synopsis too: the one of clap_mangen leaves out what may be given
/// more than once.
fn with_usage(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.override_usage(usage).mut_subcommands(with_usage)
}

fn sections() -> Roff {
    let mut page = Roff::new();
    for (title, terms) in SECTIONS {
        page.control("SH", [title]);
        for (term, text) in terms {
            page.control("TP", []);
            page.text([bold(*term)]);
            page.text([roman(*text)]);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_offer_what_people_call() {
        let offered = without_hidden(Cli::command());
        let names = |command: &Command| {
            command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>()
        };
        let (all, shown) = (names(&Cli::command()), names(&offered));
        assert!(shown.contains(&"create".to_owned()) && offered.get_version().is_some());
        let hidden: Vec<_> = all.into_iter().filter(|name| !shown.contains(name)).collect();
        assert_eq!(hidden, ["daemon", "mount-daemon", "demo-worker"]);
    }
}
