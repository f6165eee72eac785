//! Opening an array from its members: who belongs, who is stale, what must be resynced.

mod agree;
mod choose;
mod force;
mod load;

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
use thiserror::Error;
use uuid::Uuid;

pub use choose::{Chosen, Excluded, choose};

use crate::{
    array::{Array, Shared},
    error::ArrayError,
    examine::{Examination, ExamineError, examine_in_time},
    geometry::{GeometryError, StripeIndex},
    jobs::{self, Found, JobBoard, JobKind, Request, Tuning},
    locking::{Locking, Preset},
    locks::RowLocks,
    mutants::{Mutant, lives},
    plan::selection::{DEFAULT_POLICY, policy_numbered},
    stats::Stats,
    trace::Tracer,
};

/// How to open an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AssembleOptions {
    /// Start although members are absent that were there when the array was last used.
    pub run: bool,
    /// Start although data may be lost: a dirty array without full redundancy, the newer half of a split one, or with
    /// members that are not current where too few others are left.
    pub force: bool,
    /// Write nothing, not even metadata.
    pub read_only: bool,
    /// Who waits for whom, if not as was chosen for the array.
    pub locking: Option<Locking>,
    /// The steps of background work.
    pub tuning: Tuning,
}

/// Why an array cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AssembleError {
    /// None of the devices has a superblock.
    #[error("no member was found: {}", problems(.0))]
    NoMember(Vec<ExamineError>),
    /// Members of more than one array.
    #[error("{a} belongs to array {a_uuid} and {b} to array {b_uuid}; give the members of one array")]
    MixedArrays {
        /// A member.
        a: String,
        /// Its array.
        a_uuid: Uuid,
        /// Another.
        b: String,
        /// Its array.
        b_uuid: Uuid,
    },
    /// The same member twice, by another name or as a copy.
    #[error("{a} and {b} are the same member ({uuid}); give one of them, and never run an array on both")]
    SameMember {
        /// One.
        a: String,
        /// The other.
        b: String,
        /// Their identity.
        uuid: Uuid,
    },
    /// Members describe different arrays, and neither description has more members, or more current ones, than the other.
    #[error(
        "{a} and {b} disagree on the array's {field}, and as many members say the one as the other; give only the members that \
         belong together"
    )]
    Disagree {
        /// A member.
        a: String,
        /// One that disagrees with it.
        b: String,
        /// What they disagree on.
        field: &'static str,
    },
    /// Two members for one role, neither of them a replacement.
    #[error("{a} and {b} both claim role {role}; leave out the one that is not current")]
    SameRole {
        /// One.
        a: String,
        /// The other.
        b: String,
        /// The role.
        role: u16,
    },
    /// The array has features that we cannot handle.
    #[error("{member}: {reason}")]
    Unsupported {
        /// The member whose superblock says so.
        member: String,
        /// What it is.
        reason: String,
    },
    /// The shape is impossible.
    #[error("the superblock describes an impossible array: {0}")]
    Geometry(#[from] GeometryError),
    /// Two sets of members went on without each other.
    #[error(
        "split brain: {newer} says that {older} failed, and {older} says that {newer} did; both were written to \
         apart. Give only the members to keep (or --force for {newer}'s side), then add the others anew"
    )]
    SplitBrain {
        /// A member of the newer (or first) half.
        newer: String,
        /// A member of the other.
        older: String,
    },
    /// Too few members.
    #[error("{have} of {of} members are usable and {need} are needed{}", excluded_text(.excluded))]
    TooFew {
        /// Usable members.
        have: usize,
        /// Members of the complete array.
        of: usize,
        /// What the level needs.
        need: usize,
        /// Those that are not usable, and why.
        excluded: Vec<Excluded>,
    },
    /// Members are absent that were there at last.
    #[error(
        "{} when the array was last used{}; bring what is missing, or start degraded with --run",
        absent_text(.roles, .given), excluded_text(.excluded)
    )]
    Absent {
        /// Their roles.
        roles: Vec<usize>,
        /// The members that were given, by role.
        given: Vec<(usize, String)>,
        /// Members that were given but are not usable.
        excluded: Vec<Excluded>,
    },
    /// Parity may disagree and is needed in place of a missing member.
    #[error(
        "the array is degraded, and was not stopped cleanly, or a member was lost before a resync was over: rows that were \
         being written, or were not resynced yet, may have a missing part that cannot be told. Bring the missing member, \
         unless it is the one that failed, or accept that with --force"
    )]
    DirtyDegraded,
    /// A member could not be read or written.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

fn problems(errors: &[ExamineError]) -> String {
    if errors.is_empty() {
        return "no device was given".to_owned();
    }
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Which roles, and who has the others: that tells which disk it is.
fn absent_text(roles: &[usize], given: &[(usize, String)]) -> String {
    let numbers: Vec<_> = roles.iter().map(usize::to_string).collect();
    let given: Vec<_> = given.iter().map(|(role, name)| format!("{role} on {name}")).collect();
    let (numbers, given) = (numbers.join(", "), given.join(", "));
    match roles.len() {
        1 => format!("a member is absent, of role {numbers} (given: {given}), that was there"),
        count => format!("{count} members are absent, of roles {numbers} (given: {given}), that were there"),
    }
}

fn excluded_text(excluded: &[Excluded]) -> String {
    excluded.iter().map(|e| format!("; {}: {}", e.name, e.reason)).collect()
}

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
