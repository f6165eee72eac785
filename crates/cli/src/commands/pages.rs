//! Man pages and shell completions, made from the command line's own description.

use std::{path::Path, process::ExitCode};

use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::args::Cli;

pub(super) fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    clap_complete::generate(shell, &mut Cli::command(), "stripewise", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = Cli::command().disable_help_subcommand(true);
    // Sets the names under which the commands are called.
    command.build();
    clap_mangen::generate_to(with_usage(command), folder).with_context(|| folder.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The usage line as `--help` has it, for the synopsis too: that of clap_mangen leaves out what may be given more than
/// once.
fn with_usage(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.override_usage(usage).mut_subcommands(with_usage)
}
