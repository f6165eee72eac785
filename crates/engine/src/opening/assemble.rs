//! Opening an array from its members: who belongs, who is stale, what must be resynced.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8},
};

use futures_util::{future::join_all, lock::Mutex as AsyncMutex};
use parking_lot::{Mutex, RwLock};
use stripewise_device::{
    Device, EnvHandle,
    sync::{Readers, Replaced},
};
use stripewise_format::extension::JobKind as DiskJobKind;

use super::{
    candidates::Chosen,
    choose::choose,
    load,
    options::{AssembleError, AssembleOptions},
};
use crate::{
    array::{Array, Shared},
    error::ArrayError,
    intent::locking::{Locking, Preset},
    jobs::{self, Found, JobBoard, JobKind, Request},
    locks::RowLocks,
    members::stats::Stats,
    metadata::examine::{Examination, examine_in_time},
    mutants::{Mutant, lives},
    plan::selection::{DEFAULT_POLICY, policy_numbered},
    shape::geometry::StripeIndex,
    stripes::trace::Tracer,
};

/// Opens an array from devices, in any order. Devices without superblock are an error only if too few are left.
///
/// # Errors
/// [`AssembleError`]; nothing has been written then, except that a member failed while it was.
pub async fn assemble(
    env: EnvHandle,
    devices: Vec<Arc<dyn Device>>,
    options: &AssembleOptions,
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
    open(env, &examined, chosen, options).await
}

async fn open(
    env: EnvHandle,
    examined: &[Examination],
    chosen: Chosen,
    options: &AssembleOptions,
) -> Result<Array, AssembleError> {
    let locking = options.locking.unwrap_or_else(|| kept_locking(examined, &chosen));
    let loaded = load::load(examined, &chosen, options, locking).await?;
    let scrub = interrupted_scrub(examined, &chosen);
    // As the first of the members has it that can tell.
    let kept = load::kept_options(examined, &chosen).selection_policy;
    let known = policy_numbered(kept);
    if known.is_none() {
        let instead = DEFAULT_POLICY.name;
        tracing::warn!(kept, instead, "the members keep a write selection policy that is not known here");
    }
    let superblock = &examined[chosen.freshest].superblock;
    let requests = Arc::new(Readers::default());
    let gathers = chosen.geometry.has_parity().then(|| chosen.geometry.stripe_bytes() as usize);
    let shared = Arc::new_cyclic(|me| Shared {
        me: me.clone(),
        env: env.clone(),
        geometry: chosen.geometry,
        uuid: superblock.array_uuid,
        name: superblock.name,
        topology: Replaced::new(requests.clone(), Arc::new(loaded.topology)),
        locks: RowLocks::new(locking.stripe_locks, env.threads(), gathers),
        intent: loaded.intent,
        bitmap_offsets: RwLock::new(loaded.bitmap_offsets),
        ledger: AsyncMutex::new(loaded.ledger),
        selection: Replaced::new(requests.clone(), Arc::new((known.unwrap_or(DEFAULT_POLICY).make)())),
        unknown_policy: AtomicU8::new(if known.is_none() { kept } else { 0 }),
        metered: AtomicBool::new(false),
        enrolling: Mutex::default(),
        tracer: Tracer::default(),
        jobs: Arc::new(JobBoard::default()),
        stats: Stats::default(),
        closing: AtomicBool::new(false),
        read_only: options.read_only,
        doubts_stale: options.read_only && !options.force,
        tuning: options.tuning,
        excluded: chosen.excluded,
        forced: chosen.forced,
        requests,
        background: Readers::default(),
        handing_over: Mutex::new(None),
        holders_changed: AtomicBool::new(false),
        members_changed: AtomicBool::new(false),
        unlisting: AsyncMutex::new(()),
        healing: Mutex::default(),
    });
    let array = Array::of(shared.clone());
    shared.switch_meters(&*shared.ledger.lock().await);
    if options.read_only {
        return Ok(array);
    }
    // Pages first: once a superblock is ours, the pages count. Then members that are an event behind; then who is left out, and that
    // we are here, before anything is served.
    if lives(Mutant::SuperblocksBeforePages) {
        shared.catch_up().await?;
    }
    if let Some(intent) = &shared.intent
        && !intent.rewrite(&*shared).await
    {
        return Err(ArrayError::Failed.into());
    }
    shared.catch_up().await?;
    // Twice: a member that is absent may be an event ahead of all that are here, and is to be behind when it comes back.
    shared.record(|ledger| load::enter_roles(ledger, &shared.geometry)).await?;
    shared.record(|_| ()).await?;
    shared.heal_listed();
    if let Some(request) = scrub {
        shared.jobs.request(request);
    }
    let shared = Arc::downgrade(&shared);
    env.spawn(Box::pin(jobs::run_jobs(shared.clone())));
    let (own_env, interval) = (env.clone(), options.tuning.housekeeping_interval);
    env.spawn(Box::pin(jobs::run_housekeeping(shared, own_env, interval)));
    Ok(array)
}

/// The locks that were chosen for the array.
fn kept_locking(examined: &[Examination], chosen: &Chosen) -> Locking {
    Preset::numbered(load::kept_options(examined, chosen).locking_policy).locking
}

/// A check or repair that the array's end interrupted.
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
