//! What power failures may leave of members: the writes that are open on each of them, and every result of their fates.

use std::{collections::HashMap, sync::Arc};

use crate::{
    SimMember,
    member::{Fate, MemberImage, OpenWrite},
};

/// Members whose power may fail at any step.
pub(crate) struct Outlook {
    members: Vec<Arc<SimMember>>,
    /// At the last look: the changes so far on each member, and what else counts.
    seen: Option<(Vec<u64>, u64)>,
    /// A digest of each member's certain content, and the change at which it was computed.
    stable: Vec<(u64, u64)>,
}

impl Outlook {
    pub(crate) fn new(members: Vec<Arc<SimMember>>) -> Self {
        let stable = members.iter().map(|member| (member.changes(), member.stable_digest())).collect();
        Self { members, seen: None, stable }
    }

    /// Whether a power failure may leave another state than at the last call. `told` grows with what else decides about that.
    pub(crate) fn has_changed(&mut self, told: u64) -> bool {
        let changes = self.members.iter().map(|member| member.changes()).collect();
        let now = Some((changes, told));
        let has_changed = self.seen != now;
        self.seen = now;
        has_changed
    }

    /// What a power failure would find now.
    pub(crate) fn moment(&mut self) -> Moment {
        Moment {
            open: self.members.iter().map(|member| member.open_writes()).collect(),
            stable: (0..self.members.len()).map(|member| self.stable_digest(member)).collect(),
        }
    }

    /// A digest of a member's certain content.
    fn stable_digest(&mut self, member: usize) -> u64 {
        let changes = self.members[member].changes();
        if self.stable[member].0 != changes {
            self.stable[member] = (changes, self.members[member].stable_digest());
        }
        self.stable[member].1
    }

    /// What these fates of the open writes would leave of each member.
    pub(crate) fn left_by(&self, moment: &Moment, fates: &[Fate]) -> Vec<MemberImage> {
        let members = self.members.iter().zip(moment.of_members(fates));
        members.map(|(member, fates)| member.left_by(fates)).collect()
    }

    /// Equal for equal bytes on all members. `known` has what was computed at this moment, for each member.
    pub(crate) fn left_digest(&self, moment: &Moment, fates: &[Fate], known: &mut Known) -> u64 {
        known.resize_with(self.members.len(), HashMap::new);
        let members = self.members.iter().zip(moment.of_members(fates)).zip(known);
        let digests = members.map(|((member, fates), known)| match known.get(fates) {
            Some(digest) => *digest,
            None => {
                let digest = member.left_by(fates).digest();
                known.insert(fates.to_vec(), digest);
                digest
            }
        });
        digests.fold(0, mix)
    }
}

/// The result of each member's fates at one moment.
pub(crate) type Known = Vec<HashMap<Vec<Fate>, u64>>;

/// A moment at which power fails.
pub(crate) struct Moment {
    /// The open writes, by member.
    open: Vec<Vec<OpenWrite>>,
    stable: Vec<u64>,
}

/// Takes up one more number.
pub(crate) fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(27)
}

impl Moment {
    /// All open writes, member by member.
    pub(crate) fn open(&self) -> Vec<OpenWrite> {
        self.open.iter().flatten().copied().collect()
    }

    /// Equal for moments with equal possible results. Writes before `torn_below_bytes` may be torn.
    pub(crate) fn digest(&self, torn_below_bytes: u64) -> u64 {
        let write = |write: &OpenWrite| {
            // Where writes may be torn it matters whether one is under way: only then it is.
            let tears = write.under_way && write.offset_bytes < torn_below_bytes;
            [write.offset_bytes, write.len_bytes, u64::from(tears), write.digest].into_iter().fold(0, mix)
        };
        let member = |(stable, open): (&u64, &Vec<OpenWrite>)| open.iter().map(write).fold(*stable, mix);
        self.stable.iter().zip(&self.open).map(member).fold(0, mix)
    }

    /// The fates of each member's writes.
    fn of_members<'f>(&self, mut fates: &'f [Fate]) -> Vec<&'f [Fate]> {
        let cut = |open: &Vec<OpenWrite>| {
            let (own, rest) = fates.split_at(open.len());
            fates = rest;
            own
        };
        self.open.iter().map(cut).collect()
    }

    /// What becomes of the open writes, in words.
    pub(crate) fn describe(&self, fates: &[Fate]) -> String {
        let open =
            self.open.iter().enumerate().flat_map(|(m, open)| open.iter().map(move |write| (m, write)));
        let told = open.zip(fates).map(|((member, write), fate)| {
            let fate = match fate {
                Fate::Lost => "lost",
                Fate::Kept => "kept",
                Fate::Torn => "torn",
            };
            format!("m{member} {fate} {} bytes at {}", write.len_bytes, write.offset_bytes)
        });
        told.collect::<Vec<_>>().join(", ")
    }
}
