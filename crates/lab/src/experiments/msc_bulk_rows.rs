//! The loads of `msc-bulk`: the rows of msc-ct's Table II.

use super::{Effort, msc};
use crate::{
    ext3::{Copying, Files, Made, OneFile, Sizes},
    point::{Pieces, Script},
};

/// A load, and the paper's figures of it.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// As the paper calls it.
    pub(super) name: &'static str,
    /// On an axis: r reads and w writes, in sequence or, with another r before, at random; fs goes through a file.
    pub(super) short: &'static str,
    /// The paper's times or rates.
    pub(super) paper: &'static str,
    /// How much faster SC is than PBGC in the paper.
    pub(super) sc_over_pbgc: f64,
    pub(super) script: fn(Effort) -> Script,
}

const fn row(
    (name, short): (&'static str, &'static str),
    paper: &'static str,
    sc_over_pbgc: f64,
    script: fn(Effort) -> Script,
) -> Row {
    Row { name, short, paper, sc_over_pbgc, script }
}

/// The copy of many small files.
pub(super) const SOURCES: Row =
    row(("src self-copy", "src"), "Table II: 29.3 s and 15.2 s", 1.93, |effort| sources(effort, false));

/// All rows, in the table's order.
pub(super) const ROWS: [Row; 12] = [
    row(("video self-copy", "video"), "Table II: 31.4 s and 21.6 s", 1.45, |effort| {
        let mean_bytes = msc::part(effort, 2_130_000_000);
        copy(effort, Files { count: 1, mean_bytes, sizes: Sizes::Alike, a_directory: 1 }, false)
    }),
    row(("music self-copy", "music"), "Table II: 20.6 s and 10.5 s", 1.96, |effort| {
        let count = msc::part(effort, 154) as u32;
        copy(
            effort,
            Files { count, mean_bytes: 682_000_000 / 154, sizes: Sizes::Normal, a_directory: 154 },
            false,
        )
    }),
    SOURCES,
    row(("mkfs", "mkfs"), "Table II: 42.0 s and 34.2 s", 1.23, |effort| Script::MakeFileSystem(made(effort))),
    row(("sequential read (fs)", "fs r"), "Table II: 190 and 252 MB/s", 1.33, |effort| {
        file(effort, true, None)
    }),
    row(("sequential write (fs)", "fs w"), "Table II: 166 and 189 MB/s", 1.14, |effort| {
        file(effort, false, None)
    }),
    row(("bulky random read (fs)", "fs rr"), "Table II: 57.5 and 67.4 MB/s", 1.17, |effort| {
        file(effort, true, Some(STRIPE_BYTES))
    }),
    row(("bulky random write (fs)", "fs rw"), "Table II: 58.8 and 68.0 MB/s", 1.16, |effort| {
        file(effort, false, Some(STRIPE_BYTES))
    }),
    row(("sequential read (block)", "r"), "Table II: 106 and 381 MB/s", 3.6, |effort| {
        pieces(effort, true, None)
    }),
    row(("sequential write (block)", "w"), "Table II: 168 and 289 MB/s", 1.72, |effort| {
        pieces(effort, false, None)
    }),
    row(("bulky random read (block)", "rr"), "Table II: 81 and 85 MB/s", 1.05, |effort| {
        pieces(effort, true, Some(msc::part(effort, FILE_SYSTEM_BYTES)))
    }),
    row(("bulky random write (block)", "rw"), "Table II: 80 and 94 MB/s", 1.18, |effort| {
        pieces(effort, false, Some(msc::part(effort, FILE_SYSTEM_BYTES)))
    }),
];

impl Row {
    /// The copy of sources with windows that outlast their files.
    pub(super) fn with_windows_kept(self) -> Self {
        Self { script: |effort| sources(effort, true), ..self }
    }
}

/// Nearly all of four disks of 73.4 GB.
const FILE_SYSTEM_BYTES: u64 = 270 << 30;
/// msc-ct IV-E.
const STRIPE_BYTES: u64 = 512 << 10;
/// The paper leaves open how large the file is; this is its video, about.
const FILE_BYTES: u64 = 2 << 30;
/// Requests under way in sequence without a file system (msc-ct I-C).
const UNDER_WAY: u32 = 32;

fn made(effort: Effort) -> Made {
    Made {
        size_bytes: msc::part(effort, FILE_SYSTEM_BYTES),
        journal_blocks: msc::part(effort, msc::JOURNAL_BLOCKS),
        dirty_blocks: msc::part(effort, msc::DIRTY_BLOCKS),
    }
}

fn copy(effort: Effort, files: Files, keeps_windows: bool) -> Script {
    Script::Copying(Copying { made: made(effort), files, keeps_windows })
}

/// 25,628 files of 458 MB.
fn sources(effort: Effort, keeps_windows: bool) -> Script {
    let count = msc::part(effort, 25_628) as u32;
    let files = Files { count, mean_bytes: 458_000_000 / 25_628, sizes: Sizes::Sources, a_directory: 25 };
    copy(effort, files, keeps_windows)
}

fn file(effort: Effort, read: bool, random_bytes: Option<u64>) -> Script {
    Script::OneFile(OneFile {
        made: made(effort),
        file_bytes: msc::part(effort, FILE_BYTES),
        read,
        random_bytes,
    })
}

fn pieces(effort: Effort, read: bool, span_bytes: Option<u64>) -> Script {
    let (count, under_way) =
        (msc::part(effort, FILE_BYTES) / STRIPE_BYTES, if span_bytes.is_some() { 1 } else { UNDER_WAY });
    Script::Pieces(Pieces { read, piece_bytes: STRIPE_BYTES, count, span_bytes, under_way })
}
