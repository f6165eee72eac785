//! Errors as people read them.

use crate::{hints, printable::printable_lines};

/// An error and its causes on one line. Many errors include their cause, so a cause that was named already is
/// left out.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text += ": ";
        }
        text += &cause;
    }
    match hints::hint(error) {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

/// The same, made safe for a terminal: names that others chose cannot do harm there.
pub(crate) fn printable_line(error: &anyhow::Error) -> String {
    printable_lines(&line(error))
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::anyhow;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("/dev/x: {0}")]
    struct Telling(#[source] io::Error);

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::other("broken");
        assert_eq!(line(&anyhow!(Telling(cause())).context("opening")), "opening: /dev/x: broken");
        assert_eq!(line(&anyhow!(cause()).context("opening")), "opening: broken");
        assert_eq!(
            line(&anyhow!(cause()).context("not usable (broken): mend it")),
            "not usable (broken): mend it"
        );
    }
}
