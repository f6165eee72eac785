//! Choices, each by its word: the same in a line of the socket, on the command line, and in what is printed.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A word that is none of a choice's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is none of them")]
pub struct UnknownWord(pub String);

/// Gives a choice its words.
macro_rules! words {
    ($choice:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $choice {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its word.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl FromStr for $choice {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                let found = Self::ALL.iter().copied().find(|choice| choice.name() == word);
                found.ok_or_else(|| UnknownWord(word.to_owned()))
            }
        }
    };
}

/// What kind of device a member can be said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassChoice {
    /// It rotates.
    Hdd,
    /// Flash.
    Ssd,
}

words!(ClassChoice { Hdd = "hdd", Ssd = "ssd" });

/// Whether what an array is reached through takes discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiscardChoice {
    /// If all members free what is discarded.
    #[default]
    Auto,
    /// In any case: members that do not unmap are written zeroes.
    On,
    /// Never.
    Off,
}

words!(DiscardChoice { Auto = "auto", On = "on", Off = "off" });

/// In which order the blocks of a file system's stripe are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderChoice {
    /// Row by row: for flash.
    Rows,
    /// Column by column, so that a small file stays on one disk: for disks that rotate.
    Columns,
}

words!(OrderChoice { Rows = "rows", Columns = "columns" });

/// How a block device is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachChoice {
    /// The kernel's NBD client.
    Nbd,
    /// A FUSE file and a loop device.
    Fuse,
}

words!(AttachChoice { Nbd = "nbd", Fuse = "fuse" });

/// What to do with scrubs and other background jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubAction {
    /// Read all and count what disagrees.
    Start,
    /// Read all and mend what disagrees: data is taken for right.
    Repair,
    /// Pause the job under way, whatever it is; fails if there is none.
    Pause,
    /// Let it go on; fails if there is none.
    Resume,
    /// End it; fails if there is none.
    Stop,
    /// Do nothing: the array's status tells of scrubs.
    Status,
}

words!(ScrubAction {
    Start = "start",
    Repair = "repair",
    Pause = "pause",
    Resume = "resume",
    Stop = "stop",
    Status = "status",
});

/// A cycle of write selection that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceCycle {
    /// Read-modify-write.
    Rmw,
    /// Reconstruct-write.
    Rcw,
    /// All data of the row is new.
    Full,
}

words!(TraceCycle { Rmw = "rmw", Rcw = "rcw", Full = "full" });

/// What a load does, in fio's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Reads, one after another.
    Read,
    /// Writes, one after another.
    Write,
    /// Reads anywhere.
    RandRead,
    /// Writes anywhere.
    RandWrite,
    /// Reads and writes, one after another.
    Rw,
    /// Reads and writes anywhere.
    RandRw,
}

words!(Pattern {
    Read = "read",
    Write = "write",
    RandRead = "randread",
    RandWrite = "randwrite",
    Rw = "rw",
    RandRw = "randrw",
});

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn check<T: Serialize + FromStr<Err = UnknownWord> + Debug + PartialEq + Copy>(
        all: &[T],
        name: fn(T) -> &'static str,
    ) {
        for choice in all {
            assert_eq!(serde_json::to_value(choice).unwrap(), name(*choice), "the line has the same word");
            assert_eq!(name(*choice).parse(), Ok(*choice));
        }
        assert_eq!("nonsense".parse::<T>(), Err(UnknownWord("nonsense".to_owned())));
    }

    #[test]
    fn words_are_those_of_the_lines() {
        check(ClassChoice::ALL, ClassChoice::name);
        check(DiscardChoice::ALL, DiscardChoice::name);
        check(OrderChoice::ALL, OrderChoice::name);
        check(AttachChoice::ALL, AttachChoice::name);
        check(ScrubAction::ALL, ScrubAction::name);
        check(TraceCycle::ALL, TraceCycle::name);
        check(Pattern::ALL, Pattern::name);
    }
}
