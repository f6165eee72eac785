//! Man pages and shell completions, made from the command line's own description.

use std::{path::Path, process::ExitCode};

use anyhow::Context;
use clap::CommandFactory;

use crate::args::Cli;

pub(super) fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    clap_complete::generate(shell, &mut Cli::command(), "stripewise", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(|| folder.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}
