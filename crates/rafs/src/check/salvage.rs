//! What is left of lost nodes: they may lie elsewhere, and older nodes have many of their items.
//!
//! A block that says to be just the node that is missing is that node, wherever it lies. Of what then is still missing, older leaves
//! tell: a leaf knows all items between its first key and its last one as they were when it was written. So the newest leaf
//! counts there, and what it does not have was not there.

use std::collections::BTreeMap;

use stripewise_device::IoError;
use stripewise_format::rafs::{
    key::Key,
    node::{Item, Node},
};

use super::{
    Progress,
    reader::{Reader, Wanted, unless_lost},
    scan::Found,
    walk::{Lost, Walked},
};

/// Ranges of keys that do not overlap: first to last.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<Key, Key>);

impl Claims {
    pub(crate) fn has(&self, key: Key) -> bool {
        self.0.range(..=key).next_back().is_some_and(|(_, last)| key <= *last)
    }

    fn add(&mut self, mut first: Key, mut last: Key) {
        while let Some((start, end)) = self.0.range(..=last).next_back().map(|(start, end)| (*start, *end))
            && end >= first
        {
            self.0.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.0.insert(first, last);
    }
}

/// What was saved.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// Items out of nodes that are those which were missing.
    pub(crate) whole: Vec<Item>,
    /// Items out of older leaves.
    pub(crate) older: Vec<Item>,
    /// Blocks that all this was read from, and may be read from again after a crash.
    pub(crate) sources: Vec<u64>,
    /// Nodes for which nothing but older leaves could be found.
    pub(crate) lost: Vec<Lost>,
}

/// Looks for what is lost among all nodes of a volume that are not newer than the tree.
///
/// # Errors
/// If a node cannot be read just now.
pub(crate) async fn salvage(
    reader: &Reader,
    walked: &mut Walked,
    found: &[Found],
    generation: u64,
    progress: &Progress,
) -> Result<Saved, IoError> {
    let mut saved = Saved::default();
    let mut left = std::mem::take(&mut walked.lost);
    while let Some(lost) = left.pop() {
        match displaced(reader, &lost.wanted, found).await? {
            None => saved.lost.push(lost),
            Some((at, Node::Leaf(items))) => {
                saved.sources.push(at);
                saved.whole.extend(items);
            }
            Some((at, Node::Inner { level, children })) => {
                saved.sources.push(at);
                for child in lost.wanted.children(level, &children) {
                    let take_up = |items: &[Item]| saved.whole.extend_from_slice(items);
                    walked.walk(reader, child, progress, take_up).await?;
                    left.append(&mut walked.lost);
                }
            }
        }
    }
    // Leaves under such an inner node lie where they should.
    let mut claims = Claims::default();
    let mut leaves: Vec<&Found> = found.iter().filter(|one| is_older_leaf(one, generation, walked)).collect();
    leaves.sort_by_key(|one| std::cmp::Reverse(one.generation));
    for leaf in leaves {
        if !saved.lost.iter().any(|lost| overlaps(&lost.wanted, leaf)) {
            continue;
        }
        let read = unless_lost(reader.node_at(leaf.at).await)?;
        let Some((_, Node::Leaf(items))) = read else { continue };
        let is_lost = |key| saved.lost.iter().any(|lost| lost.wanted.contains(key));
        saved.older.extend(items.into_iter().filter(|item| is_lost(item.key) && !claims.has(item.key)));
        claims.add(leaf.first, leaf.last);
        saved.sources.push(leaf.at);
    }
    Ok(saved)
}

/// The node that is wanted, out of a block where it does not belong, and that block.
async fn displaced(
    reader: &Reader,
    wanted: &Wanted,
    found: &[Found],
) -> Result<Option<(u64, Node)>, IoError> {
    let is_it = |one: &&Found| (one.place, one.generation) == (wanted.place, wanted.generation);
    let Some(one) = found.iter().find(|one| is_it(one) && one.at != one.place) else { return Ok(None) };
    let block = unless_lost(reader.block(one.at).await)?;
    let read = block.and_then(|block| reader.decode(&block, one.place).ok());
    let is_wanted = |(generation, node): &(u64, Node)| wanted.objection(*generation, node).is_none();
    Ok(read.filter(is_wanted).map(|(_, node)| (one.at, node)))
}

fn is_older_leaf(one: &Found, generation: u64, walked: &Walked) -> bool {
    one.level == 0
        && one.at == one.place
        && one.generation <= generation
        && !walked.places.contains(&one.place)
}

fn overlaps(wanted: &Wanted, leaf: &Found) -> bool {
    wanted.low.is_none_or(|low| low <= leaf.last) && wanted.high.is_none_or(|high| leaf.first < high)
}

#[cfg(test)]
mod tests {
    use stripewise_format::rafs::key::KeyKind;

    use super::*;

    #[test]
    fn claims_merge_and_tell_what_they_have() {
        let key = |object| Key::new(object, KeyKind::Inode, 0);
        let mut claims = Claims::default();
        claims.add(key(10), key(20));
        claims.add(key(40), key(50));
        assert!(claims.has(key(10)) && claims.has(key(20)) && !claims.has(key(21)) && !claims.has(key(9)));
        claims.add(key(15), key(45));
        assert_eq!(claims.0.len(), 1);
        assert!(claims.has(key(30)) && claims.has(key(50)) && !claims.has(key(51)));
        claims.add(key(1), key(9));
        assert_eq!(claims.0.len(), 2);
    }
}
