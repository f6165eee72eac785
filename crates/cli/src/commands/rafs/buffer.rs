//! `stripewise dump TARGET buffer`: the buffer lists of a mounted file system. They are in the memory of the process that serves the
//! mount, so that process is asked.

use std::path::Path;

use anyhow::{Context, bail};
use rustix::io::Errno;
use serde_json::json;
use stripewise_mount::report::{BUFFER_ATTRIBUTE, BufferReport, ListReport};

use super::{
    REPORT_BYTES_MAX,
    df::{Place, Row, all_mounted, place_of},
    dump::Told,
};

pub(super) fn buffer(target: &str) -> anyhow::Result<Told> {
    let (mounted, _) = all_mounted(false)?;
    let Place::Mounted(Row { point: Some(point), report }) = place_of(target, &mounted)? else {
        bail!(
            "{target}: it is not mounted; the buffer is in the memory of the process that serves a mount, and is there only while \
             it is mounted"
        )
    };
    let BufferReport { lists } = asked(point)?;
    let lines = lines(&lists);
    let json = json!({ "target": report.identity.target, "point": point, "lists": lists });
    Ok(Told { lines, json })
}

fn asked(point: &Path) -> anyhow::Result<BufferReport> {
    let told = || point.display().to_string();
    let mut value = vec![0; REPORT_BYTES_MAX];
    match rustix::fs::getxattr(point, BUFFER_ATTRIBUTE, &mut value[..]) {
        Ok(len) => serde_json::from_slice(&value[..len]).context("reading the mount's report"),
        Err(Errno::OPNOTSUPP | Errno::NODATA) => bail!(
            "{}: its server is of an older release, which does not tell of its buffer; unmount it, and mount it again",
            told()
        ),
        Err(error) => Err(error).with_context(told),
    }
}

fn lines(lists: &[ListReport]) -> Vec<String> {
    let sum = |of: fn(&ListReport) -> u64| lists.iter().map(of).sum::<u64>();
    let all = format!("all: {} entries, {}", sum(|list| list.entries), counted(sum(|list| list.blocks)));
    lists.iter().map(line).chain([all]).collect()
}

fn line(of: &ListReport) -> String {
    let ListReport { list, entry_blocks, entries, blocks, being_written, oldest_ms } = of;
    let oldest = *oldest_ms as f64 / 1000.0;
    let written = if *being_written == 0 {
        String::new()
    } else {
        format!(", {being_written} of them being written out")
    };
    format!(
        "list {list}: entries of {}: {entries}{written}; {}, the oldest for {oldest:.1} s",
        counted(*entry_blocks),
        counted(*blocks)
    )
}

fn counted(blocks: u64) -> String {
    format!("{blocks} block{}", if blocks == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_has_a_line_and_all_of_them_have_one() {
        let list = ListReport {
            list: 2,
            entry_blocks: 4,
            entries: 3,
            blocks: 12,
            being_written: 1,
            oldest_ms: 1250,
        };
        let told = lines(&[list, ListReport { list: 0, entry_blocks: 1, being_written: 0, ..list }]);
        assert_eq!(
            told[0],
            "list 2: entries of 4 blocks: 3, 1 of them being written out; 12 blocks, the oldest for 1.2 s"
        );
        assert!(told[1].starts_with("list 0: entries of 1 block: 3; "), "{}", told[1]);
        assert_eq!(told[2], "all: 6 entries, 24 blocks");
        assert_eq!(lines(&[]), ["all: 0 entries, 0 blocks"]);
    }
}
