//! What commands say: data on standard output, all else on standard error. `println!` panics if its text
//! cannot be written, as on a full disk. A command that has done its work would then end like one that broke.

use std::{
    fmt,
    io::{self, Write},
    sync::OnceLock,
};

use anyhow::Context;
use serde::Serialize;

use crate::printable::printable;

/// The first error in writing to standard output.
static LOST: OnceLock<io::ErrorKind> = OnceLock::new();

/// Writes a line, or (with `part`) text, to standard output.
macro_rules! say {
    (part: $($text:tt)*) => { $crate::said::out(format_args!($($text)*)) };
    ($($text:tt)*) => { $crate::said::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes a line, or (with `part`) text, to standard error.
macro_rules! note {
    (part: $($text:tt)*) => { $crate::said::aside(format_args!($($text)*)) };
    ($($text:tt)*) => { $crate::said::aside(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) use {note, say};

/// Writes to standard output. [`is_complete`] reports at the end what could not be written.
pub(crate) fn out(text: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text) {
        LOST.get_or_init(|| error.kind());
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_text(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints a text. Does not use `print!`, which panics if nothing can be printed: programs go by the exit
/// code.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    io::stdout().write_all(text.as_bytes()).context("printing it")
}

/// Writes to standard error. If that fails, there is no other place to report it.
pub(crate) fn aside(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Prints notes for people, such as those that a daemon sends with its answer.
pub(crate) fn tell_notes(name: &str, notes: &[String]) {
    notes.iter().for_each(|note| note!("stripewise: {name}: {}", printable(note)));
}

/// Whether all of the output could be written; called once, at the end.
///
/// # Errors
/// Why some of it could not.
pub(crate) fn is_complete() -> anyhow::Result<()> {
    if let Err(error) = io::stdout().flush() {
        LOST.get_or_init(|| error.kind());
    }
    match LOST.get() {
        None => Ok(()),
        Some(kind) => anyhow::bail!(
            "the output could not be written in full ({kind}); the command itself has ended, so see with `stripewise status` \
             what it did"
        ),
    }
}
