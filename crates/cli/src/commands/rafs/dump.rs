//! `stripewise dump`: what lies on a RAFS volume, as debugfs and xfs_db show it of others. Nothing is written.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stripewise::{
    RuntimeOptions,
    internals::format::rafs::{
        anchor::Anchor,
        inode::Inode,
        journal::Change,
        key::{Key, KeyKind},
        names::{Entry, Xattr},
        node::Item,
        space::{Extent, GroupKind},
        superblock::Superblock,
    },
};
use stripewise_mount::rafs::inspect::{BlockLine, Copy, Inspector, NodeLine, Use};

use super::{
    buffer::buffer,
    df::{Place, Row, all_mounted, place_of},
    open_damaged,
};
use crate::{
    daemon,
    given::absolute_path,
    printable::printable,
    said::{print_json, say},
};

/// Attributes, names and numbers of entries lie between these.
const LAST: u64 = u64::MAX;

#[derive(Debug, Clone, Args)]
pub(crate) struct DumpArgs {
    /// The block device or file, which must not be mounted. For `buffer` it must be: a folder in it or a running array will do, too.
    target: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    #[command(flatten)]
    OnVolume(OnVolume),
    /// The buffer lists of a mounted file system: how many entries of how many blocks wait to be written out, and for how long.
    Buffer,
}

#[derive(Debug, Clone, Subcommand)]
enum OnVolume {
    /// All copies of the superblock.
    Superblock,
    /// All copies of both anchors.
    Anchors,
    /// A stripe group: its kind, and which blocks are taken.
    Group {
        /// Its number, from 0 on.
        number: u64,
    },
    /// All items of an inode.
    Inode {
        /// Its number, as `ls -i` shows it.
        number: u64,
    },
    /// Where the blocks of a file lie, and whether their CRCs match.
    Extents {
        /// The inode's number.
        number: u64,
    },
    /// The records behind the newest anchor.
    Journal,
    /// The allocation lists, made from the bitmaps of the groups: how many stripes have how much room.
    Lists,
    /// The blocks of a stripe, and what each is used for.
    Stripe {
        /// Its number, from 0 on.
        number: u64,
    },
    /// All nodes of the tree.
    Tree,
}

/// What is told: lines for people, and the same for programs.
pub(super) struct Told {
    pub(super) lines: Vec<String>,
    pub(super) json: Value,
}

pub(crate) fn dump(args: &DumpArgs, json: bool) -> anyhow::Result<ExitCode> {
    let told = match &args.what {
        What::Buffer => buffer(&args.target)?,
        What::OnVolume(what) => on_volume(&args.target, what)?,
    };
    if json {
        print_json(&told.json)?;
    } else {
        told.lines.iter().for_each(|line| say!("{}", printable(line)));
    }
    Ok(ExitCode::SUCCESS)
}

fn on_volume(target: &str, what: &OnVolume) -> anyhow::Result<Told> {
    let path = absolute_path(target)?;
    let host = daemon::start_host(RuntimeOptions::default())?;
    let found = open_damaged(&host, &path, false).map_err(|error| advised(target, error))?;
    let what = what.clone();
    host.block_on(async move {
        let inspector = Inspector::open(found.volume).await?;
        tell(&inspector, &what).await
    })
}

/// What to do about a target that cannot be looked at, if it is a mounted one, or an array; else why it cannot.
fn advised(target: &str, error: anyhow::Error) -> anyhow::Error {
    let mounted = all_mounted(false).map(|(mounted, _)| mounted).unwrap_or_default();
    match place_of(target, &mounted) {
        Ok(Place::Mounted(Row { point: Some(point), .. })) => {
            let point = point.display();
            anyhow!(
                "{target}: it is mounted on {point}, and what lies on it changes all the time: `stripewise umount {point}` first. \
                 `stripewise dump {point} buffer` and `stripewise stat --stripes {point}` show it while it is mounted"
            )
        }
        Ok(Place::Array(name)) => anyhow!(
            "{name}: of an array that runs, the block device is looked at: `stripewise attach {name}`, and name what that prints"
        ),
        _ => error,
    }
}

async fn tell(of: &Inspector, what: &OnVolume) -> anyhow::Result<Told> {
    Ok(match what {
        OnVolume::Superblock => copies(&of.superblocks().await, superblock),
        OnVolume::Anchors => copies(&of.anchors().await, anchor),
        OnVolume::Group { number } => group(of, *number).await?,
        OnVolume::Inode { number } => inode(of, *number).await?,
        OnVolume::Extents { number } => extents(of, *number).await?,
        OnVolume::Journal => journal(of).await?,
        OnVolume::Lists => lists(of).await?,
        OnVolume::Stripe { number } => stripe(of, *number).await?,
        OnVolume::Tree => {
            let all = Key::new(0, KeyKind::Group, 0)..=Key::new(LAST, KeyKind::Extent, LAST);
            nodes(&of.tree(all).await?.0)
        }
    })
}

/// Lines of values, each with what it is of.
fn told(all: Vec<(String, Value)>) -> Told {
    let lines = all.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
    Told { lines, json: all.into_iter().map(|(_, value)| value).collect() }
}

/// A value on one line.
fn text(value: &Value) -> String {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name} {}", text(value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn copies<T>(all: &[Copy<T>], fields: impl Fn(&T) -> Value) -> Told {
    let one = |copy: &Copy<T>| {
        let says = match &copy.says {
            Ok(says) => fields(says),
            Err(why) => json!({ "damaged": why }),
        };
        let name = format!("block {}, column {}", copy.place, copy.column);
        (name, json!({ "block": copy.place, "column": copy.column, "says": says }))
    };
    told(all.iter().map(one).collect())
}

fn superblock(of: &Superblock) -> Value {
    json!({
        "uuid": of.uuid.to_string(), "label": of.label, "created_us": of.created_us, "data_columns": of.data_columns,
        "rows": of.rows, "stripes": of.stripes, "group_stripes": of.group_stripes, "groups": of.groups(),
        "journal_stripes": of.journal_stripes, "order": format!("{:?}", of.order), "compat": of.compat,
        "ro_compat": of.ro_compat,
    })
}

fn anchor(of: &Anchor) -> Value {
    json!({
        "generation": of.generation,
        "root": { "block": of.root.place, "generation": of.root.generation, "level": of.root.level },
        "journal": { "epoch": of.journal.epoch, "sequence": of.journal.sequence, "block": of.journal.block },
        "is_clean": of.is_clean, "next_inode": of.next_inode, "inodes": of.inodes, "used_blocks": of.used_blocks,
    })
}

async fn group(of: &Inspector, number: u64) -> anyhow::Result<Told> {
    let groups = of.superblock().groups();
    anyhow::ensure!(number < groups, "there are groups 0 to {}", groups.saturating_sub(1));
    let first = of.superblock().first_group_stripe() + number * u64::from(of.superblock().group_stripes);
    let says = match of.group(number).await? {
        Err(why) => json!({ "damaged": why }),
        Ok(None) => json!({ "kind": "none: all of it is free" }),
        Ok(Some(group)) => {
            let taken: u32 = group.bitmap.iter().map(|byte| byte.count_ones()).sum();
            let bitmap: String = group.bitmap.iter().map(|byte| format!("{byte:02x}")).collect();
            let unit = if group.kind == GroupKind::Large { "stripes" } else { "blocks" };
            json!({ "kind": kind(group.kind), "taken": taken, "unit": unit, "bitmap": bitmap })
        }
    };
    let value = json!({ "group": number, "first_stripe": first, "says": says });
    Ok(told(vec![(format!("group {number}"), value)]))
}

fn kind(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Small => "small",
        GroupKind::Large => "large",
        GroupKind::Metadata => "metadata",
    }
}

/// All items of an inode, and the nodes on the way that are damaged.
async fn items_of(
    of: &Inspector,
    keys: std::ops::RangeInclusive<Key>,
) -> anyhow::Result<(Vec<Item>, Vec<(String, Value)>)> {
    let (nodes, items) = of.tree(keys).await?;
    let damaged = nodes.iter().filter_map(|node| {
        let why = node.says.as_ref().err()?;
        Some((format!("node in block {}", node.place), json!({ "block": node.place, "damaged": why })))
    });
    Ok((items, damaged.collect()))
}

async fn inode(of: &Inspector, number: u64) -> anyhow::Result<Told> {
    let keys = Key::new(number, KeyKind::Inode, 0)..=Key::new(number, KeyKind::Extent, LAST);
    let (items, mut all) = items_of(of, keys).await?;
    for item in &items {
        let value = item_value(item).unwrap_or_else(|why| json!({ "damaged": why }));
        let Key { kind, offset, .. } = item.key;
        let kind = format!("{kind:?}").to_lowercase();
        all.push((format!("{kind} {offset}"), json!({ "kind": kind, "offset": offset, "says": value })));
    }
    if all.is_empty() {
        all.push((format!("inode {number}"), json!({ "inode": number, "says": "there is none" })));
    }
    Ok(told(all))
}

fn item_value(item: &Item) -> Result<Value, String> {
    let value = &item.value;
    let told = match item.key.kind {
        KeyKind::Inode => Inode::decode(value).map(|of| {
            json!({
                "mode": format!("{:o}", of.mode), "uid": of.uid, "gid": of.gid, "links": of.links, "size_bytes": of.size_bytes,
                "blocks": of.blocks, "accessed_ns": of.accessed_ns, "modified_ns": of.modified_ns, "changed_ns": of.changed_ns,
                "born_ns": of.born_ns, "generation": of.generation, "flags": of.flags, "device": of.device, "parent": of.parent,
                "next_number": of.next_number,
            })
        }),
        KeyKind::Name | KeyKind::Number => Entry::decode(value).map(|all| all.iter().map(entry).collect()),
        KeyKind::Xattr => Xattr::decode(value).map(|all| {
            let one = |of: &Xattr| json!({ "name": String::from_utf8_lossy(&of.name), "bytes": of.value.len() });
            all.iter().map(one).collect()
        }),
        KeyKind::Extent => Extent::decode(value).map(|of| extent(&of)),
        _ => Ok(json!({ "bytes": value.len() })),
    };
    told.map_err(|error| error.to_string())
}

fn entry(of: &Entry) -> Value {
    let name = String::from_utf8_lossy(&of.name);
    json!({ "name": name, "inode": of.inode, "number": of.number, "type": format!("{:?}", of.file_type) })
}

fn extent(of: &Extent) -> Value {
    json!({ "block": of.place, "blocks": of.blocks, "has_crcs": of.crcs.is_some() })
}

async fn extents(of: &Inspector, number: u64) -> anyhow::Result<Told> {
    let keys = Key::new(number, KeyKind::Extent, 0)..=Key::new(number, KeyKind::Extent, LAST);
    let (items, mut all) = items_of(of, keys).await?;
    for item in &items {
        let name = format!("from block {}", item.key.offset);
        let value = match Extent::decode(&item.value) {
            Err(error) => json!({ "first": item.key.offset, "damaged": error.to_string() }),
            Ok(found) => {
                let mut bad = Vec::new();
                for (block, crc) in (found.place..).zip(found.crcs.iter().flatten()) {
                    match of.matches(block, *crc).await {
                        Some(true) => {}
                        Some(false) => bad.push(json!({ "block": block, "is": "not what its CRC says" })),
                        None => bad.push(json!({ "block": block, "is": "unreadable" })),
                    }
                }
                json!({ "first": item.key.offset, "extent": extent(&found), "bad": bad })
            }
        };
        all.push((name, value));
    }
    Ok(told(all))
}

async fn journal(of: &Inspector) -> anyhow::Result<Told> {
    let (records, end) = of.journal().await?;
    let mut all: Vec<(String, Value)> = Vec::new();
    for record in &records {
        let changes: Vec<String> = record.changes.iter().map(change).collect();
        let value =
            json!({ "sequence": record.sequence, "data_blocks": record.data_blocks, "changes": changes });
        all.push((format!("record {}", record.sequence), value));
    }
    if let Some(error) = end {
        all.push(("end".to_owned(), json!({ "damaged": error.to_string() })));
    } else if all.is_empty() {
        all.push(("end".to_owned(), json!("no record behind the newest anchor")));
    }
    Ok(told(all))
}

fn change(of: &Change) -> String {
    let key =
        |key: &Key| format!("{}/{}/{}", key.object, format!("{:?}", key.kind).to_lowercase(), key.offset);
    match of {
        Change::Put(of, value) => format!("put:{}({} bytes)", key(of), value.len()),
        Change::Delete(of) => format!("delete:{}", key(of)),
        Change::Take(of, run) => format!("take:{}+{}({})", run.place, run.blocks, kind(*of)),
        Change::Free(run) => format!("free:{}+{}", run.place, run.blocks),
        Change::Data { inode, first, blocks } => format!("data:{inode}/{first}+{blocks}"),
        Change::Forget { inode, first, blocks } => format!("forget:{inode}/{first}+{blocks}"),
    }
}

async fn lists(of: &Inspector) -> anyhow::Result<Told> {
    let (space, wrong) = of.space().await?;
    let mut all: Vec<(String, Value)> = Vec::new();
    for of_kind in GroupKind::ALL {
        for (rank, stripes) in Inspector::lists(&space, of_kind).into_iter().rev() {
            let value = json!({ "kind": kind(of_kind), "free_rows": rank.rows, "free_blocks": rank.blocks, "stripes": stripes });
            all.push((kind(of_kind).to_owned(), value));
        }
    }
    all.extend(wrong.iter().map(|error| ("damaged".to_owned(), json!({ "damaged": error.to_string() }))));
    let counts = space.counts();
    all.push(("all".to_owned(), json!({ "taken_blocks": counts.taken })));
    Ok(told(all))
}

async fn stripe(of: &Inspector, number: u64) -> anyhow::Result<Told> {
    let stripes = of.superblock().stripes;
    anyhow::ensure!(number < stripes, "there are stripes 0 to {}", stripes - 1);
    let line = |line: &BlockLine| {
        let is = match line.is {
            Use::Ground => "superblock or anchor, or nothing".to_owned(),
            Use::Journal => "journal".to_owned(),
            Use::Node => "node of the tree".to_owned(),
            Use::File(inode, block) => format!("block {block} of inode {inode}"),
            Use::Nothing => "nothing".to_owned(),
        };
        let (row, column) = (line.cell.row, line.cell.column);
        let value =
            json!({ "row": row, "column": column, "is_taken": line.is_taken, "is": is, "block": line.block });
        (format!("block {}", line.block), value)
    };
    Ok(told(of.stripe(number).await?.iter().map(line).collect()))
}

fn nodes(all: &[NodeLine]) -> Told {
    let bound =
        |key: Key| format!("{}/{}/{}", key.object, format!("{:?}", key.kind).to_lowercase(), key.offset);
    let one = |node: &NodeLine| {
        let says = match &node.says {
            Err(why) => json!({ "damaged": why }),
            Ok((entries, keys)) => {
                let keys = keys.map(|(first, last)| format!("{} to {}", bound(first), bound(last)));
                json!({ "entries": entries, "keys": keys })
            }
        };
        let value =
            json!({ "block": node.place, "level": node.level, "generation": node.generation, "says": says });
        (format!("node in block {}", node.place), value)
    };
    told(all.iter().map(one).collect())
}
