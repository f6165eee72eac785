//! Words that users of mdadm and zpool know and that mean nothing here, each with what to use instead.

use clap::{
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Commands, each with what to use instead. Without this list, clap would suggest a similar name, such as
/// `stop` for `top`.
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

/// Options, grouped by meaning, with what to use instead.
const OPTIONS: [(&str, &str); 18] = [
    (
        "--scan",
        "devices are not searched for: name them, in any order; `stripewise examine DEVICE...` tells whose they are, and \
         the unit contrib/stripewise@.service assembles an array at boot",
    ),
    ("--create -C", "`stripewise create NAME --level LEVEL DEVICE...`"),
    ("--assemble -A", "`stripewise assemble NAME DEVICE...`"),
    ("--stop -S", "`stripewise stop NAME`"),
    ("--detail -D", "`stripewise detail NAME`"),
    ("--examine -E --query -Q", "`stripewise examine DEVICE`"),
    ("--add -a", "`stripewise add NAME DEVICE`"),
    ("--fail -f --set-faulty", "`stripewise fail NAME DEVICE`"),
    ("--remove -r", "`stripewise remove NAME DEVICE`"),
    ("--replace", "`stripewise replace NAME DEVICE --with DEVICE`"),
    ("--manage", "leave it out: `stripewise add`, `fail`, `remove` and `replace` each name the array"),
    (
        "--monitor -F --follow",
        "`stripewise detail --test NAME` tells programs by its exit code how an array is",
    ),
    ("--zero-superblock", "`wipefs --all DEVICE` takes away what is on a device"),
    ("--auto", "leave it out: there is one kind of block device"),
    ("--homehost", "leave it out: the name that is kept is the machine's and the array's"),
    ("--write-journal", "arrays have no journal yet"),
    ("--re-add", "`stripewise add` fills a device anew"),
    ("--grow -G --backup-file", "arrays cannot be grown yet"),
];

/// Adds what to use instead to the error about an unknown word.
pub(crate) fn explained(mut error: Error) -> Error {
    let (given, table): (_, &[_]) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, &COMMANDS),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, &OPTIONS),
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(given) else { return error };
    // A letter means something else after a command.
    let is_letter = |word: &str| word.starts_with('-') && !word.starts_with("--");
    let comes_first = std::env::args().nth(1).is_some_and(|first| first == *word);
    if is_letter(word) && !comes_first {
        return error;
    }
    let given = word.split(['=', ' ']).next();
    let known = |(words, _): &&(&str, &str)| words.split(' ').any(|known| given == Some(known));
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
