//! Opening an array from its members: which belong, which are stale, what must be resynced.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::join_all;
use stripewise_device::{Device, EnvHandle};
use stripewise_format::extension::JobKind as DiskJobKind;

use super::{
    candidates::Chosen,
    choose::choose,
    load,
    options::{AssembleError, AssembleOptions},
};
use crate::{
    array::{
        Array, Parts,
        cache::{CacheChoice, start_destager},
    },
    error::ArrayError,
    intent::locking::{Locking, Preset},
    jobs::{Found, JobBoard, JobKind, Jobs, Request, runner},
    life::{Life, detached::on_worker},
    metadata::{
        examine::{Examination, examine_in_time},
        ledger::Ledger,
    },
    mutants::{Mutant, lives},
    plan::selection::{DEFAULT_POLICY, Policy, policy_numbered},
    roster::{Roster, membership::Membership},
    shape::geometry::StripeIndex,
    stripes::{RowLocks, StripeOptions, Stripes},
};

/// Opens an array from devices, in any order. Any thread may call this. Devices without a superblock are an
/// error only if too few others are left.
///
/// # Errors
/// [`AssembleError`]; nothing has been written, unless a member failed while it was being written.
pub async fn assemble(
    env: EnvHandle,
    devices: Vec<Arc<dyn Device>>,
    options: &AssembleOptions,
) -> Result<Array, AssembleError> {
    let (at, options) = (env.clone(), *options);
    // In a box: the future that opens an array is large.
    Box::pin(on_worker(&at, async move { assemble_here(env, devices, &options, None).await })).await
}

/// As [`assemble`], on a worker. `policy` is known, too, besides those of the options.
pub(super) async fn assemble_here(
    env: EnvHandle,
    devices: Vec<Arc<dyn Device>>,
    options: &AssembleOptions,
    policy: Option<&'static Policy>,
) -> Result<Array, AssembleError> {
    let mut examined = Vec::new();
    let mut unusable = Vec::new();
    for result in join_all(devices.into_iter().map(|device| examine_in_time(&env, device))).await {
        match result {
            Ok(examination) => examined.push(examination),
            Err(error) => unusable.push(error),
        }
    }
    if examined.is_empty() {
        return Err(AssembleError::NoMember(unusable));
    }
    let chosen = choose(&examined, unusable, options)?;
    load::check_writable(&examined, &chosen, options)?;
    open(env, &examined, chosen, options, policy).await
}

async fn open(
    env: EnvHandle,
    examined: &[Examination],
    chosen: Chosen,
    options: &AssembleOptions,
    policy: Option<&'static Policy>,
) -> Result<Array, AssembleError> {
    let locking = options.locking.unwrap_or_else(|| kept_locking(examined, &chosen));
    let loaded = load::load(examined, &chosen, options, locking).await?;
    let scrub = interrupted_scrub(examined, &chosen);
    // From the first member that can tell.
    let kept_options = load::kept_options(examined, &chosen);
    let kept = kept_options.selection_policy;
    let own = || options.policies.iter().copied().chain(policy).find(|own| own.number == kept);
    let known = policy_numbered(kept).or_else(own);
    if known.is_none() {
        let instead = DEFAULT_POLICY.name;
        tracing::warn!(kept, instead, "the members keep a write selection policy that is not known here");
    }
    let cache = CacheChoice::of(options.cache, &kept_options, &chosen.geometry, options.memory_bytes)?;
    let superblock = &examined[chosen.freshest].superblock;
    let life = Life::new(env.clone(), options.read_only);
    let board = Arc::new(JobBoard::default());
    let roster =
        Roster::new(life.clone(), board.clone(), loaded.topology, loaded.ledger, loaded.bitmap_offsets);
    let gathers = chosen.geometry.has_parity().then(|| chosen.geometry.stripe_bytes() as usize);
    let stripes = StripeOptions {
        locks: RowLocks::new(locking.stripe_locks, env.threads(), gathers),
        intent: loaded.intent,
        policy: known.unwrap_or(DEFAULT_POLICY),
        unknown_policy: if known.is_none() { kept } else { 0 },
        doubts_stale: options.read_only && !options.force,
        cache: if options.read_only { None } else { cache.make(&chosen.geometry)? },
    };
    let stripes = Stripes::new(life.clone(), Membership::of(roster.clone()), stripes);
    let jobs = Jobs::new(life.clone(), stripes.clone(), roster.clone(), board.clone(), options.tuning);
    roster.look(|ledger, _| roster.switch_meters(stripes.needs_costs(), ledger)).await;
    let parts = Parts {
        life,
        stripes,
        roster,
        jobs,
        board,
        cache,
        uuid: superblock.array_uuid,
        name: superblock.name,
        excluded: chosen.excluded,
        forced: chosen.forced,
        last: OnceLock::new(),
    };
    if !options.read_only {
        begin_serving(&parts, scrub, options.tuning.housekeeping_interval).await?;
    }
    Ok(Array::of(parts))
}

/// Records that the array is open here, and starts its tasks.
async fn begin_serving(
    parts: &Parts,
    scrub: Option<Request>,
    interval: Duration,
) -> Result<(), AssembleError> {
    let Parts { life, stripes, roster, .. } = parts;
    // Pages first: once a superblock is ours, the pages count. Next come members that are one event behind.
    // Then we record which members are left out, and that we are here, before anything is served.
    if lives(Mutant::SuperblocksBeforePages) {
        roster.catch_up().await?;
    }
    if let Some(intent) = stripes.intent()
        && !intent.rewrite(&**stripes).await
    {
        return Err(ArrayError::Failed.into());
    }
    roster.catch_up().await?;
    // Twice: an absent member may be one event ahead of all present members, and must be behind when it comes
    // back.
    let geometry = stripes.geometry();
    let enter = |ledger: &mut Ledger| {
        load::enter_roles(ledger, &geometry);
        ledger.set_cache_open(stripes.cache().is_some());
    };
    roster.record(enter).await?;
    roster.record(|_| ()).await?;
    stripes.heal_listed();
    if let Some(request) = scrub {
        parts.board.request(request);
    }
    let jobs = Arc::downgrade(&parts.jobs);
    life.spawn(runner::run_jobs(jobs.clone()));
    stripes.cache().into_iter().for_each(|cache| start_destager(life, &parts.jobs, cache));
    life.spawn(runner::run_housekeeping(jobs, life.clone(), interval));
    Ok(())
}

/// The locks that were chosen for the array.
fn kept_locking(examined: &[Examination], chosen: &Chosen) -> Locking {
    Preset::numbered(load::kept_options(examined, chosen).locking_policy).locking
}

/// A check or repair that was interrupted when the array last went down.
fn interrupted_scrub(examined: &[Examination], chosen: &Chosen) -> Option<Request> {
    let header = load::speaking_header(examined, chosen)?;
    let kind = match header.job.kind {
        DiskJobKind::Check => JobKind::Check,
        DiskJobKind::Repair => JobKind::Repair,
        _ => return None,
    };
    let stripe = StripeIndex(header.job.position_bytes / chosen.geometry.chunk_bytes() as u64);
    let found = Found { mismatched_rows: header.job.mismatches, ..Found::default() };
    (stripe.0 < chosen.geometry.stripes()).then_some(Request { kind, start_stripe: stripe.0, found })
}
