//! The cache of an open array: what was chosen, and changes of it while clients write.

use std::sync::Arc;

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use stripewise_format::extension::ArrayOptions;

use super::{Array, Parts};
use crate::{
    cache::{Cache, CacheError, CacheKind, CacheReport, CacheSettings},
    error::ArrayError,
    jobs::{Jobs, destager},
    life::Life,
    metadata::ledger::Ledger,
    shape::geometry::Geometry,
    sizes::format_size,
};

/// What was chosen for an array's cache.
pub(crate) struct CacheChoice {
    /// The machine's memory.
    memory_bytes: u64,
    chosen: Mutex<Chosen>,
    /// The array was not stopped when it was last open with a cache.
    was_open: bool,
    /// Held while it is changed.
    pub(super) changing: AsyncMutex<()>,
}

#[derive(Clone)]
struct Chosen {
    settings: CacheSettings,
    /// Why the cache is not as members keep it.
    problem: Option<String>,
}

impl CacheChoice {
    /// What is given for this opening; else what members keep. Of that, what makes no sense, or not on this machine,
    /// is a problem to tell, and no reason to keep the data from its owner.
    pub(crate) fn of(
        given: Option<CacheSettings>,
        kept: &ArrayOptions,
        geometry: &Geometry,
        memory_bytes: u64,
    ) -> Result<Self, CacheError> {
        let chosen = match given {
            Some(settings) => {
                settings.check(geometry, memory_bytes)?;
                Chosen { settings, problem: None }
            }
            None => Chosen::kept(kept, geometry, memory_bytes),
        };
        let (chosen, was_open) = (Mutex::new(chosen), kept.cache.is_open);
        Ok(Self { memory_bytes, chosen, was_open, changing: AsyncMutex::new(()) })
    }

    /// The cache that was chosen.
    pub(crate) fn make(&self, geometry: &Geometry) -> Result<Option<Arc<Cache>>, CacheError> {
        let settings = self.settings();
        Cache::new(&settings, settings.size_on(self.memory_bytes), geometry)
    }

    fn settings(&self) -> CacheSettings {
        self.chosen.lock().settings
    }

    fn choose(&self, settings: CacheSettings) {
        *self.chosen.lock() = Chosen { settings, problem: None };
    }

    /// Why the cache is not as members keep it.
    pub(super) fn problem(&self) -> Option<String> {
        self.chosen.lock().problem.clone()
    }
}

impl Chosen {
    fn kept(kept: &ArrayOptions, geometry: &Geometry, memory_bytes: u64) -> Self {
        let (settings, unknown) = CacheSettings::kept(kept);
        if let Some(unknown) = unknown {
            return Self { settings, problem: Some(format!("{unknown}: it has no cache")) };
        }
        match settings.check(geometry, memory_bytes) {
            Ok(()) => Self { settings, problem: None },
            Err(error) => {
                let smaller = CacheSettings { size_bytes: None, ..settings };
                let is_too_large =
                    matches!(error, CacheError::Size { size_bytes, .. } if size_bytes > memory_bytes);
                if is_too_large && smaller.check(geometry, memory_bytes).is_ok() {
                    let size = format_size(smaller.size_on(memory_bytes));
                    return Self {
                        settings: smaller,
                        problem: Some(format!("{error}; it has one of {size}")),
                    };
                }
                let settings = CacheSettings { kind: CacheKind::None, ..settings };
                Self { settings, problem: Some(format!("{error}; it has none")) }
            }
        }
    }
}

/// Starts the task that destages from a cache.
pub(crate) fn start_destager(life: &Arc<Life>, jobs: &Arc<Jobs>, cache: Arc<Cache>) {
    life.spawn(destager::run(Arc::downgrade(jobs), life.clone(), cache));
}

impl Array {
    /// What the cache holds now, and did; none if there is no cache.
    pub fn cache(&self) -> Option<CacheReport> {
        self.parts.stripes.cache().map(|cache| cache.report())
    }

    /// Whether the array was not stopped when it was last open with a cache: writes that were in the cache alone are lost.
    pub fn has_lost_its_cache(&self) -> bool {
        self.parts.cache.was_open
    }

    /// What was chosen for the cache.
    pub fn cache_settings(&self) -> CacheSettings {
        self.parts.cache.settings()
    }

    /// Checks that [`Array::set_cache`] can take these settings.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn check_cache(&self, settings: &CacheSettings) -> Result<(), CacheError> {
        let (geometry, memory_bytes) = (self.geometry(), self.parts.cache.memory_bytes);
        // A size that was kept, perhaps by another machine, is in nobody's way.
        if settings.size_bytes == self.cache_settings().size_bytes {
            settings.check(&geometry, memory_bytes)
        } else {
            settings.check_chosen(&geometry, memory_bytes)
        }
    }

    /// Changes the cache, while clients write. Members keep the choice for later openings. For another kind or size,
    /// the cache is emptied first, which takes as long as members need; [`Array::cache`] tells how much is left.
    /// Meanwhile writes are acknowledged when members have them.
    ///
    /// # Errors
    /// [`ArrayError::Cache`] if there can be no such cache; [`ArrayError::Unsupported`] where no member has room to
    /// keep the choice; also the errors of [any command](Array#commands). [`ArrayError::Failed`] and
    /// [`ArrayError::Io`] leave the cache as it was if it could not be emptied.
    pub async fn set_cache(&self, settings: CacheSettings) -> Result<(), ArrayError> {
        if self.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        self.check_cache(&settings)?;
        let parts = self.parts.clone();
        self.parts.life.run(async move { parts.set_cache(settings).await }).await
    }
}

impl Parts {
    async fn set_cache(&self, settings: CacheSettings) -> Result<(), ArrayError> {
        let _one_at_a_time = self.cache.changing.lock().await;
        if self.life.is_closing() {
            return Err(ArrayError::Closed);
        }
        if !self.roster.look(|ledger, _| ledger.keeps_options()).await {
            let problem = "no member has an extension area to keep the choice of a cache in".to_owned();
            return Err(ArrayError::Unsupported(problem));
        }
        let before = self.cache.settings();
        if (settings.kind, settings.size_bytes) == (before.kind, before.size_bytes) {
            // What cannot be kept is not used.
            self.roster.record(|ledger| ledger.set_cache(&settings)).await?;
            self.stripes.cache().iter().for_each(|cache| cache.use_settings(&settings));
            self.cache.choose(settings);
            return Ok(());
        }
        let size_bytes = settings.size_on(self.cache.memory_bytes);
        let next = Cache::new(&settings, size_bytes, &self.stripes.geometry())?;
        if next.is_some() {
            // Before the first write is acknowledged from it.
            self.roster.record(|ledger| ledger.set_cache_open(true)).await?;
        }
        self.stripes.switch_cache(next.clone()).await?;
        next.into_iter().for_each(|next| start_destager(&self.life, &self.jobs, next));
        self.roster.look(|ledger, _| self.roster.switch_meters(self.stripes.needs_costs(), ledger)).await;
        self.cache.choose(settings);
        let is_open = self.stripes.cache().is_some();
        let record = |ledger: &mut Ledger| {
            ledger.set_cache(&settings);
            ledger.set_cache_open(is_open);
        };
        self.roster.record(record).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::geometry::Level;

    /// Of an array whose two stripes take 656 KiB.
    fn kept(size_bytes: u64, memory_bytes: u64) -> Chosen {
        let geometry = Geometry::new(Level::Raid5, 5, 65536, 1 << 30, 512).expect("a shape that can be");
        let mut options = ArrayOptions::default();
        CacheSettings::new(CacheKind::Stripe, size_bytes).keep(&mut options);
        Chosen::kept(&options, &geometry, memory_bytes)
    }

    #[test]
    fn a_cache_above_memory_becomes_one_of_a_quarter_of_it_or_none_where_two_stripes_do_not_fit() {
        let Chosen { settings, problem } = kept(1 << 30, 256 << 20);
        assert_eq!((settings.kind, settings.size_on(256 << 20)), (CacheKind::Stripe, 64 << 20));
        assert!(problem.is_some_and(|problem| problem.ends_with("; it has one of 64 MiB")));

        let Chosen { settings, problem } = kept(1 << 30, 2 << 20);
        assert_eq!(settings.kind, CacheKind::None);
        assert!(problem.is_some_and(|problem| problem.ends_with("; it has none")));
    }
}
