//! Puts another cache, or none, in the place of one, while clients write.
//!
//! First the old cache is emptied, and writes are acknowledged only after their destage: so what is dirty shrinks,
//! however much is written. Then it is closed: writes wait for as long as the last destages take, and nothing is
//! dirty in it any more when the new one takes its place. Requests that began before may still write past the new cache. So it
//! keeps nothing of what members hold until they have ended.

use std::sync::Arc;

use stripewise_device::sync::Replaced;

use super::Stripes;
use crate::{
    cache::{Cache, DestageReason},
    error::ArrayError,
    mutants::{Mutant, lives},
};

impl Stripes {
    /// Replaces the cache. If that fails, the old one stays.
    pub(crate) async fn switch_cache(&self, next: Option<Arc<Cache>>) -> Result<(), ArrayError> {
        let _one_at_a_time = self.switching.lock().await;
        let old = self.cache();
        if let Some(old) = &old {
            let emptied = self.empty(old).await;
            if emptied.is_err() {
                old.open();
                return emptied;
            }
        }
        replace(&self.cache, next);
        // Writes that waited for the end of the old one.
        old.iter().for_each(|old| old.tell_waiting());
        Ok(())
    }

    /// Destages everything, and closes the cache.
    async fn empty(&self, cache: &Arc<Cache>) -> Result<(), ArrayError> {
        cache.write_through();
        if lives(Mutant::SwitchDropsDirty) {
            cache.close();
            return Ok(());
        }
        self.destage_all(cache, DestageReason::Stop).await?;
        cache.close();
        self.destage_all(cache, DestageReason::Stop).await?;
        // The next one takes memory before this one's goes.
        cache.forget_all_clean();
        Ok(())
    }

    /// Drops caches that no request looks at any more. Then the one in their place may keep what members hold.
    pub(super) fn reclaim_caches(&self) {
        let Some(_no_switch) = self.switching.try_lock() else { return };
        reclaim(&self.cache);
    }
}

/// Puts another cache, or none, in the place of one. It keeps nothing of what members hold before [`reclaim`].
pub(crate) fn replace(place: &Replaced<Option<Arc<Cache>>>, next: Option<Arc<Cache>>) {
    next.iter().for_each(|next| next.keep_nothing_clean());
    place.store(Arc::new(next));
}

/// Drops caches that no request looks at any more. If none is left, the one in their place may keep what members hold.
pub(crate) fn reclaim(place: &Replaced<Option<Arc<Cache>>>) {
    if place.reclaim() {
        place.look(|cache| cache.iter().for_each(|cache| cache.keep_clean()));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::working::tests::{array, put};
    use crate::{CacheKind, cache::DestageReason, shape::geometry::StripeIndex};

    /// Blocks that are clean once one stripe was destaged, of which every third row had a dirty block.
    fn clean_after(reason: DestageReason) -> u64 {
        let (world, array) = array(CacheKind::StripeCt);
        let (cache, stripe) = (array.parts().stripes.cache().unwrap(), StripeIndex(1));
        put(&cache, stripe, &[0, 3, 6]);
        let destaged = array.clone();
        world
            .run(async move {
                let stripes = &destaged.parts().stripes;
                let cache = stripes.cache().unwrap();
                stripes.destage(&cache, stripe, cache.dirty_rows(stripe), reason).await
            })
            .unwrap();
        array.cache().unwrap().clean_blocks
    }

    /// Three blocks were written, and those of the two other columns read, with the gaps between them.
    #[test]
    fn what_is_read_while_the_cache_is_emptied_is_not_kept() {
        assert_eq!([clean_after(DestageReason::Flush), clean_after(DestageReason::Stop)], [17, 3]);
    }
}
