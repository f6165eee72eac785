//! How an array is opened, and why it cannot be.

use thiserror::Error;
use uuid::Uuid;

use super::candidates::Excluded;
use crate::{
    cache::{CacheError, CacheSettings},
    error::ArrayError,
    intent::locking::Locking,
    jobs::Tuning,
    metadata::examine::ExamineError,
    plan::selection::Policy,
    shape::geometry::GeometryError,
};

/// How to open an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssembleOptions {
    /// Start even if members are absent that were there when the array was last used.
    pub run: bool,
    /// Start even if data may be lost: a dirty array without full redundancy, the newer half of a split
    /// array, or an array with too few current members, completed by members that are not current.
    pub force: bool,
    /// Write nothing, not even metadata.
    pub read_only: bool,
    /// Which requests wait for which, if not as was chosen for the array.
    pub locking: Option<Locking>,
    /// The steps of background work.
    pub tuning: Tuning,
    /// The cache, if not as was chosen for the array.
    pub cache: Option<CacheSettings>,
    /// The machine's memory, of which a cache takes a part.
    pub memory_bytes: u64,
    /// Policies besides [`POLICIES`](crate::plan::selection::POLICIES) that the members may keep.
    pub policies: &'static [&'static Policy],
}

impl Default for AssembleOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl AssembleOptions {
    /// What [`AssembleOptions::default`] gives.
    pub const fn new() -> Self {
        Self {
            run: false,
            force: false,
            read_only: false,
            locking: None,
            tuning: Tuning::PRODUCTION,
            cache: None,
            memory_bytes: u64::MAX,
            policies: &[],
        }
    }

    /// Sets [`AssembleOptions::run`](#structfield.run).
    #[must_use]
    pub const fn run(self, run: bool) -> Self {
        Self { run, ..self }
    }

    /// Sets [`AssembleOptions::force`](#structfield.force).
    #[must_use]
    pub const fn force(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// Sets [`AssembleOptions::read_only`](#structfield.read_only).
    #[must_use]
    pub const fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets [`AssembleOptions::locking`](#structfield.locking).
    #[must_use]
    pub const fn locking(self, locking: Option<Locking>) -> Self {
        Self { locking, ..self }
    }

    /// Sets [`AssembleOptions::tuning`](#structfield.tuning).
    #[must_use]
    pub const fn tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Sets [`AssembleOptions::cache`](#structfield.cache).
    #[must_use]
    pub const fn cache(self, cache: CacheSettings) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// Sets [`AssembleOptions::memory_bytes`](#structfield.memory_bytes).
    #[must_use]
    pub const fn memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self }
    }

    /// Sets [`AssembleOptions::policies`](#structfield.policies).
    #[must_use]
    pub const fn policies(self, policies: &'static [&'static Policy]) -> Self {
        Self { policies, ..self }
    }
}

/// Why an array cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
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
    /// Members describe different arrays, and neither description has more members, or more current ones,
    /// than the other.
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
        /// What is unsupported.
        reason: String,
    },
    /// The shape is impossible.
    #[error("the superblock describes an impossible array: {0}")]
    Geometry(#[from] GeometryError),
    /// Two sets of members went on without each other.
    #[error(
        "split brain: {newer} says that {older} failed, and {older} says that {newer} did; both were written to \
         apart. Give only the members to keep, or take {newer}'s side by force, then add the others anew"
    )]
    SplitBrain {
        /// A member of the newer (or first) half.
        newer: String,
        /// A member of the other half.
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
        /// The members that are not usable, and why.
        excluded: Vec<Excluded>,
    },
    /// Members are absent that were there when the array was last used.
    #[error(
        "{} when the array was last used{}; bring what is missing, or start degraded",
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
         unless it is the one that failed, or accept that by force"
    )]
    DirtyDegraded,
    /// The cache that was asked for cannot be.
    #[error(transparent)]
    Cache(#[from] CacheError),
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

/// Names the absent roles, and the members of the other roles: together they tell which disk is absent.
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
