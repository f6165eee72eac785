//! Makes names and paths that others chose safe for a terminal and a log. What a superblock, a file system or
//! a process calls itself may hold escape codes and line ends. It must neither move the cursor nor forge a
//! line.

use std::fmt::Write;

use stripewise_wire::{ArrayStatus, MemberStatus};

/// The text with escapes for control characters, and for characters that change the direction of writing or
/// break lines.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            c if is_harmless(c) => out.push(c),
            c => {
                let _ = write!(out, "{}", c.escape_default());
            }
        }
    }
    out
}

/// As [`printable`], for a text of several lines: its line ends stay.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// As [`printable`], for a text with a list. The items begin on indented lines of their own. Nothing else can
/// begin a line.
pub(crate) fn printable_list(text: &str) -> String {
    const ITEM: &str = "\n  ";
    text.split(ITEM).map(printable).collect::<Vec<_>>().join(ITEM)
}

/// The same for an array's status: names and paths that others chose cannot do harm where it is shown.
pub(crate) fn printable_status(status: &ArrayStatus) -> ArrayStatus {
    let all = |texts: &[String]| texts.iter().map(|text| printable(text)).collect();
    let of_member =
        |member: &MemberStatus| MemberStatus { device: printable(&member.device), ..member.clone() };
    ArrayStatus {
        name: printable(&status.name),
        full_name: printable(&status.full_name),
        state: printable(&status.state),
        selection: printable(&status.selection),
        members: status.members.iter().map(of_member).collect(),
        left_out: all(&status.left_out),
        forced: all(&status.forced),
        attached: status.attached.as_deref().map(printable),
        exports: all(&status.exports),
        advice: all(&status.advice),
        warnings: all(&status.warnings),
        ..status.clone()
    }
}

fn is_harmless(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(character, '\u{2028}' | '\u{2029}');
    !(character.is_control() || turns || breaks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_forges_a_line() {
        assert_eq!(printable("a\x1b[2Jb\nc\r\t\u{9b}\u{202e}"), r"a\u{1b}[2Jb\nc\r\t\u{9b}\u{202e}");
        assert_eq!(printable("/dev/disk by-id/Müller 日本"), "/dev/disk by-id/Müller 日本");
        assert_eq!(printable_lines("a\nb\x07"), "a\nb\\u{7}");
        assert_eq!(printable_list("a:\n  b\nforged"), "a:\n  b\\nforged");
    }
}
