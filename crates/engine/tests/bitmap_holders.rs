//! Members that come to hold the bitmap: they get every page of it, or an old one would be believed after a
//! crash.

#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeSet, time::Duration};

use common::wide::Wide;
use stripewise_engine::locking::PRESETS;

/// Two members hold the bitmap of a level 5; when one of them fails, the third takes over.
#[test]
fn a_new_holder_gets_every_page() {
    for preset in PRESETS {
        let mut wide = Wide::new(u64::from(preset.number), preset);
        // Copies of an earlier time, on all pages of the first holders.
        let early = wide.draw_blocks();
        wide.write_durably(&early, 1);
        wide.world.run_for(Duration::from_secs(4));
        assert_eq!(wide.marked(), BTreeSet::new());
        let blocks = wide.draw_blocks();
        wide.write_durably(&blocks, 2);
        let marked = wide.regions_of(&blocks);
        let holds = |wide: &Wide, member| wide.marked_on(&[member]).is_some_and(|found| found == marked);
        let holders: Vec<usize> = (0..3).filter(|member| holds(&wide, *member)).collect();
        assert_eq!(holders.len(), 2, "of three members, by {}", preset.name);
        let new = (0..3).find(|member| !holders.contains(member)).unwrap();
        let (array, leaves) = (wide.array.clone(), format!("m{}", holders[0]));
        wide.world.run(async move { array.fail(&leaves).await }).unwrap();
        // Housekeeping looks after a change of holders before it clears anything.
        wide.world.run_for(Duration::from_millis(1100));
        let found = wide.marked_on(&[new]).expect("it has a valid copy of every page");
        assert_eq!(found, marked, "m{new} instead of m{}, by {}", holders[0], preset.name);
    }
}
