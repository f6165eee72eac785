//! Write selection on an open array: which policy, what it learns about members, and what it decided.

use std::sync::{Arc, atomic::Ordering};

use stripewise_format::extension::MemberClass;

use super::{Stripes, beside::Beside, trace::StripeWay, traced::spread_of};
use crate::{
    cache::{Cache, DestageCost},
    compute::{CachedCells, CellsOf, Content},
    members::topology::Topology,
    mutants::{Mutant, lives},
    plan::{
        self, Band, Plan, PlanError, Presence, Recipe, StripeState, WriteSelection,
        costs::{ColumnCosts, MemberCost, ServiceTime},
        passes::{self, ColumnStrides, Edges, Filled, GapRule, MemberStrides},
        quick::{self, Columns},
        recipe::Span,
        selection::Policy,
    },
    shape::{
        geometry::{Geometry, StripeIndex, StripeSpan},
        rows::RowSet,
    },
};

/// What the members of a stripe cost now, and which gaps they take longer to skip than to fill.
pub(super) struct StripeCosts<'a> {
    pub(super) topology: &'a Topology,
    pub(super) stripe: StripeIndex,
    pub(super) gaps: GapRule,
    /// Where gaps may reach into the stripes beside this one.
    pub(super) beside: Option<Beside>,
}

impl ColumnCosts for StripeCosts<'_> {
    fn of(&self, column: usize) -> MemberCost {
        let member = self.topology.reader(self.stripe, column);
        member.map_or(MemberCost::SSD, |member| member.meter.cost())
    }

    fn parity_member(&self) -> usize {
        let geometry = &self.topology.geometry;
        geometry.member_of(self.stripe, geometry.data_columns()).0
    }
}

impl ColumnStrides for StripeCosts<'_> {
    fn of(&self, column: usize) -> MemberStrides {
        self.topology
            .reader(self.stripe, column)
            .map_or(MemberStrides::NONE, |member| member.strides(self.gaps))
    }

    fn edges(&self, column: usize) -> Edges {
        let of_column = |beside: &Beside| beside.of_column(&self.topology.geometry, self.stripe, column);
        self.beside.as_ref().map_or(Edges::default(), of_column)
    }
}

impl Stripes {
    /// These rows of a stripe, and the gaps between them and beside them that some member may want filled.
    pub(super) fn with_gaps(&self, cache: &Cache, stripe: StripeIndex, rows: RowSet) -> RowSet {
        let rule = self.gap_rule();
        let end = |topology: &Topology| topology.members().map(|member| member.strides(rule).end()).max();
        let Some(end) = self.members.look(end).filter(|end| *end > 0) else { return rows };
        let geometry = self.geometry();
        let edges = self.beside(cache, stripe).map_or(Edges::default(), |beside| beside.of_stripe(&geometry));
        passes::with_gaps(rows, edges, end)
    }

    /// The stripes beside one that is destaged, if gaps may reach into them: ours, as weighed gaps are.
    pub(super) fn beside(&self, cache: &Cache, stripe: StripeIndex) -> Option<Beside> {
        let reaches = cache.settings().gaps == GapRule::Weighed;
        reaches.then(|| Beside::new(cache, &self.geometry(), stripe))
    }

    /// By which rule gaps are filled, if they are.
    fn gap_rule(&self) -> GapRule {
        self.cache().map_or(GapRule::default(), |cache| cache.settings().gaps)
    }

    /// Whether a member is a hard disk.
    pub(crate) fn rotates(&self) -> bool {
        self.members.look(|topology| topology.members().any(|member| member.class() == MemberClass::Hdd))
    }

    /// What a destage costs on members, which are taken for alike.
    pub(crate) fn destage_cost(&self) -> DestageCost {
        self.members.look(|topology| {
            let costs: Vec<MemberCost> = topology.members().map(|member| member.meter.cost()).collect();
            let mean = |part: &dyn Fn(&MemberCost) -> f32| {
                costs.iter().map(part).sum::<f32>() / costs.len().max(1) as f32
            };
            let time = |of: fn(&MemberCost) -> ServiceTime| ServiceTime {
                fixed_ns: mean(&|cost| of(cost).fixed_ns),
                block_ns: mean(&|cost| of(cost).block_ns),
            };
            let member = MemberCost {
                read: time(|cost| cost.read),
                write: time(|cost| cost.write),
                rewrite: time(|cost| cost.rewrite),
                queue: 0.0,
            };
            let geometry = &topology.geometry;
            let parity_columns = geometry.parity_columns();
            DestageCost { member, data_columns: geometry.data_columns(), parity_columns }
        })
    }

    /// Sets how partly written rows are written from now on.
    pub(crate) fn use_policy(&self, policy: &'static Policy) {
        self.selection.store(Arc::new((policy.make)()));
        self.unknown_policy.store(0, Ordering::Relaxed);
    }

    /// The policy by which partly written rows are written.
    pub(crate) fn policy(&self) -> &'static Policy {
        self.selection.load().policy()
    }

    /// Whether the policy, or the cache, looks at what members' I/O costs.
    pub(crate) fn needs_costs(&self) -> bool {
        let of_cache =
            |cache: &Option<Arc<Cache>>| cache.iter().any(|cache| cache.settings().kind.needs_costs());
        self.selection.load().needs_costs() || self.cache.look(of_cache)
    }

    /// How long writes of parts of stripes, destages, and all else have occupied the members so far, in nanoseconds; and
    /// how many members there are.
    pub(crate) fn spent(&self) -> ([u64; 3], u64) {
        self.members.look(|topology| {
            topology.members().fold(([0; 3], 0), |(mut sum, count), member| {
                sum.iter_mut().zip(member.meter.spent_ns()).for_each(|(sum, ns)| *sum += ns);
                (sum, count + 1)
            })
        })
    }

    /// Makes the recipe of a stripe's write in the empty `recipe`: recipes are large. Columns in `unreadable`
    /// can be written, but not read.
    #[inline(always)]
    pub(super) fn make_recipe(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        (stripe, content): (StripeIndex, &Content),
        unreadable: &[usize],
        recipe: &mut Recipe,
    ) -> Result<(), PlanError> {
        let is_made = match content {
            Content::Span(span, _) => {
                unreadable.is_empty() && self.is_made_quickly(selection, topology, (span, false), recipe)
            }
            Content::Cells(cells, of) => {
                self.is_made_of_cells(selection, topology, (stripe, cells, of), unreadable, recipe)
            }
        };
        if !is_made {
            *recipe = self.planned_recipe(selection, topology, (stripe, content), unreadable)?;
        }
        Ok(())
    }

    /// Makes the recipe of cells that need no plan: whole rows, or what lies as a client's write may. False if they need
    /// one.
    #[inline(never)]
    fn is_made_of_cells(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        (stripe, cells, of): (StripeIndex, &CachedCells, &CellsOf),
        unreadable: &[usize],
        recipe: &mut Recipe,
    ) -> bool {
        if may_fill(cells, of.held()) {
            return false;
        }
        let is_made = |rows| self.is_made_by_rows(selection, topology, (stripe, rows), recipe);
        if of.whole_rows().is_some_and(is_made) {
            return true;
        }
        let span = span_of(stripe, cells, &topology.geometry).filter(|_| unreadable.is_empty());
        let is_destage = matches!(of, CellsOf::Cache(_));
        span.is_some_and(|span| self.is_made_quickly(selection, topology, (&span, is_destage), recipe))
    }

    /// Makes the recipe of a write that needs no plan. False if this write needs one.
    fn is_made_quickly(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        (span, is_destage): (&StripeSpan, bool),
        recipe: &mut Recipe,
    ) -> bool {
        if topology.has_all() {
            return self.is_made_around(&[], selection, topology, (span, is_destage), recipe);
        }
        let missing = topology.missing(span.stripe);
        self.is_made_around(&missing, selection, topology, (span, is_destage), recipe)
    }

    /// As [`Stripes::is_made_quickly`] where these columns are missing. Inlined, since little of it is left if none is.
    #[inline(always)]
    fn is_made_around(
        &self,
        missing: &[usize],
        selection: &dyn WriteSelection,
        topology: &Topology,
        (span, is_destage): (&StripeSpan, bool),
        recipe: &mut Recipe,
    ) -> bool {
        let columns = Columns { geometry: &topology.geometry, missing };
        let costs = StripeCosts { topology, stripe: span.stripe, gaps: GapRule::default(), beside: None };
        let before = u64::from(lives(Mutant::TrustOfNeighbour));
        let trusted = StripeIndex(span.stripe.0.saturating_sub(before));
        let tell = |band: &Band| {
            if self.tracer.is_on() {
                self.trace(selection, &topology.geometry, (span, is_destage), &[*band]);
            }
        };
        quick::whole(&columns, span, recipe, tell)
            || self.is_trusted(trusted)
                && quick::one_column(&columns, span, (selection, &costs), recipe, tell)
    }

    /// Makes the recipe of whole rows. False if it needs a plan.
    #[inline(never)]
    fn is_made_by_rows(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        (stripe, rows): (StripeIndex, Span),
        recipe: &mut Recipe,
    ) -> bool {
        let (geometry, missing) = (&topology.geometry, topology.missing(stripe));
        let tell = |band: &Band| {
            if self.tracer.is_on() {
                let way = if self.cache().is_some() { StripeWay::Whole } else { StripeWay::Uncached };
                let (start, len) = (rows.bytes().start, rows.bytes().len() * geometry.data_columns());
                let span = StripeSpan { stripe, start, len, request_offset: 0 };
                self.tell(selection, geometry, (&span, way), &[*band]);
            }
        };
        quick::rows(&Columns { geometry, missing: &missing }, rows, recipe, tell)
    }

    /// The recipe of any write, by a plan. Not inlined: plans are large.
    #[inline(never)]
    fn planned_recipe(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        (stripe, content): (StripeIndex, &Content),
        unreadable: &[usize],
    ) -> Result<Recipe, PlanError> {
        let (geometry, trusted) = (&topology.geometry, self.is_trusted(stripe));
        let (mut state, mut plan) = (StripeState::default(), Plan::default());
        let presence = |column| match topology.presence(stripe, column) {
            Presence::Present if unreadable.contains(&column) => Presence::Unreadable,
            presence => presence,
        };
        match content {
            Content::Span(span, _) => state.set_for_write(geometry, span, trusted, presence),
            Content::Cells(cells, _) => {
                state.set_empty(geometry, trusted, presence);
                cells.enter_into(RowSet::ALL, &mut state);
            }
        }
        if lives(Mutant::FirstColumnPlanned) && matches!(content, Content::Cells(_, CellsOf::Client(_))) {
            let dirty = state.columns.iter_mut().filter(|column| !column.dirty.is_empty());
            dirty.skip(1).for_each(|column| column.dirty = RowSet::EMPTY);
        }
        let held = match content {
            Content::Cells(_, of) => Some(of.held()).filter(|held| !held.is_empty()),
            Content::Span(..) => None,
        };
        let gaps = held.map_or(GapRule::default(), |_| self.gap_rule());
        let fills = matches!(content, Content::Cells(cells, of) if may_fill(cells, of.held()));
        let cache = if fills { self.cache() } else { None };
        let beside = cache.and_then(|cache| self.beside(&cache, stripe));
        let costs = StripeCosts { topology, stripe, gaps, beside };
        plan::build_into(&mut plan, &state, selection, &costs)?;
        let mut filled = Filled::default();
        if let Some(held) = held {
            filled = passes::transform(&mut plan, &state, held, &costs);
        }
        let chunk_bytes = geometry.chunk_bytes();
        if self.tracer.is_on() {
            let span = match content {
                Content::Span(span, _) => *span,
                Content::Cells(cells, _) => spread_of(stripe, cells, chunk_bytes),
            };
            self.trace(selection, geometry, (&span, content.is_destaged()), &plan.bands);
        }
        let recipe = match content {
            Content::Span(span, _) => {
                plan::lower(&plan, &state, |column| [span.in_column(column, chunk_bytes).0])
            }
            Content::Cells(cells, _) => plan::lower(&plan, &state, |column| cells.new_ranges(column)),
        };
        Ok(Recipe { filled, ..recipe })
    }
}

/// Whether rows are locked for gaps between the dirty ones, or beside them.
fn may_fill(cells: &CachedCells, held: RowSet) -> bool {
    held.len() > cells.dirty_rows().len()
}

/// The part of a stripe that cells make new, if they are planned as a client's write of it.
fn span_of(stripe: StripeIndex, cells: &CachedCells, geometry: &Geometry) -> Option<StripeSpan> {
    let range = cells.as_range(geometry.data_columns(), geometry.chunk_bytes())?;
    Some(StripeSpan { stripe, start: range.start, len: range.len(), request_offset: 0 })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use stripewise_device::{Device, memory::MemoryDevice};
    use stripewise_sim::World;

    use super::*;
    use crate::{
        Array, CreateOptions, TraceFilter, compute::Data, plan::selection::POLICIES, shape::geometry::Level,
    };

    const CHUNK: u64 = 16384;
    const BLOCK: u64 = 4096;

    fn array(level: Level, members: usize, policy: &'static Policy) -> (World, Array) {
        let world = World::new(1);
        let member = |i| Arc::new(MemoryDevice::new(format!("m{i}"), 3 << 20)) as Arc<dyn Device>;
        let mut options = CreateOptions::new("quick", level, (0..members).map(member).collect());
        options.chunk_bytes = CHUNK as u32;
        options.assume_clean = true;
        options.policy = Some(policy);
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        (world, array)
    }

    /// The recipe of a write.
    fn recipe(array: &Array, offset: u64, len: u64) -> Recipe {
        let stripes = &array.parts().stripes;
        let (topology, selection) = (stripes.members.load(), stripes.selection.load());
        let (span, mut recipe) =
            (topology.geometry.split(offset..offset + len).next().unwrap(), Recipe::default());
        let content = Content::Span(span, Data::One(vec![0; span.len].into()));
        stripes.make_recipe(&**selection, &topology, (span.stripe, &content), &[], &mut recipe).unwrap();
        recipe
    }

    /// Whether a write's recipe takes no plan.
    fn is_quick(array: &Array, offset: u64, len: u64) -> bool {
        let stripes = &array.parts().stripes;
        let (topology, selection) = (stripes.members.load(), stripes.selection.load());
        let span = topology.geometry.split(offset..offset + len).next().unwrap();
        stripes.is_made_quickly(&**selection, &topology, (&span, false), &mut Recipe::default())
    }

    #[test]
    fn whole_stripes_and_small_writes_of_one_column_need_no_plan() {
        for (level, members) in [(Level::Raid4, 5), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 6)] {
            for policy in POLICIES {
                let (world, array) = array(level, members, policy);
                let what = format!("{level:?} of {members}, {}", policy.name);
                let stripe = array.geometry().stripe_bytes();
                assert!(is_quick(&array, 3 * stripe, stripe), "{what}");
                for (offset, blocks) in [(0, 1), (stripe + CHUNK, 3), (2 * stripe - BLOCK, 1)] {
                    assert!(is_quick(&array, offset, blocks * BLOCK), "{what}");
                }
                for (offset, len) in [(512, 1024), (CHUNK - BLOCK, 2 * BLOCK), (BLOCK, stripe - BLOCK)] {
                    assert!(!is_quick(&array, offset, len), "{what}");
                }
                let (failed, last) = (array.clone(), format!("m{}", members - 1));
                world.run(async move { failed.fail(&last).await }).unwrap();
                assert!(!is_quick(&array, 3 * stripe, stripe), "{what}, a member is missing");
            }
        }
    }

    #[test]
    fn a_trace_tells_what_runs_of_every_write() {
        let (_world, array) = array(Level::Raid5, 4, POLICIES[0]);
        let stripe = array.geometry().stripe_bytes();
        array.trace_decisions(TraceFilter::default(), 10);
        // A block and a stripe, whose recipes take no plan, and a part of a block.
        let recipes = [(0, BLOCK), (0, stripe), (512, 512)].map(|(offset, len)| recipe(&array, offset, len));
        let decisions = array.traced(0).decisions;
        let told: Vec<_> = decisions.iter().map(|told| (told.len_bytes, told.bands[0].cycle)).collect();
        let run = recipes.each_ref().map(|recipe| recipe.cycles[0].cycle);
        assert_eq!(told, [(BLOCK, run[0]), (stripe, run[1]), (512, run[2])]);
        let counts: Vec<_> = decisions.iter().map(|told| (told.bands[0].rmw, told.bands[0].rcw)).collect();
        assert_eq!(counts, [(2, 2), (4, 0), (2, 3)]);
    }
}
