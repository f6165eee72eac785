//! The arguments of `stripewise explain`.

use std::num::IntErrorKind;

use clap::{Args, value_parser};
use stripewise::{
    geometry::MEMBERS_MAX,
    internals::plan::{
        passes::{MemberStrides, Strides},
        selection::Policy,
    },
};
use stripewise_wire::ClassChoice;

use crate::{
    choices::class_parser,
    numbers::within,
    policies::policy_parser,
    rundir::parse_name,
    sizes::parse_size,
    words::{parse_chunk, parse_level},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct ExplainArgs {
    /// A running array; without one, options say what it would be.
    #[arg(value_parser = parse_name)]
    pub(super) name: Option<String>,
    /// What is written: offset and length in the array, such as 0:128K.
    #[arg(long, value_name = "OFFSET:LENGTH", value_parser = parse_write, required_unless_present_any = ["cells", "stripe"])]
    pub(super) write: Option<WriteRange>,
    /// What a cache holds of a stripe and destages: its first rows, separated by slashes, with a letter for each data
    /// column: (D)irty, (P)artly dirty, (C)lean, (E)mpty, such as DEEE/ECED.
    #[arg(long, value_name = "ROW/ROW", conflicts_with = "write")]
    pub(super) cells: Option<String>,
    /// The stripe that is destaged; of a running array, with what its cache holds, if no cells are given.
    #[arg(long, conflicts_with = "write")]
    pub(super) stripe: Option<u64>,
    /// Fill gaps between a destage's reads if less than so many blocks lie from the start of one to that of the next, as
    /// `stripe+ct` does; if left out, as the running array does, or not at all.
    #[arg(long, value_name = "BLOCKS", value_parser = value_parser!(u16).range(1..=256), conflicts_with = "write")]
    pub(super) s_max_read: Option<u16>,
    /// The same between its writes.
    #[arg(long, value_name = "BLOCKS", value_parser = value_parser!(u16).range(1..=256), conflicts_with = "write")]
    pub(super) s_max_write: Option<u16>,
    /// RAID level; 5, if left out.
    #[arg(long, value_parser = parse_level, conflicts_with = "name")]
    pub(super) level: Option<i32>,
    /// Chunks of data and of redundancy in a stripe; if left out, 4+1 (level 0: 4+0, level 1: 1+1, level 6:
    /// 4+2).
    #[arg(long, value_name = "DATA+PARITY", value_parser = parse_shape, conflicts_with = "name")]
    pub(super) geometry: Option<Shape>,
    /// Chunk size; 64K, if left out.
    #[arg(long, value_parser = parse_chunk, conflicts_with = "name")]
    pub(super) chunk: Option<u32>,
    /// How partly written rows are written; if left out, the array's own, or what a new array would have.
    #[arg(long, value_parser = policy_parser())]
    pub(super) policy: Option<&'static Policy>,
    /// Columns of the stripe that have no member, separated by commas: data columns count from 0, then
    /// parity.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = within(0..=MEMBERS_MAX - 1))]
    pub(super) missing: Vec<usize>,
    /// What the disks are, for `--policy cost`: hdd or ssd for each, separated by commas, as typical ones of
    /// their kind.
    #[arg(long, value_parser = class_parser(), value_delimiter = ',', conflicts_with = "name")]
    pub(super) classes: Vec<ClassChoice>,
}

/// Data and redundant chunks of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) data: usize,
    pub(super) redundant: usize,
}

/// A range of bytes of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteRange {
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
}

fn parse_write(text: &str) -> Result<WriteRange, String> {
    let (offset, len) =
        text.split_once(':').ok_or_else(|| format!("'{text}' is not OFFSET:LENGTH, such as 0:128K"))?;
    let (offset_bytes, len_bytes) = (parse_size(offset)?, parse_size(len)?);
    if len_bytes == 0 {
        return Err("nothing is written".to_owned());
    }
    offset_bytes
        .checked_add(len_bytes)
        .ok_or_else(|| format!("'{text}' is too large: it ends beyond 16384P"))?;
    Ok(WriteRange { offset_bytes, len_bytes })
}

impl ExplainArgs {
    /// The gaps that are filled on a member, by options and what is otherwise known of it; none if nothing is.
    pub(super) fn strides(&self, known: Option<MemberStrides>) -> Option<MemberStrides> {
        let is_given = self.s_max_read.is_some() || self.s_max_write.is_some();
        let MemberStrides { read, write } = known.unwrap_or(MemberStrides::NONE);
        let below = |max: Option<u16>, other: Strides| max.map_or(other, Strides::below);
        (is_given || known.is_some()).then(|| MemberStrides {
            read: below(self.s_max_read, read),
            write: below(self.s_max_write, write),
        })
    }

    /// The first byte behind what is written.
    pub(super) fn end_bytes(&self) -> u64 {
        self.write.map_or(0, |write| write.offset_bytes + write.len_bytes)
    }
}

fn parse_shape(text: &str) -> Result<Shape, String> {
    let wrong = || format!("'{text}' is not DATA+PARITY, such as 4+1");
    let (data, redundant) = text.split_once('+').unwrap_or((text, "0"));
    // The level decides how many there may be.
    let number = |text: &str| match text.parse::<usize>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Ok(usize::MAX),
        number => number.map_err(|_| wrong()),
    };
    Ok(Shape { data: number(data)?, redundant: number(redundant)? })
}
