//! Loads whose requests are known beforehand: what a file system asks of the array, or a benchmark of aligned pieces.

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::{Extent, Pace, Step};

use crate::ext3::{Aging, Clients, Copying, DBench, Made, OneFile};

/// A load that is computed before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Script {
    /// The writes of a cycle on an aged file system.
    Aging(Aging),
    /// Clients that work on small files.
    Clients(Clients),
    /// Clients that repeat DBench's calls.
    #[serde(rename = "dbench")]
    DBench(DBench),
    /// Files that are copied within a file system.
    Copying(Copying),
    /// A large file that is read or written.
    OneFile(OneFile),
    /// The making of a file system.
    MakeFileSystem(Made),
    /// Pieces of the array, without a file system.
    Pieces(Pieces),
}

/// Pieces of one length, each aligned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pieces {
    /// Whether they are read.
    pub read: bool,
    /// Bytes of each.
    pub piece_bytes: u64,
    /// How many.
    pub count: u64,
    /// The part of the array in which they lie at random, in bytes; without, they follow one another from its start.
    pub span_bytes: Option<u64>,
    /// How many are under way.
    pub under_way: u32,
}

/// Reads under way: read-ahead of Linux 2.6.11 has two windows.
const READS: u32 = 2;

impl Script {
    /// In keys.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Aging(aging) => aging.key(),
            Self::Clients(clients) => clients.key(),
            Self::DBench(clients) => clients.key(),
            Self::Copying(copying) => copying.key(),
            Self::OneFile(file) => file.key(),
            Self::MakeFileSystem(made) => format!("mkfs {}", made.key()),
            Self::Pieces(pieces) => pieces.key(),
        }
    }

    /// Bytes that clients read or write for their own sake, about: metadata come on top. Of a copy, those of the files, once; of
    /// clients with small files, those written.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Aging(aging) => aging.written_bytes(),
            Self::Clients(clients) => clients.written_bytes,
            Self::DBench(clients) => clients.written_bytes,
            Self::Copying(copying) => copying.bytes(),
            Self::OneFile(file) => file.file_bytes,
            Self::MakeFileSystem(made) => made.bytes(),
            Self::Pieces(pieces) => pieces.count * pieces.piece_bytes,
        }
    }

    /// Its requests.
    pub(super) fn steps(&self, seed: u64) -> Vec<Step> {
        match self {
            Self::Aging(aging) => aging.steps(seed),
            Self::Clients(clients) => clients.steps(seed),
            Self::DBench(clients) => clients.steps(seed),
            Self::Copying(copying) => copying.steps(seed),
            Self::OneFile(file) => file.steps(seed),
            Self::MakeFileSystem(made) => made.steps(),
            Self::Pieces(pieces) => pieces.steps(seed),
        }
    }

    /// How many requests are under way, if so many writes are where the page cache is written back.
    pub(super) fn pace(&self, writes: u32, fua: bool) -> Pace {
        match self {
            Self::Pieces(Pieces { under_way, .. }) => Pace { reads: *under_way, writes: *under_way, fua },
            // Who reads at random waits for each piece.
            Self::OneFile(OneFile { random_bytes: Some(_), .. }) => Pace { reads: 1, writes, fua },
            // Each client reads for itself, and one that reads does not keep others from it.
            Self::Clients(Clients { count, .. }) | Self::DBench(DBench { count, .. }) => {
                Pace { reads: (READS * count).min(writes), writes, fua }
            }
            _ => Pace { reads: READS, writes, fua },
        }
    }
}

impl Pieces {
    fn key(&self) -> String {
        let Self { read, piece_bytes, count, span_bytes, under_way } = self;
        let way = if *read { "read" } else { "write" };
        let places = span_bytes.map_or_else(|| "sequential".to_owned(), |bytes| format!("random={bytes}"));
        format!("pieces {way} {count} of {piece_bytes} {places} at-once={under_way}")
    }

    fn steps(&self, seed: u64) -> Vec<Step> {
        let mut rng = Rng::with_seed(seed);
        let mut place = |number: u64| match self.span_bytes {
            Some(bytes) => rng.u64(..bytes / self.piece_bytes),
            None => number,
        };
        let extent =
            |place: u64| Extent { offset_bytes: place * self.piece_bytes, len_bytes: self.piece_bytes };
        let all = (0..self.count).map(|number| extent(place(number))).collect();
        let none = Vec::new();
        vec![if self.read { Step { reads: all, writes: none } } else { Step { reads: none, writes: all } }]
    }
}
