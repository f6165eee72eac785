//! The words of `stripewise attach`, `detach` and `serve`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, builder::TypedValueParser};
use stripewise_wire::{AttachChoice, DiscardChoice};

use crate::{
    choices::{discard_parser, one_of},
    numbers::within,
    rundir::parse_name,
    sizes::parse_size,
    times::parse_time,
    words::parse_sector,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct AttachArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// How; the best there is, if left out.
    #[arg(long, value_parser = method_parser())]
    pub(crate) method: Option<AttachChoice>,
    /// The logical block size of the block device: 512, 1K, 2K or 4K, and no less than the members'; as theirs, if left out.
    /// With 4096 the kernel never asks for less than a block of 4 KiB, which is what members are written in.
    #[arg(long, value_name = "BYTES", value_parser = parse_sector)]
    pub(crate) sector_size: Option<u32>,
    /// Whether the block device takes discards (TRIM), as mkfs and fstrim send them.
    #[arg(long, value_parser = discard_parser(), default_value = "auto")]
    pub(crate) discard: DiscardChoice,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DetachArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Even if it is in use: what its users have not written out is lost to them.
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Listen on this unix socket.
    #[arg(long, short = 'U', conflicts_with = "bind")]
    pub(crate) unix: Option<PathBuf>,
    /// Listen on this address and port, such as 127.0.0.1:10809.
    #[arg(long, short)]
    pub(crate) bind: Option<String>,
    /// Refuse writes.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Whether clients may discard (TRIM).
    #[arg(long, value_parser = discard_parser(), default_value = "auto")]
    pub(crate) discard: DiscardChoice,
    /// Clients at a time; 128, if left out. Where all places are taken, a client that never asked anything makes room.
    #[arg(long, value_name = "COUNT", value_parser = within(1..=100_000usize))]
    pub(crate) connections: Option<usize>,
    /// Data that requests of all clients may hold together; 256M, if left out, or half of what limits of the daemon's memory
    /// leave it (control group, `ulimit -v`), and 40M at least. Each client has 1M besides, so that small requests never wait
    /// for large ones. A client that does not go on while others wait for its memory is cut off.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) in_flight: Option<u64>,
    /// Data that requests of one client may hold; 64M, or what all may, if left out, and 40M at least.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) connection_in_flight: Option<u64>,
    /// Close connections on which nothing was asked for this long: seconds, or a number with ms, s, m or h; never, if left
    /// out.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Stop serving there, or everywhere; fails if it is not served.
    #[arg(long)]
    pub(crate) stop: bool,
}

fn method_parser() -> impl TypedValueParser<Value = AttachChoice> {
    one_of(AttachChoice::ALL, AttachChoice::name, |method| match method {
        AttachChoice::Nbd => "The kernel's NBD client",
        AttachChoice::Fuse => "A FUSE file and a loop device",
    })
}
