//! Figures of a benchmark, as it prints them.

use std::{fmt::Display, process::ExitCode};

use serde::Serialize;

use crate::said::{print_json, say};

/// Prints figures as they come, or all of them as JSON.
pub(super) fn figures<T: Serialize + Display>(
    json: bool,
    run: impl FnOnce(&mut dyn FnMut(&T)) -> anyhow::Result<Vec<T>>,
) -> anyhow::Result<ExitCode> {
    let all = run(&mut |figure| {
        if !json {
            say!("{figure}");
        }
    })?;
    if json {
        print_json(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}
