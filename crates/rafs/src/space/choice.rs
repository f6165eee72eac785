//! Which stripe is filled next (rafs III-D), and which slots of it.

use std::collections::BTreeSet;

use stripewise_format::rafs::space::GroupKind;

use super::{Layout, Measure, Opened, Space};
use crate::{
    mutants::{Mutant, lives},
    shape::StripeNo,
};

impl Space {
    /// Chooses a stripe to fill, the best one not before `near` if there are several, and keeps it for the caller until it is
    /// [closed](Self::close). A stripe for a large file is all free. None if there is no room.
    ///
    /// Free stripes are best, in groups of this kind and then in unused ones, then those with most room. Where nothing is left, small
    /// files and the tree get what groups of other kinds have.
    pub fn open(&mut self, kind: GroupKind, near: StripeNo) -> Option<Opened> {
        let opened = self.open_best(kind, near);
        if opened.is_some() || self.avoided.is_empty() || kind == GroupKind::Large {
            return opened;
        }
        self.avoid(&BTreeSet::new());
        self.open_best(kind, near)
    }

    /// Opens a stripe of this kind once more, if a row of it is free, and if it is neither filled nor emptied. Where rows do not count, no
    /// stripe is opened so.
    pub fn reopen(&mut self, kind: GroupKind, stripe: StripeNo) -> Option<Opened> {
        let is_open = self.open.contains(&stripe) && !lives(Mutant::FilledTwice);
        let is_of_kind = self.kind_of(self.group_of(stripe)?) == Some(kind);
        let has_rows = self.rank(stripe).is_some_and(|rank| rank.rows > 0);
        let may_be = is_of_kind && has_rows && !is_open && !self.avoided.contains(&stripe);
        may_be.then(|| self.opened(Opened { stripe, kind }))
    }

    fn open_best(&mut self, kind: GroupKind, near: StripeNo) -> Option<Opened> {
        let whole = self.layout.geometry.stripe_blocks();
        let lists = self.lists.get(&kind);
        if self.measure == Measure::Nothing
            && kind != GroupKind::Large
            && let Some(stripe) = lists.and_then(|lists| lists.next(near))
        {
            return Some(self.opened(Opened { stripe, kind }));
        }
        let best = lists.and_then(|lists| lists.best(near));
        let is_whole = best.is_some_and(|(_, rank)| rank.blocks == whole);
        let opened = match best {
            Some((stripe, _)) if is_whole => Some(Opened { stripe, kind }),
            best => self
                .first_untyped(kind, near)
                .or(best.map(|(stripe, _)| Opened { stripe, kind }))
                .or_else(|| self.borrowed(kind, near)),
        }?;
        Some(self.opened(opened))
    }

    /// A stripe is being filled from now on.
    fn opened(&mut self, opened: Opened) -> Opened {
        self.open.insert(opened.stripe);
        self.list(opened.stripe);
        opened
    }

    /// These stripes are being emptied: they are filled only if no other one has room. Those that were before no longer are.
    pub fn avoid(&mut self, stripes: &BTreeSet<StripeNo>) {
        let before = std::mem::replace(&mut self.avoided, stripes.clone());
        before.union(stripes).for_each(|stripe| self.list(*stripe));
    }

    /// Keeps a stripe of which all is free for the caller, until it is [closed](Self::close): nobody else fills it. False if some of it is
    /// not free, or if it is being filled.
    pub fn keep(&mut self, stripe: StripeNo) -> bool {
        let Some(group) = self.group_of(stripe) else { return false };
        if self.open.contains(&stripe) || self.busy(stripe).1 > 0 {
            return false;
        }
        if self.untyped.contains(&group) {
            self.give_kind(group, GroupKind::Large);
        }
        self.opened(Opened { stripe, kind: GroupKind::Large });
        true
    }

    /// The caller no longer fills a stripe.
    pub fn close(&mut self, stripe: StripeNo) {
        self.open.remove(&stripe);
        self.list(stripe);
        if let Some(group) = self.group_of(stripe) {
            self.forget_if_empty(group);
        }
    }

    /// A stripe of a group that is free, not before `near` if there is one. The group gets this kind.
    fn first_untyped(&mut self, kind: GroupKind, near: StripeNo) -> Option<Opened> {
        let from = self.group_of(near).unwrap_or(0);
        let group = self.untyped.range(from..).next().or_else(|| self.untyped.first()).copied()?;
        self.give_kind(group, kind);
        let stripes = self.stripes_of(group);
        let stripe = if stripes.contains(&near.0) { near } else { StripeNo(stripes.start) };
        Some(Opened { stripe, kind })
    }

    /// A stripe of groups of another kind.
    fn borrowed(&mut self, kind: GroupKind, near: StripeNo) -> Option<Opened> {
        let lenders: &[GroupKind] = match kind {
            GroupKind::Large => &[],
            GroupKind::Small => &[GroupKind::Large, GroupKind::Metadata],
            GroupKind::Metadata => &[GroupKind::Small, GroupKind::Large],
        };
        let best = |lender: &GroupKind| Some((self.lists.get(lender)?.best(near)?.0, *lender));
        let (stripe, lender) = lenders.iter().find_map(best)?;
        if lender != GroupKind::Large {
            return Some(Opened { stripe, kind: lender });
        }
        self.become_small(self.group_of(stripe)?);
        Some(Opened { stripe, kind: GroupKind::Small })
    }

    /// The slots of a stripe that are filled next, row by row: those of free rows, and where there is none, all free ones. Where rows do not
    /// count first, it is all free ones, those of free rows first.
    #[must_use]
    pub fn free_slots(&self, stripe: StripeNo) -> Vec<u32> {
        let Layout { geometry, order, .. } = self.layout;
        let mut all: Vec<u32> = (0..geometry.stripe_blocks()).collect();
        if self.measure == Measure::Nothing {
            let used = self.used_of(stripe);
            all.retain(|slot| used.is_none_or(|(used, within)| used.is_free(within, *slot)));
            return all;
        }
        all.sort_by_key(|slot| geometry.cell(order, *slot).row);
        let Some((used, within)) = self.used_of(stripe) else { return all };
        let rows: BTreeSet<u32> = used.free_rows(within, &geometry, order).into_iter().collect();
        let free = all.into_iter().filter(|slot| used.is_free(within, *slot));
        let (whole, others): (Vec<u32>, Vec<u32>) =
            free.partition(|slot| rows.contains(&geometry.cell(order, *slot).row));
        let has_rows = self.measure == Measure::Rows && !whole.is_empty();
        if has_rows { whole } else { [whole, others].concat() }
    }
}
