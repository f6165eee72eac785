//! `stripewise create`.

mod args;

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};

use serde_json::json;
use stripewise::{CacheError, CacheKind, Preview};
use stripewise_wire::{ArrayStatus, CacheChange, ClassChoice};

pub(crate) use self::args::CreateArgs;
use self::args::MapChoice;
use super::{cache::ms, mdadm, show};
use crate::{
    client,
    daemon::{self, CreateSpec, DaemonSpec, LookedAt, Opening, start_daemon},
    given::{absolute_path, check_given_once, given_classes, is_same_device},
    said::{note, print_json, say, tell_notes},
    sizes::format_size,
};

/// The chunk size if none is given.
const CHUNK_BYTES_DEFAULT: u32 = 64 << 10;

/// The word for a member that is to be added later.
const MISSING: &str = "missing";

pub(crate) fn create(args: &CreateArgs, json: bool) -> anyhow::Result<ExitCode> {
    let mut create = create_spec(args)?;
    client::check_name(&args.name)?;
    check_given_once(create.devices())?;
    create.looked_at = look_at_contents(args, &create)?;
    if args.level == 1 && args.chunk.is_some() {
        note!("stripewise: {}: --chunk is ignored: the copies of level 1 know no chunks", args.name);
    }
    if args.dry_run {
        return dry_run(args, &create, json);
    }
    let (name, workers) = (args.name.clone(), args.workers.spec());
    let status = start_daemon(&DaemonSpec { name, workers, opening: Opening::Create(Box::new(create)) })?;
    tell_notes(&args.name, &status.advice);
    tell_notes(&args.name, cache_note(args, &status).as_slice());
    if status.is_known() {
        tell_notes(&args.name, mdadm::hint(&status.uuid).as_slice());
    }
    show::opened(&status, json)?;
    Ok(ExitCode::SUCCESS)
}

/// Says what would be done. It finds places and advice as the real creation does.
fn dry_run(args: &CreateArgs, create: &CreateSpec, json: bool) -> anyhow::Result<ExitCode> {
    let Preview { members, advice, is_measured } =
        daemon::preview(&args.name, create).with_context(|| args.name.clone())?;
    let places = CreateSpec { members, looked_at: BTreeMap::new(), ..create.clone() };
    tell_notes(&args.name, &advice);
    if json {
        print_json(&json!({
            "name": args.name,
            "would_create": places,
            "parity_is_measured": is_measured,
            "advice": advice,
        }))?;
    } else {
        say!("would make raid{} '{}' of {}", create.level, args.name, members_text(&places));
        let plan = [spares_text(create), parity_text(args, &places, is_measured), cache_text(args)];
        plan.into_iter().flatten().for_each(|line| say!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The members by role, as they will be.
fn members_text(create: &CreateSpec) -> String {
    let members = create.members.iter().map(|member| member.as_deref().unwrap_or(MISSING));
    members.collect::<Vec<_>>().join(" ")
}

fn spares_text(create: &CreateSpec) -> Option<String> {
    (!create.spares.is_empty()).then(|| format!("spares: {}", create.spares.join(" ")))
}

/// Where level 4 will keep its parity.
fn parity_text(args: &CreateArgs, places: &CreateSpec, is_measured: bool) -> Option<String> {
    if places.level != 4 {
        return None;
    }
    let last = places.members.last()?.as_deref().unwrap_or(MISSING);
    let why = match places.parity_on_fastest {
        None if args.assume_clean => ": with --assume-clean members keep their places",
        _ if is_measured => {
            ", as reads were measured just now: when it is made, members are measured again, with writes, and the fastest \
             takes the last place"
        }
        _ => "",
    };
    Some(format!("parity on {last}{why}"))
}

fn create_spec(args: &CreateArgs) -> anyhow::Result<CreateSpec> {
    let count = args.devices.len();
    let wanted = args.raid_devices.unwrap_or(count.saturating_sub(args.spare_devices));
    if wanted + args.spare_devices != count {
        let spare = args.spare_devices;
        bail!(
            "--raid-devices {wanted} and --spare-devices {spare} need {} devices; given: {count}",
            wanted + spare
        );
    }
    let (members, spares) = args.devices.split_at(wanted);
    if spares.iter().any(|spare| spare == MISSING) {
        bail!("a spare cannot be missing; leave it out");
    }
    check_cache(args)?;
    let parity = ParityChoice::parse(args)?;
    let mut members = members.to_vec();
    if let ParityChoice::Device(device) = &parity {
        put_last(&mut members, device)?;
    }
    let given: Vec<_> = args.devices.iter().filter(|device| *device != MISSING).cloned().collect();
    let path = |device: &String| absolute_path(device);
    let member = |device: &String| if device == MISSING { Ok(None) } else { path(device).map(Some) };
    Ok(CreateSpec {
        level: args.level,
        chunk_bytes: args.chunk.filter(|_| args.level != 1).unwrap_or(CHUNK_BYTES_DEFAULT),
        members: members.iter().map(member).collect::<Result<_, _>>()?,
        spares: spares.iter().map(path).collect::<Result<_, _>>()?,
        assume_clean: args.assume_clean,
        member_bytes: args.size,
        region_bytes: args.bitmap_chunk,
        distributed: args.bitmap_map.map(|map| map == MapChoice::Distributed),
        preset: args.locking.number,
        uuid: args.uuid.clone(),
        kept_name: args.kept_name.clone(),
        policy: args.policy.map(|policy| policy.name.to_owned()),
        cache: CacheChange {
            kind: args.cache.clone(),
            size_bytes: args.cache_size,
            flush_ms: args.cache_flush_time.map(ms),
            alloc: args.cache_alloc.clone(),
            ..CacheChange::default()
        },
        classes: given_classes(&args.class, &given)?,
        measure: !args.no_measure,
        parity_on_fastest: match parity {
            ParityChoice::Auto => None,
            ParityChoice::Fastest => Some(true),
            ParityChoice::Last | ParityChoice::Device(_) => Some(false),
        },
        force: args.force || args.yes,
        looked_at: BTreeMap::new(),
    })
}

/// Whether the level has parity, and may have a cache.
fn has_parity(args: &CreateArgs) -> bool {
    [4, 5, 6].contains(&args.level)
}

/// Refuses settings of a cache where there is none, or may be none.
fn check_cache(args: &CreateArgs) -> anyhow::Result<()> {
    let wants_cache = args.cache.as_deref().is_some_and(|kind| kind != CacheKind::None.name());
    if wants_cache && !has_parity(args) {
        bail!(CacheError::Level(args.level));
    }
    let given = [
        ("--cache-size", args.cache_size.is_some()),
        ("--cache-flush-time", args.cache_flush_time.is_some()),
        ("--cache-alloc", args.cache_alloc.is_some()),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    match args.cache.as_deref() {
        None => {
            bail!("{option} says nothing without a cache: give --cache auto, stripe+ct, stripe or pbg, too")
        }
        Some(none) if none == CacheKind::None.name() => bail!(
            "{option} says nothing with --cache {none}: leave it out, or give --cache auto, stripe+ct, stripe or pbg. For a cache \
             that is switched on later, `stripewise cache` takes it"
        ),
        Some(_) => Ok(()),
    }
}

/// What the cache means that the array got because its members rotate; or that it got none, though a member is said to rotate.
fn cache_note(args: &CreateArgs, status: &ArrayStatus) -> Option<String> {
    let kind = args.cache.is_none().then_some(status.cache.as_ref()?.kind.as_str())?;
    let name = &args.name;
    if kind != CacheKind::None.name() {
        return Some(format!(
            "a member rotates, so the array has the cache '{kind}': a write is acknowledged when it is in memory, and on \
             members after the next flush, as with a disk's write cache; `stripewise cache {name} none` does without"
        ));
    }
    let is_said = args.class.iter().any(|(_, class)| *class == ClassChoice::Hdd);
    is_said.then(|| {
        format!(
            "no member was measured to rotate, whatever --class says, so the array has no cache; `stripewise cache {name} auto` \
             gives it one"
        )
    })
}

/// The cache, as it is going to be.
fn cache_text(args: &CreateArgs) -> Option<String> {
    let is_open = args.cache.is_none() && !args.no_measure && has_parity(args);
    if is_open {
        return Some(format!(
            "cache {} if a member is measured to rotate, else none",
            CacheKind::Auto.name()
        ));
    }
    let size = args.cache_size.map_or(String::new(), |size| format!(" of {}", format_size(size)));
    let kind = args.cache.as_deref().filter(|kind| *kind != "none")?;
    Some(format!("cache {kind}{size}"))
}

/// What `--parity` can be.
#[derive(Debug, PartialEq, Eq)]
enum ParityChoice {
    Auto,
    Fastest,
    Last,
    Device(String),
}

impl ParityChoice {
    fn parse(args: &CreateArgs) -> anyhow::Result<Self> {
        let choice = match args.parity.as_deref() {
            None => Self::Auto,
            Some("fastest") => Self::Fastest,
            Some("last") => Self::Last,
            Some(device) => Self::Device(device.to_owned()),
        };
        if choice != Self::Auto && args.level != 4 {
            bail!("--parity is for level 4; level {} keeps none in one place", args.level);
        }
        Ok(choice)
    }
}

/// Gives a member the last role, which is parity's in level 4.
fn put_last(members: &mut Vec<String>, device: &str) -> anyhow::Result<()> {
    let index = members.iter().position(|member| member != MISSING && is_same_device(member, device));
    let index = index.with_context(|| format!("--parity {device}: it is none of the members given"))?;
    let last = members.remove(index);
    members.push(last);
    Ok(())
}

/// Refuses devices that hold something, unless told otherwise. The daemon compares the devices that it opens
/// with what was seen here.
fn look_at_contents(args: &CreateArgs, spec: &CreateSpec) -> anyhow::Result<BTreeMap<String, LookedAt>> {
    let mut looked_at = BTreeMap::new();
    for device in spec.devices() {
        let seen =
            LookedAt::look(Path::new(device)).with_context(|| format!("{device}: cannot be looked at"))?;
        looked_at.extend(seen.map(|seen| (device.clone(), seen)));
    }
    let holding = looked_at.iter().filter(|(_, seen)| !seen.found.is_empty());
    let holding: Vec<_> = holding.map(|(device, seen)| daemon::holding(device, &seen.found)).collect();
    if holding.is_empty() {
        return Ok(looked_at);
    }
    let text = holding.join("; ");
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if spec.force {
        // More checks come before anything is overwritten.
        note!("stripewise: {}: to be overwritten: {text}", args.name);
    } else if terminal {
        ensure!(confirm(&format!("{text}. Overwrite?"))?, "nothing was overwritten");
    } else {
        bail!("{text}; give --force to overwrite it");
    }
    Ok(looked_at)
}

fn confirm(question: &str) -> anyhow::Result<bool> {
    note!(part: "{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
