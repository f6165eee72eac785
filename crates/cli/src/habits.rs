//! Words that users of mdadm and zpool bring along, and that mean nothing here: they are told what does.

use clap::{
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Commands, each with what there is in its place. A similar name would be suggested otherwise, such as `stop` for `top`.
const COMMANDS: [(&str, &str); 18] = [
    ("top", "`watch stripewise status` shows arrays as they go; `stripewise detail NAME` has all counters"),
    ("iostat", "`stripewise detail NAME` has all counters, and `--json` has them for programs"),
    ("events", "what happens to an array is in its log, /run/stripewise/NAME.log"),
    (
        "monitor",
        "`stripewise detail --test NAME` tells programs by its exit code how an array is; its log has the events",
    ),
    ("grow", "arrays cannot be grown yet"),
    (
        "destroy",
        "`stripewise stop NAME`, then `wipefs --all DEVICE` for each member: everything on them is lost",
    ),
    ("zero-superblock", "`wipefs --all DEVICE` takes away what is on a device"),
    (
        "list",
        "`stripewise status` lists the arrays that run, `stripewise examine DEVICE` what is on a device",
    ),
    ("check", "`stripewise scrub NAME start` checks redundancy"),
    ("repair", "`stripewise scrub NAME repair` mends redundancy"),
    ("resync", "it begins by itself; `stripewise scrub NAME repair` goes over all rows"),
    ("rebuild", "`stripewise add NAME DEVICE` begins it, and `stripewise wait NAME` waits for it"),
    ("import", "`stripewise assemble NAME DEVICE...`"),
    (
        "export",
        "`stripewise stop NAME` lets go of the members; `stripewise serve` and `attach` give the array to others",
    ),
    ("offline", "`stripewise fail NAME DEVICE`"),
    ("online", "`stripewise add NAME DEVICE`"),
    ("umount", "`umount` takes its file system away, and `stripewise detach NAME` its block device"),
    ("mount", "`stripewise attach NAME` makes a block device of an array, which `mount` takes"),
];

/// Options, each with what there is in its place.
const OPTIONS: [(&str, &str); 8] = [
    (
        "--scan",
        "devices are not searched for: name them, in any order; `stripewise examine DEVICE...` tells whose they are, and \
         the unit contrib/stripewise@.service assembles an array at boot",
    ),
    ("--detail", "`stripewise detail NAME`"),
    ("--examine", "`stripewise examine DEVICE`"),
    ("--auto", "leave it out: there is one kind of block device"),
    ("--homehost", "leave it out: the name that is kept is the machine's and the array's"),
    ("--write-journal", "arrays have no journal yet"),
    ("--re-add", "`stripewise add` fills a device anew"),
    ("--backup-file", "arrays cannot be grown yet"),
];

/// Says what there is in the place of a word that is not known.
pub(crate) fn explained(mut error: Error) -> Error {
    let (given, table): (_, &[_]) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, &COMMANDS),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, &OPTIONS),
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(given) else { return error };
    let known = |(known, _): &&(&str, &str)| word.split(['=', ' ']).next() == Some(known);
    if let Some((_, instead)) = table.iter().find(known) {
        let instead = StyledStr::from((*instead).to_owned());
        for suggestion in
            [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedCommand]
        {
            error.remove(suggestion);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![instead]));
    }
    error
}
