//! `stripewise-sim`: tells stories of arrays from seeds, in search of one that ends badly.

mod ace;
#[cfg(feature = "mutants")]
mod ace_mutants;
mod args;
mod exhaust;
#[cfg(feature = "mutants")]
mod exhaust_mutants;
#[cfg(feature = "mutants")]
mod hunts;
#[cfg(feature = "mutants")]
mod mutants;
mod rafs;
mod replay;
mod run;
mod shrink;
mod stress;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;

fn main() -> ExitCode {
    // Panics of the engine are findings; they are reported with their story.
    std::panic::set_hook(Box::new(stripewise_sim::story::note_panic));
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Replay(args) => replay::replay(&args),
        #[cfg(feature = "mutants")]
        Command::Exhaust(args) if args.mutants.is_some() => exhaust_mutants::hunt_all(&args),
        Command::Exhaust(args) => exhaust::exhaust(&args),
        #[cfg(feature = "mutants")]
        Command::Ace(args) if args.mutants.is_some() => ace_mutants::hunt_all(&args),
        Command::Ace(args) => ace::ace(&args),
        Command::Rafs(args) => rafs::rafs(&args),
        Command::Stress(args) => stress::stress(&args),
        #[cfg(feature = "mutants")]
        Command::Mutants(args) => mutants::mutants(&args),
    };
    if result { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
