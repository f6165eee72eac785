//! The space against a plain list of blocks.

use proptest::prelude::*;

use super::*;
use crate::shape::Cell;

const COLUMNS: u32 = 3;
const ROWS: u32 = 4;
const STRIPE: u64 = (COLUMNS * ROWS) as u64;
const GROUPS: u64 = 4;
const GROUP_STRIPES: u32 = 2;
const FIRST: u64 = 5;
const STRIPES: u64 = GROUPS * GROUP_STRIPES as u64;

fn layout(order: Order) -> Layout {
    Layout {
        geometry: Geometry::new(COLUMNS, ROWS, FIRST + STRIPES + 1).unwrap(),
        order,
        first: StripeNo(FIRST),
        group_stripes: GROUP_STRIPES,
        groups: GROUPS,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Taken,
    Held,
}

#[derive(Debug, Clone)]
enum Action {
    Open(GroupKind, u64),
    Reopen(GroupKind, u64),
    /// Takes so many free slots of one of the open stripes.
    Take(prop::sample::Index, u32),
    Close(prop::sample::Index),
    /// Frees one of the runs that were taken.
    Free(prop::sample::Index),
    Release,
    /// Takes, frees or releases what is not what it should be.
    Wrong(u64, u64),
    Reload,
}

fn action() -> impl Strategy<Value = Action> {
    let kind = prop::sample::select(GroupKind::ALL.to_vec());
    prop_oneof![
        4 => (kind, 0..FIRST + STRIPES + 2).prop_map(|(kind, near)| Action::Open(kind, near)),
        2 => (prop::sample::select(GroupKind::ALL.to_vec()), 0..FIRST + STRIPES + 2)
            .prop_map(|(kind, stripe)| Action::Reopen(kind, stripe)),
        6 => (any::<prop::sample::Index>(), 1..STRIPE as u32 + 1).prop_map(|(one, count)| Action::Take(one, count)),
        3 => any::<prop::sample::Index>().prop_map(Action::Close),
        4 => any::<prop::sample::Index>().prop_map(Action::Free),
        2 => Just(Action::Release),
        1 => (0..(FIRST + STRIPES) * STRIPE, 1..3 * STRIPE).prop_map(|(at, count)| Action::Wrong(at, count)),
        1 => Just(Action::Reload),
    ]
}

type Run = Range<BlockNo>;

struct Model {
    layout: Layout,
    measure: Measure,
    space: Space,
    blocks: Vec<State>,
    open: Vec<Opened>,
    taken: Vec<(GroupKind, Run)>,
    held: Vec<Run>,
    /// What a tree would have of the groups.
    kept: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    fn new(layout: Layout, measure: Measure) -> Self {
        let blocks = vec![State::Free; (STRIPES * STRIPE) as usize];
        let space = Space::new(layout, measure);
        let (open, taken, held) = (Vec::new(), Vec::new(), Vec::new());
        Self { layout, measure, space, blocks, open, taken, held, kept: BTreeMap::new() }
    }

    fn states(&mut self, run: &Run) -> Option<&mut [State]> {
        let first = FIRST * STRIPE;
        let range = run.start.0.checked_sub(first)? as usize..run.end.0.checked_sub(first)? as usize;
        self.blocks.get_mut(range)
    }

    fn of_stripe(&self, stripe: u64) -> &[State] {
        &self.blocks[((stripe - FIRST) * STRIPE) as usize..][..STRIPE as usize]
    }

    fn rank(&self, stripe: u64) -> Rank {
        let states = self.of_stripe(stripe);
        let is_free = |row, column| {
            let slot = self.layout.geometry.slot(self.layout.order, Cell { row, column });
            states[slot as usize] == State::Free
        };
        let rows = (0..ROWS).filter(|row| (0..COLUMNS).all(|column| is_free(*row, column))).count();
        let rows = if self.measure == Measure::Rows { rows as u32 } else { 0 };
        Rank { rows, blocks: states.iter().filter(|state| **state == State::Free).count() as u32 }
    }

    fn group_of(stripe: u64) -> u64 {
        (stripe - FIRST) / u64::from(GROUP_STRIPES)
    }

    /// The kind that a group has, as the space says.
    fn kind(&self, stripe: u64) -> Option<GroupKind> {
        self.space.used.get(&Self::group_of(stripe)).map(Used::kind)
    }

    /// Stripes that are not open and have a free block.
    fn candidates(&self) -> impl Iterator<Item = u64> {
        let is_open = |stripe: u64| self.open.iter().any(|one| one.stripe.0 == stripe);
        (FIRST..FIRST + STRIPES).filter(move |stripe| !is_open(*stripe) && self.rank(*stripe).blocks > 0)
    }

    fn open(&mut self, kind: GroupKind, near: u64) {
        let before: Vec<_> =
            self.candidates().map(|stripe| (stripe, self.kind(stripe), self.rank(stripe))).collect();
        let opened = self.space.open(kind, StripeNo(near));
        let fits = |(_, has, rank): &&(u64, Option<GroupKind>, Rank)| {
            (has.is_none() || *has == Some(kind))
                && (kind != GroupKind::Large || u64::from(rank.blocks) == STRIPE)
        };
        let best = before.iter().filter(fits).map(|(_, _, rank)| *rank).max();
        let Some(opened) = opened else {
            assert_eq!(best, None, "there was room");
            let lends = |has: &Option<GroupKind>| match kind {
                GroupKind::Large => false,
                GroupKind::Small | GroupKind::Metadata => has.is_some(),
            };
            assert!(!before.iter().any(|(_, has, _)| lends(has)), "another kind could lend some");
            return;
        };
        let found = before.iter().find(|(stripe, ..)| *stripe == opened.stripe.0);
        let (_, had, rank) = found.expect("it has room, and nobody else fills it");
        if let Some(best) = best {
            assert_eq!((opened.kind, *rank), (kind, best), "the best one is chosen");
            assert!(had.is_none_or(|had| had == kind));
        } else {
            assert_ne!(kind, GroupKind::Large);
            assert_ne!(opened.kind, GroupKind::Large);
        }
        self.open.push(opened);
    }

    fn reopen(&mut self, kind: GroupKind, stripe: u64) {
        let may_be = self
            .candidates()
            .any(|one| one == stripe && self.kind(one) == Some(kind) && self.rank(one).rows > 0);
        let opened = self.space.reopen(kind, StripeNo(stripe));
        assert_eq!(opened, may_be.then_some(Opened { stripe: StripeNo(stripe), kind }));
        self.open.extend(opened);
    }

    fn take(&mut self, Opened { stripe, kind }: Opened, count: u32) {
        let free = self.space.free_slots(stripe);
        let is_free = |slot: &u32| self.of_stripe(stripe.0)[*slot as usize] == State::Free;
        let expected = match self.rank(stripe.0) {
            Rank { rows: 0, blocks } => blocks,
            Rank { rows, .. } => rows * COLUMNS,
        };
        assert!(free.iter().all(is_free) && free.len() == expected as usize);
        let count = if kind == GroupKind::Large { free.len() } else { (count as usize).min(free.len()) };
        let mut slots = free[..count].to_vec();
        slots.sort_unstable();
        for run in slots.chunk_by(|one, next| one + 1 == *next) {
            let first = self.layout.geometry.block(stripe, run[0]);
            let run = first..BlockNo(first.0 + run.len() as u64);
            self.space.take(kind, run.clone()).unwrap();
            self.states(&run).unwrap().fill(State::Taken);
            self.taken.push((kind, run));
        }
    }

    fn wrong(&mut self, run: Run) {
        let states = self.states(&run).map(|states| states.to_vec());
        let all = |wanted| states.iter().flatten().all(|state| *state == wanted) && states.is_some();
        let (counts, kinds) = (self.space.counts(), self.kinds());
        if !all(State::Free) {
            GroupKind::ALL.iter().for_each(|kind| assert!(self.space.take(*kind, run.clone()).is_err()));
        }
        if !all(State::Taken) {
            self.space.free(run.clone()).unwrap_err();
        }
        if !all(State::Held) {
            self.space.release(run).unwrap_err();
        }
        assert_eq!((self.space.counts(), self.kinds()), (counts, kinds), "nothing is changed");
    }

    fn kinds(&self) -> Vec<(u64, GroupKind)> {
        self.space.used.iter().map(|(group, used)| (*group, used.kind())).collect()
    }

    fn release(&mut self) {
        for run in std::mem::take(&mut self.held) {
            let free = self.space.release(run.clone()).unwrap();
            self.states(&run).unwrap().fill(State::Free);
            let stripe = StripeNo(run.start.0 / STRIPE);
            let is_free = u64::from(self.rank(stripe.0).blocks) == STRIPE;
            assert_eq!(free.contains(&stripe), is_free);
        }
    }

    fn keep(&mut self) {
        for (group, kept) in self.space.take_changed() {
            match kept {
                Some(kept) => self.kept.insert(group, kept.encode()),
                None => self.kept.remove(&group),
            };
        }
    }

    /// As after a mount: what was held is free.
    fn reload(&mut self) {
        self.keep();
        let mut space = Space::new(self.layout, self.measure);
        self.kept.iter().for_each(|(group, value)| space.load(*group, value).unwrap());
        self.space = space;
        self.open.clear();
        std::mem::take(&mut self.held).iter().for_each(|run| self.states(run).unwrap().fill(State::Free));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Open(kind, near) => self.open(kind, near),
            Action::Reopen(kind, stripe) => self.reopen(kind, stripe),
            Action::Take(one, count) if !self.open.is_empty() => {
                let opened = *one.get(&self.open);
                self.take(opened, count);
            }
            Action::Close(one) if !self.open.is_empty() => {
                let opened = self.open.remove(one.index(self.open.len()));
                self.space.close(opened.stripe);
            }
            Action::Free(one) if !self.taken.is_empty() => {
                let (_, run) = self.taken.remove(one.index(self.taken.len()));
                self.space.free(run.clone()).unwrap();
                self.states(&run).unwrap().fill(State::Held);
                self.held.push(run);
            }
            Action::Release => self.release(),
            Action::Wrong(at, count) => self.wrong(BlockNo(at)..BlockNo(at + count)),
            Action::Reload => self.reload(),
            Action::Take(..) | Action::Close(_) | Action::Free(_) => {}
        }
        let count = |wanted| self.blocks.iter().filter(|state| **state == wanted).count() as u64;
        let counts = Counts { taken: count(State::Taken), held: count(State::Held) };
        assert_eq!(self.space.counts(), counts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_space_does_what_a_list_of_blocks_does(
        by_rows in any::<bool>(),
        measure in prop::sample::select(vec![Measure::Blocks, Measure::Rows]),
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let order = if by_rows { Order::Rows } else { Order::Columns };
        let mut model = Model::new(layout(order), measure);
        actions.into_iter().for_each(|action| model.act(action));
        model.open.clone().iter().for_each(|opened| model.space.close(opened.stripe));
        for (_, run) in std::mem::take(&mut model.taken) {
            model.space.free(run.clone()).unwrap();
            model.states(&run).unwrap().fill(State::Held);
            model.held.push(run);
        }
        model.release();
        model.keep();
        prop_assert!(model.kept.is_empty() && model.space.used.is_empty());
        prop_assert!(GroupKind::ALL.iter().all(|kind| model.space.lists(*kind).is_empty()));
        prop_assert_eq!(model.space.untyped.len() as u64, GROUPS);
    }
}

/// Figure 5 of the paper, where a stripe has four blocks: stripe 13 is free, and becomes one with 0 free blocks.
#[test]
fn the_lists_of_figure_5() {
    let geometry = Geometry::new(4, 1, 20).unwrap();
    let layout = Layout { geometry, order: Order::Rows, first: StripeNo(3), group_stripes: 16, groups: 1 };
    let mut space = Space::new(layout, Measure::Blocks);
    let block = |stripe: u64, slot: u64| BlockNo(4 * stripe + slot);
    for stripe in 3..19 {
        let taken = [4, 3, 2, 1][stripe as usize % 4];
        if stripe != 13 {
            space.take(GroupKind::Small, block(stripe, 0)..block(stripe, taken)).unwrap();
        }
    }
    let lengths = |space: &Space| -> Vec<(u32, usize)> {
        space.lists(GroupKind::Small).iter().map(|(rank, count)| (rank.blocks, *count)).collect()
    };
    assert_eq!(lengths(&space), [(1, 3), (2, 4), (3, 4), (4, 1)]);
    let opened = space.open(GroupKind::Small, StripeNo(0)).unwrap();
    assert_eq!(opened.stripe, StripeNo(13));
    space.take(GroupKind::Small, block(13, 0)..block(14, 0)).unwrap();
    space.close(opened.stripe);
    assert_eq!(lengths(&space), [(1, 3), (2, 4), (3, 4)]);
    let next = space.open(GroupKind::Small, StripeNo(4)).unwrap();
    assert_eq!(next.stripe, StripeNo(7), "no stripe is free: the first from there on with most free blocks");
}

/// Two stripes have as many free blocks, and one of them has them in whole rows.
#[test]
fn free_rows_come_before_holes() {
    let mut space = Space::new(layout(Order::Rows), Measure::Rows);
    for stripe in FIRST..FIRST + STRIPES {
        let first = BlockNo(stripe * STRIPE);
        space.take(GroupKind::Small, first..BlockNo(first.0 + STRIPE)).unwrap();
    }
    let free = |space: &mut Space, stripe: u64, slots: &[u64]| {
        for slot in slots {
            let run = BlockNo(stripe * STRIPE + slot)..BlockNo(stripe * STRIPE + slot + 1);
            space.free(run.clone()).unwrap();
            space.release(run).unwrap();
        }
    };
    free(&mut space, FIRST, &[0, 3, 6, 9]);
    free(&mut space, FIRST + 1, &[2, 3, 4, 5]);
    let opened = space.open(GroupKind::Small, StripeNo(0)).unwrap();
    assert_eq!(opened.stripe, StripeNo(FIRST + 1));
    assert_eq!(space.free_slots(opened.stripe), [3, 4, 5]);
    space
        .take(GroupKind::Small, BlockNo((FIRST + 1) * STRIPE + 3)..BlockNo((FIRST + 1) * STRIPE + 6))
        .unwrap();
    assert_eq!(space.free_slots(opened.stripe), [2], "what is left is a hole");
}

#[test]
fn a_group_that_is_none_is_named() {
    let mut space = Space::new(layout(Order::Rows), Measure::Rows);
    assert!(matches!(space.load(0, &[9, 1]), Err(SpaceError::Group { group: 0, .. })));
    let value = Group { kind: GroupKind::Large, bitmap: vec![1] }.encode();
    space.load(0, &value).unwrap();
    assert_eq!(space.load(0, &value), Err(SpaceError::Kind { group: 0 }));
    assert_eq!(space.load(GROUPS, &value), Err(SpaceError::Kind { group: GROUPS }));
    let part = |stripe: u64| BlockNo((FIRST + stripe) * STRIPE)..BlockNo((FIRST + stripe) * STRIPE + 1);
    let (start, end) = (part(1).start.0, part(1).end.0);
    assert_eq!(space.free(part(1)), Err(SpaceError::State { first: start, end, wanted: "taken" }));
    assert_eq!(space.used[&0].kind(), GroupKind::Large);
    space.free(part(0)).unwrap();
    assert_eq!(space.used[&0].kind(), GroupKind::Small, "a part of a stripe is free");
    assert_eq!(space.counts(), Counts { taken: STRIPE - 1, held: 1 });
}
