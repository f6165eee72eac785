//! The arguments of `stripewise create`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use stripewise::{
    geometry::MEMBERS_MAX,
    internals::{locking::Preset, plan::selection::Policy},
};
use stripewise_wire::ClassChoice;

use crate::{
    commands::{
        cache::{alloc_parser, kind_parser},
        workers::WorkerArgs,
    },
    numbers::within,
    policies::{policy_parser, preset_parser},
    rundir::parse_name,
    sizes::parse_size,
    times::parse_time_or_off,
    words::{parse_bitmap, parse_chunk, parse_class, parse_level, parse_metadata},
};

/// What `--bitmap-map` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MapChoice {
    /// Neighbouring stripes share a bit, as in md.
    Linear,
    /// Neighbouring stripes have different bits.
    Distributed,
}

/// What `--consistency-policy` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ConsistencyPolicy {
    /// After a crash, resync what the write-intent bitmap marks.
    Bitmap,
}

/// What `--layout` can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LayoutChoice {
    /// Linux md's default for levels 5 and 6.
    #[value(alias = "ls")]
    LeftSymmetric,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CreateArgs {
    /// The array's name.
    #[arg(value_parser = parse_name)]
    pub(super) name: String,
    /// RAID level: 0 (stripe), 1 (mirror), 4, 5 or 6; also as raid0 to raid6, stripe or mirror.
    #[arg(long, short, value_parser = parse_level)]
    pub(super) level: i32,
    /// Members of the complete array; all devices given, if left out.
    #[arg(long, short = 'n', value_parser = within(1..=MEMBERS_MAX))]
    pub(super) raid_devices: Option<usize>,
    /// Devices beyond those are spares.
    #[arg(long, short = 'x', default_value_t = 0, value_parser = within(0..=MEMBERS_MAX))]
    pub(super) spare_devices: usize,
    /// Chunk size: a power of two from 4K to 1M (a bare number means KiB, as mdadm's); 64K, if left out.
    /// Ignored for level 1.
    #[arg(long, short, value_parser = parse_chunk)]
    pub(super) chunk: Option<u32>,
    /// Layout of levels 5 and 6.
    #[arg(long, value_enum)]
    pub(super) layout: Option<LayoutChoice>,
    /// Where the write-intent bitmap lies: `internal`, which is in the extension area of the members.
    #[arg(long, value_name = "internal", value_parser = parse_bitmap)]
    pub(super) bitmap: Option<()>,
    /// The version of the metadata: 1.2, as there is no other.
    #[arg(long, short = 'e', value_name = "1.2", value_parser = parse_metadata)]
    pub(super) metadata: Option<()>,
    /// The name that is kept on the members, beside the machine's; that by which the array runs, if left out.
    #[arg(long = "name", short = 'N', value_name = "KEPT NAME", value_parser = parse_name)]
    pub(super) kept_name: Option<String>,
    /// Bytes of each member that one bit stands for.
    #[arg(long, value_parser = parse_size)]
    pub(super) bitmap_chunk: Option<u64>,
    /// Which stripes a bit stands for: neighbours, or stripes spread over the array (ScalaRAID's D-Blocks);
    /// as the preset has it, if left out.
    #[arg(long, value_enum)]
    pub(super) bitmap_map: Option<MapChoice>,
    /// Which requests wait for which when the array is written; the others are there to be compared with.
    #[arg(long, value_parser = preset_parser(), default_value = "default")]
    pub(super) locking: &'static Preset,
    /// How the array becomes consistent after a crash.
    #[arg(long, value_enum)]
    pub(super) consistency_policy: Option<ConsistencyPolicy>,
    /// How much of each member to use; all that the smallest offers, if left out.
    #[arg(long, short = 'z', value_parser = parse_size)]
    pub(super) size: Option<u64>,
    /// The members agree already (all zeroes): no first resync.
    #[arg(long)]
    pub(super) assume_clean: bool,
    /// The array's identity, if it must be a given one.
    #[arg(long)]
    pub(super) uuid: Option<String>,
    /// Overwrite what is found on the devices, such as file systems; it is named on standard error.
    #[arg(long, short)]
    pub(super) force: bool,
    /// Answer yes to the question whether to overwrite what is found: the same as --force, and as mdadm's
    /// --run.
    #[arg(long, short, visible_alias = "run", visible_short_alias = 'R')]
    pub(super) yes: bool,
    /// Say what would be done and do nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Of levels 4, 5 and 6: how partly written rows are written; `stripewise policy --list` tells of each,
    /// and which it is if left out.
    #[arg(long, value_parser = policy_parser())]
    pub(super) policy: Option<&'static Policy>,
    /// Of levels 4, 5 and 6: a write-back cache in memory. If left out, `auto` where a member is measured to rotate,
    /// else `none`. `stripewise cache` tells of it and changes it.
    #[arg(long, value_parser = kind_parser())]
    pub(super) cache: Option<String>,
    /// Memory that the cache may take: 512M, and at most a quarter of the machine's, if left out.
    #[arg(long, value_parser = parse_size)]
    pub(super) cache_size: Option<u64>,
    /// Limits what is dirty in the cache to what members write in this time, once that was measured; or `off`; 10s, if
    /// left out.
    #[arg(long, value_name = "TIME", value_parser = parse_time_or_off)]
    pub(super) cache_flush_time: Option<Duration>,
    /// What the cache takes memory for: blocks, if left out.
    #[arg(long, value_parser = alloc_parser())]
    pub(super) cache_alloc: Option<String>,
    /// What kind of device a member is, where that is not to be detected: DEVICE=hdd or DEVICE=ssd. Can be
    /// given again.
    #[arg(long, value_name = "DEVICE=CLASS", value_parser = parse_class)]
    pub(super) class: Vec<(String, ClassChoice)>,
    /// Where level 4 keeps its parity: on the `fastest` member if one is faster than the others, which makes
    /// a RAID4S; on the `last` one given; or on this DEVICE. If left out, on the fastest; with
    /// --assume-clean, where members keep their places, on the last.
    #[arg(long, value_name = "fastest|last|DEVICE")]
    pub(super) parity: Option<String>,
    /// Do not measure how long the members' I/O takes. That takes up to 16 seconds on hard disks, and leaves
    /// their contents alone.
    #[arg(long)]
    pub(super) no_measure: bool,
    #[command(flatten)]
    pub(super) workers: WorkerArgs,
    /// Block devices or files, by role; the word `missing` for a member to be added later.
    #[arg(required = true)]
    pub(super) devices: Vec<String>,
}
