//! A walk over all nodes of a tree, in the order of their keys. It goes on behind nodes that are damaged.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use stripewise_device::IoError;
use stripewise_format::rafs::{
    key::Key,
    node::{Item, Node},
};

use super::{
    Progress,
    reader::{Reader, Wanted, bounds_of},
};

/// Leaves that are read at the same time.
const BATCH: usize = 64;

/// A leaf that is intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Its first key.
    pub(crate) first: Key,
    pub(crate) place: u64,
    pub(crate) generation: u64,
}

/// A node that is lost, with all under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) wanted: Wanted,
    pub(crate) why: String,
}

/// What a walk has come by.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// In the order of their keys.
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) places: BTreeSet<u64>,
    pub(crate) lost: Vec<Lost>,
}

impl Walked {
    /// Walks from a node on, and hands over the items of each leaf.
    ///
    /// # Errors
    /// If a node cannot be read just now.
    pub(crate) async fn walk(
        &mut self,
        reader: &Reader,
        root: Wanted,
        progress: &Progress,
        mut take_up: impl FnMut(&[Item]),
    ) -> Result<(), IoError> {
        let mut left = vec![root];
        while let Some(next) = left.pop() {
            let mut batch = vec![next];
            while next.level == 0
                && batch.len() < BATCH
                && let Some(one) = left.pop_if(|one| one.level == 0)
            {
                batch.push(one);
            }
            let nodes = join_all(batch.iter().map(|wanted| reader.node(wanted))).await;
            for (wanted, node) in batch.into_iter().zip(nodes) {
                match node {
                    Ok(_) if self.places.contains(&wanted.place) => {
                        self.lost.push(Lost { wanted, why: "it has two parents".to_owned() });
                    }
                    Ok(node) => {
                        self.places.insert(wanted.place);
                        left.extend(self.enter(&wanted, &node, &mut take_up).into_iter().rev());
                    }
                    Err(missing) => {
                        let why = missing.unless_it_may_pass()?.to_string();
                        self.lost.push(Lost { wanted, why });
                    }
                }
            }
            progress.tell("nodes", self.places.len() as u64, 0);
        }
        self.leaves.sort_by_key(|leaf| leaf.first);
        Ok(())
    }

    /// Enters a node that lies where it should. Returns its children.
    fn enter(&mut self, wanted: &Wanted, node: &Node, take_up: &mut impl FnMut(&[Item])) -> Vec<Wanted> {
        match node {
            Node::Leaf(items) => {
                if let Some((first, _)) = bounds_of(node) {
                    self.leaves.push(Leaf { first, place: wanted.place, generation: wanted.generation });
                }
                take_up(items);
                Vec::new()
            }
            Node::Inner { level, children } => wanted.children(*level, children),
        }
    }
}
