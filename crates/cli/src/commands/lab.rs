//! `stripewise lab`: experiments on modelled disks.

use std::process::ExitCode;

use anyhow::Context;
use stripewise_lab::validate::{self, Effort};

use super::print_json;
use crate::{args::ValidateArgs, progress};

/// Runs the validation of the disk models and prints its checks. That a model differs from a published figure is a
/// finding, not a failure.
pub(super) fn validate(args: &ValidateArgs, json: bool) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.out {
        // Better now than after a minute's work.
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let bar = progress::points_bar();
    let report = validate::run(effort, &|experiment, done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(experiment.to_owned());
    });
    bar.finish_and_clear();
    if json {
        print_json(&report)?;
    } else {
        print!("{report}");
    }
    if let Some(folder) = &args.out {
        report.write_to(folder).with_context(|| folder.display().to_string())?;
        eprintln!("{}", folder.join("report.html").display());
    }
    Ok(ExitCode::SUCCESS)
}
