//! The `stripewise` binary: commands, and the array daemon that they talk to.
//!
//! Exit codes: 0 done, 1 failed or cut short, 2 wrong usage; `detail --test` has its own (0 ok, 1 degraded, 2
//! unusable, 4 cannot tell), `fsck` has those of fsck(8), what mount(8) calls has its codes, and `lab run` ends with 130 when it is interrupted. Data goes to standard
//! output, everything else to standard error.

mod args;
mod bench;
mod choices;
mod client;
mod commands;
mod daemon;
mod dates;
mod demo;
mod dispatch;
mod errors;
mod explain;
mod given;
mod ground;
mod habits;
mod hints;
mod holders;
mod interrupt;
mod load;
mod logging;
mod models;
mod mounted;
mod numbers;
mod output;
mod pages;
mod policies;
mod printable;
mod probe;
mod progress;
mod rafs;
mod reports;
mod room;
mod rundir;
mod said;
mod sigpipe;
mod sizes;
mod slow;
mod times;
mod words;

use std::{io, process::ExitCode};

use commands::rafs::{Called, HELPER_FAILED, called};
use said::note;

/// What is logged unless `STRIPEWISE_LOG` says otherwise. A daemon's log is read when something went wrong;
/// the demo tells its own story.
fn log_level(command: &args::Command) -> &'static str {
    match command {
        args::Command::Daemon { .. } | args::Command::MountDaemon { .. } => "info",
        args::Command::Demo(_) | args::Command::Bench(_) => "error",
        _ => "warn",
    }
}

/// Whether a command ends when nobody reads its output any more, as in `stripewise status | head -1`. A
/// daemon goes on, and the demo and its worker must take down what was set up.
fn ends_with_its_reader(command: &args::Command) -> bool {
    use args::Command::{Daemon, Demo, DemoWorker, Mount, MountDaemon};
    !matches!(command, Daemon { .. } | Demo(_) | DemoWorker { .. } | Mount(_) | MountDaemon { .. })
}

fn main() -> ExitCode {
    let (words, failed) = match called(std::env::args_os()) {
        Called::Plain => (std::env::args_os().collect(), ExitCode::FAILURE),
        Called::Helper(words) => (words, HELPER_FAILED.into()),
        Called::Pretends => return ExitCode::SUCCESS,
    };
    let cli = args::Cli::read(words);
    // A daemon has its caller's terminal only until it has a log.
    let is_daemon = matches!(cli.command, args::Command::Daemon { .. } | args::Command::MountDaemon { .. });
    let colors =
        !is_daemon && std::env::var_os("NO_COLOR").is_none() && rustix::termios::isatty(io::stderr());
    logging::begin(log_level(&cli.command), colors);
    if ends_with_its_reader(&cli.command)
        && let Err(error) = sigpipe::end_on_it()
    {
        tracing::warn!(%error, "cannot watch for SIGPIPE");
    }
    let ended = dispatch::run(cli).and_then(|code| said::is_complete().map(|()| code));
    ended.unwrap_or_else(|error| {
        note!("stripewise: {}", errors::printable_line(&error));
        failed
    })
}
