//! `stripewise explain`: how a write would be carried out, stripe by stripe, as the debug logs and figures of
//! raid4s-modthresh show it. Nothing is written: plans are pure functions.

mod args;
mod cells;
mod stripe;
mod target;
mod text;

use std::process::ExitCode;

use anyhow::{bail, ensure};
use stripewise::geometry::{Level, StripeIndex};

pub(crate) use self::args::ExplainArgs;
use self::{
    args::WriteRange,
    cells::Cells,
    stripe::{Explained, ExplainedStripe},
    target::{Target, check_takes_cache},
};
use crate::said::{print_json, say};

/// The most stripes that a write may touch here: nobody reads more.
const STRIPES_MAX: usize = 16;

pub(crate) fn run(args: &ExplainArgs, json: bool) -> anyhow::Result<ExitCode> {
    let target = Target::of(args)?;
    let explained = explain(args, target)?;
    if json {
        print_json(&explained)?;
    } else {
        say!(part: "{}", text::draw(&explained));
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &ExplainArgs, mut target: Target) -> anyhow::Result<Explained> {
    if let Some(column) = args.missing.iter().find(|column| **column >= target.geometry.members()) {
        bail!("--missing {column}: give columns from 0 to {}", target.geometry.members() - 1);
    }
    target.check_missing()?;
    let stripes = match args.write {
        Some(write) => written(&mut target, write)?,
        None => vec![destaged(args, &mut target)?],
    };
    let geometry = target.geometry;
    Ok(Explained {
        level: geometry.level().number(),
        disks: geometry.members(),
        chunk_bytes: (geometry.level() != Level::Raid1).then(|| geometry.chunk_bytes()),
        policy: target.policy.name,
        notes: target.notes,
        stripes,
    })
}

/// A client's write, stripe by stripe.
fn written(target: &mut Target, write: WriteRange) -> anyhow::Result<Vec<ExplainedStripe>> {
    let WriteRange { offset_bytes, len_bytes } = write;
    let (geometry, end) = (target.geometry, offset_bytes + len_bytes);
    let block = u64::from(geometry.logical_block_bytes());
    ensure!(
        offset_bytes % block == 0 && len_bytes % block == 0,
        "--write: offset and length must be multiples of {block}"
    );
    let capacity = geometry.capacity_bytes();
    ensure!(end <= capacity, "--write: it ends at byte {end}, and the array has {capacity}");
    let spans: Vec<_> = geometry.split(offset_bytes..end).take(STRIPES_MAX + 1).collect();
    if spans.len() > STRIPES_MAX {
        bail!("--write: it touches more than {STRIPES_MAX} stripes; explain a shorter one");
    }
    target.look_at(spans[0].stripe..StripeIndex(spans[spans.len() - 1].stripe.0 + 1))?;
    Ok(spans.iter().map(|span| stripe::explain(target, span)).collect::<Result<_, _>>()?)
}

/// A destage of a stripe from a cache.
fn destaged(args: &ExplainArgs, target: &mut Target) -> anyhow::Result<ExplainedStripe> {
    let stripe = StripeIndex(args.stripe.unwrap_or(0));
    let stripes = target.geometry.stripes();
    check_takes_cache(target.geometry.level())?;
    ensure!(stripe.0 < stripes, "--stripe {}: the array has {stripes}, which count from 0", stripe.0);
    target.look_at(stripe..StripeIndex(stripe.0 + 1))?;
    let text = args.cells.clone().map_or_else(|| target.cells(stripe), Ok)?;
    let cells = Cells::parse(&text, target.geometry.data_columns(), target.geometry.rows_of(stripe).len())?;
    Ok(stripe::explain_cells(target, stripe, &cells)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ExplainArgs,
    }

    /// What is printed for these options, or the error.
    fn said(options: &str) -> String {
        let line = match Line::try_parse_from(format!("explain {options}").split_whitespace()) {
            Ok(line) => line,
            Err(error) => return error.to_string(),
        };
        let explained = Target::of(&line.args).and_then(|target| explain(&line.args, target));
        explained.map_or_else(|error| error.to_string(), |explained| text::draw(&explained))
    }

    /// raid4s-modthresh Figures 7 and 9: 64 and 128 KiB of 4+1 with chunks of 64 KiB.
    #[test]
    fn the_papers_figures_come_out() {
        let votes = |said: &str| -> Vec<String> {
            said.lines()
                .map(|line| line.trim().to_owned())
                .filter(|line| line.starts_with("disk") && line.contains(" -> "))
                .collect()
        };
        let figure7 = said("--level 4 --geometry 4+1 --policy modthresh --write 0:64K");
        let expected = ["disk 4 -> RMW", "disk 3 -> RCW", "disk 2 -> RCW", "disk 1 -> RCW", "disk 0 -> RMW"];
        assert_eq!(votes(&figure7), expected, "{figure7}");
        assert!(figure7.contains("rmw=2 rcw=3: RMW"), "{figure7}");
        let figure9 = said("--level 4 --geometry 4+1 --policy modthresh --write 0:128K");
        let expected = ["disk 4 -> RMW", "disk 3 -> RCW", "disk 2 -> RCW", "disk 1 -> RMW", "disk 0 -> RMW"];
        assert_eq!(votes(&figure9), expected, "{figure9}");
        assert!(figure9.contains("rmw=3 rcw=2: RMW"), "{figure9}");
        let classic = said("--level 4 --geometry 4+1 --policy classic --write 0:128K");
        assert!(classic.contains("rmw=3 rcw=2: RCW"), "{classic}");
    }

    #[test]
    fn rows_that_are_alike_are_one_line() {
        let said = said("--geometry 4+1 --chunk 1M --write 0:1536K");
        assert!(said.contains("0-127") && said.contains("128-255") && said.lines().count() < 50, "{said}");
    }

    #[test]
    fn every_stripe_is_explained_on_its_own() {
        let said = said("--geometry 4+1 --write 192K:128K");
        assert!(said.contains("stripe 0") && said.contains("stripe 1"), "{said}");
        // In stripe 1 of level 5 parity lies on disk 3, and the first data on disk 4.
        assert!(said.contains("disk 4: 64 KiB at 64 KiB"), "{said}");
    }

    #[test]
    fn costs_are_estimated_where_the_policy_does() {
        let said =
            said("--level 4 --geometry 4+1 --policy cost --classes hdd,hdd,hdd,hdd,ssd --write 0:128K");
        assert!(said.contains("estimated") && said.contains(" ms"), "{said}");
    }

    /// One of three data blocks of a row: both cycles take two reads. On flash, both cost the same.
    #[test]
    fn the_rule_that_broke_a_tie_is_named() {
        let tied = |policy: &str| said(&format!("--geometry 3+1 --policy {policy} --write 0:64K"));
        for (policy, rule) in [
            (
                "classic",
                "RCW, chosen by classic\n    both read as many blocks; classic: RMW where it reads fewer",
            ),
            (
                "modthresh",
                "RMW, chosen by modthresh\n    both read as many blocks; modthresh: RMW also where",
            ),
            (
                "cost",
                "both are estimated to cost the same; cost: what reads the fewest blocks (RCW, if equal)",
            ),
        ] {
            let said = tied(policy);
            assert!(said.contains(rule), "{said}");
        }
        let near = said("--level 4 --policy cost --classes hdd,hdd,hdd,hdd,ssd --write 0:200K");
        let rule = "25.43 ms with RMW here, 25.81 ms with RCW\n    the other is estimated to cost less, but within the margin; cost";
        assert!(near.contains(rule), "{near}");
        let alike = said("--level 4 --policy cost --classes hdd,hdd,hdd,hdd,ssd --write 0:132K");
        assert!(alike.contains("the same, and these rows go with the stripe's others; cost"), "{alike}");
        let clear = said("--geometry 4+1 --policy classic --write 0:64K");
        assert!(!clear.contains("classic: "), "{clear}");
    }

    #[test]
    fn a_missing_column_forces_a_cycle() {
        let data = said("--geometry 4+1 --missing 3 --write 0:128K");
        assert!(data.contains("disk 3 -> RCW, missing: counts 10") && data.contains(": RMW"), "{data}");
        let parity = said("--geometry 4+1 --missing 4 --write 0:128K");
        assert!(parity.contains("data alone"), "{parity}");
    }

    #[test]
    fn a_column_said_to_be_missing_twice_is_one() {
        let said = said("--geometry 4+1 --missing 3 --missing 3 --write 0:128K");
        assert!(said.contains("disk 3 -> RCW, missing"), "{said}");
    }

    #[test]
    fn copies_know_no_chunks() {
        let mirror = said("--level 1 --write 0:8K");
        assert!(mirror.contains("of level 1, 1+1: 8 KiB") && !mirror.contains("chunk"), "{mirror}");
        let ignored = said("--level 1 --chunk 128K --write 0:8K");
        assert!(ignored.contains("note: --chunk is ignored"), "{ignored}");
    }

    /// What a cache holds of a stripe: a full row, a row with a clean and a dirty block, a part of a block.
    #[test]
    fn a_destage_is_explained_by_its_cells() {
        let said = said("--geometry 3+1 --chunk 16K --policy classic --cells DDD/ECD/PEE");
        assert!(said.contains("destaged"), "{said}");
        assert!(said.contains("D D D") && said.contains("E C D") && said.contains("P E E"), "{said}");
        assert!(said.contains("all data is new"), "{said}");
        assert!(said.contains("rmw=2 rcw=1: RCW"), "{said}");
    }

    #[test]
    fn nonsense_is_named() {
        for (options, word) in [
            ("--geometry 3+1 --cells DD", "3 data columns"),
            ("--geometry 3+1 --cells DXD", "'X' is no cell"),
            ("--geometry 3+1 --chunk 4K --cells DEE/DEE", "a chunk has 1"),
            ("--geometry 3+1 --cells EEC", "nothing is dirty"),
            ("--level 1 --cells D", "takes no cache"),
            ("--stripe 0", "give --cells, or the name of a running array"),
            ("--write 128K", "not OFFSET:LENGTH"),
            ("--write 0:0", "nothing is written"),
            ("--write 0:1.5K", "not a size"),
            ("--write 0:100", "multiples of 512"),
            ("--write 16000000000G:512", "less than 8 EiB"),
            ("--write 16777216T:16777216T", "too large"),
            ("--write 0:1T", "more than 16 stripes"),
            ("--write 0:4K --geometry 4", "level 5 has 1"),
            ("--write 0:4K --geometry 0+1", "2 to "),
            ("--write 0:4K --geometry 60000+1", "level 5 needs 2 to 256 members, not 60001"),
            ("--write 0:4K --geometry 100000+1", "level 5 needs 2 to 256 members, not 100001"),
            ("--write 0:4K --geometry 99999999999999999999999+1", "level 5 needs 2 to 256 members"),
            ("--write 0:4K --geometry four", "not DATA+PARITY"),
            ("--write 0:4K --chunk 3K", "chunk"),
            ("--write 0:4K --policy best", "classic, modthresh"),
            ("--write 0:4K --missing 9", "from 0 to 4"),
            (
                "--write 0:4K --missing 0 --missing 1",
                "2 columns are missing, and level 5 survives the loss of 1",
            ),
            ("--write 0:4K --level 6 --missing 0 --missing 1 --missing 5", "level 6 survives the loss of 2"),
            (
                "--write 0:4K --level 0 --missing 0",
                "1 column is missing, and level 0 survives the loss of none",
            ),
            ("--write 0:4K --level 1 --missing 0 --missing 1", "level 1 survives the loss of 1"),
            ("--write 0:4K --policy cost --classes hdd,ssd", "5 disks"),
            ("--write 0:4K --policy classic --classes hdd,hdd,hdd,hdd,ssd", "`--policy cost` does"),
            ("--write 0:4K --level 7", "not a level"),
        ] {
            let said = said(options);
            assert!(said.contains(word), "{options}: no '{word}' in: {said}");
        }
    }
}
