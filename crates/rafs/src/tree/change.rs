//! Inserts and removes.
//!
//! A change has two steps. The first one reads the way to the leaf, and the neighbours with which nodes may be joined. It can fail,
//! and changes nothing; a neighbour that cannot be read is no failure, but is not joined. The second step changes nodes, reads
//! nothing and cannot fail.

use std::mem;
use std::sync::Arc;

use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::{CHILD_LEN, Item, LEVEL_MAX, NODE_ROOM, SLOT_LEN};
use stripewise_format::rafs::value::VALUE_MAX;

use super::Tree;
use super::balance::{BYTES_MIN, neighbour};
use super::error::TreeError;
use super::ledger::Ledger;
use super::node::{Branch, Inner, Link, Node, Pointer};
use super::source::Source;
use super::walk::Visit;
use crate::shape::BlockNo;

/// What the first step has found out.
struct Prepared {
    /// The key's value.
    old: Option<Arc<[u8]>>,
    /// All clean nodes that the second step may change.
    loaded: Vec<(Pointer, Arc<Node>)>,
}

/// What became of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It has as many bytes or more.
    Grown,
    /// It has a new entry, at this position.
    Inserted(usize),
    /// It has fewer bytes.
    Shrunk,
}

impl Tree {
    /// Gives a key a value. Returns the value that it had before.
    ///
    /// # Errors
    /// [`TreeError`], if a node on the way to the leaf cannot be read, or the value is too long. The tree is as it was.
    pub async fn insert(&mut self, key: Key, value: Arc<[u8]>) -> Result<Option<Arc<[u8]>>, TreeError> {
        let len = value.len();
        if len > VALUE_MAX {
            return Err(TreeError::ValueTooLong { key, len });
        }
        let Prepared { old, loaded } = self.prepare(key, Some(len)).await?;
        if old.as_ref() != Some(&value) {
            self.change(key, Some(value), loaded);
        }
        Ok(old)
    }

    /// Removes a key. Returns the value that it had.
    ///
    /// # Errors
    /// [`TreeError`], if a node on the way to the leaf cannot be read. The tree is as it was.
    pub async fn remove(&mut self, key: Key) -> Result<Option<Arc<[u8]>>, TreeError> {
        let Prepared { old, loaded } = self.prepare(key, None).await?;
        if old.is_some() {
            self.change(key, None, loaded);
        }
        Ok(old)
    }

    /// Gives the nodes on the way to the leaf under which a key belongs other places at the next write-out, if one of them has a place
    /// that is to be left. Returns how many nodes become dirty.
    ///
    /// # Errors
    /// [`TreeError`], if a node cannot be read. The tree is as it was.
    pub async fn leave_places(
        &mut self,
        key: Key,
        is_left: impl Fn(BlockNo) -> bool,
    ) -> Result<usize, TreeError> {
        let loaded = self.clean_way(key).await?;
        if !loaded.iter().any(|(pointer, _)| is_left(pointer.place)) {
            return Ok(0);
        }
        let count = loaded.len();
        let mut change = Change { source: &self.source, ledger: &mut self.ledger, loaded };
        let mut node = change.dirty(&mut self.root);
        while let Node::Inner(inner) = node {
            let at = inner.position(key);
            node = change.dirty(&mut inner.branches[at].link);
        }
        Ok(count)
    }

    /// The first step of giving a key a value of so many bytes, or none.
    async fn prepare(&self, key: Key, new: Option<usize>) -> Result<Prepared, TreeError> {
        let mut path = Vec::new();
        let mut visit = self.visit_root().await?;
        if new.is_some() && self.level == LEVEL_MAX && visit.node().bytes() + 2 * CHILD_LEN > NODE_ROOM {
            return Err(TreeError::TooDeep);
        }
        while let Node::Inner(inner) = visit.node() {
            let at = inner.position(key);
            let child = self.visit_child(&visit, at).await?;
            path.push((mem::replace(&mut visit, child), at));
        }
        let old = visit.node().value(key).map(Arc::clone);
        let bytes = |len: Option<usize>| len.map_or(0, |len| SLOT_LEN + len);
        let (less, more) = (bytes(old.as_ref().map(|old| old.len())), bytes(new));
        let neighbours = match more < less {
            true => self.neighbours(&path, visit.node().bytes() + more - less).await,
            false => Vec::new(),
        };
        let visits = path.into_iter().map(|(visit, _)| visit).chain([visit]).chain(neighbours);
        Ok(Prepared { old, loaded: visits.filter_map(Visit::into_clean).collect() })
    }

    /// What the nodes of a path may be joined with when its leaf shrinks to so many bytes. What cannot be read is not joined.
    async fn neighbours<'tree>(
        &'tree self,
        path: &[(Visit<'tree>, usize)],
        mut bytes: usize,
    ) -> Vec<Visit<'tree>> {
        let mut neighbours = Vec::new();
        for (parent, at) in path.iter().rev() {
            if bytes >= BYTES_MIN {
                break;
            }
            // An empty node is not joined but dropped.
            if let Some(next) = neighbour(*at, parent.node().len()).filter(|_| bytes > 0) {
                let Ok(read) = self.visit_child(parent, next).await else { break };
                neighbours.push(read);
            }
            bytes = parent.node().bytes() - CHILD_LEN;
        }
        neighbours
    }

    /// The second step.
    fn change(&mut self, key: Key, value: Option<Arc<[u8]>>, loaded: Vec<(Pointer, Arc<Node>)>) {
        let mut change = Change { source: &self.source, ledger: &mut self.ledger, loaded };
        let root = change.dirty(&mut self.root);
        let effect = change.apply(root, key, value);
        if root.bytes() > NODE_ROOM {
            self.level += 1;
            change.grow(&mut self.root, self.level, effect);
        }
        self.level -= change.shrink(&mut self.root);
    }
}

/// A change in its second step.
struct Change<'tree> {
    source: &'tree Source,
    ledger: &'tree mut Ledger,
    loaded: Vec<(Pointer, Arc<Node>)>,
}

impl Change<'_> {
    /// The node behind a link, to be changed.
    fn dirty<'link>(&mut self, link: &'link mut Link) -> &'link mut Node {
        if let Link::Clean(pointer) = *link {
            *link = Link::Dirty(Box::new(self.take(pointer)));
        }
        match link {
            Link::Dirty(node) => node,
            Link::Clean(_) => unreachable!("it was made dirty"),
        }
    }

    /// A copy of a clean node, which the tree gives up; or the node itself, if nothing else needs it.
    fn take(&mut self, pointer: Pointer) -> Node {
        let at = self.loaded.iter().position(|(loaded, _)| *loaded == pointer);
        let (_, node) =
            self.loaded.swap_remove(at.expect("the first step reads what the second one changes"));
        self.source.forget(pointer);
        self.ledger.give_up(pointer);
        Arc::unwrap_or_clone(node)
    }

    /// Whether the node behind a link can be changed.
    fn is_here(&self, link: &Link) -> bool {
        match link {
            Link::Dirty(_) => true,
            Link::Clean(pointer) => self.loaded.iter().any(|(loaded, _)| loaded == pointer),
        }
    }

    fn apply(&mut self, node: &mut Node, key: Key, value: Option<Arc<[u8]>>) -> Effect {
        match node {
            Node::Leaf(items) => put(items, key, value),
            Node::Inner(inner) => {
                let at = inner.position(key);
                let branch = &mut inner.branches[at];
                branch.key = branch.key.min(key);
                let child = self.dirty(&mut branch.link);
                let effect = self.apply(child, key, value);
                self.mend(inner, at, effect)
            }
        }
    }

    /// Splits, drops or joins a child that has become too large or too small.
    fn mend(&mut self, inner: &mut Inner, at: usize, effect: Effect) -> Effect {
        let child = self.dirty(&mut inner.branches[at].link);
        let (len, bytes) = (child.len(), child.bytes());
        if len == 0 {
            inner.branches.remove(at);
            self.ledger.dirty_nodes -= 1;
            return Effect::Shrunk;
        }
        if bytes > NODE_ROOM {
            return self.split(inner, at, effect);
        }
        // A leaf that was begun at the end of a full one is small, and is left to grow.
        let is_small = effect == Effect::Shrunk && bytes < BYTES_MIN;
        let is_here = |next: &usize| self.is_here(&inner.branches[*next].link);
        match neighbour(at, inner.branches.len()).filter(|next| is_small && is_here(next)) {
            Some(next) => self.join(inner, at.min(next)),
            None => Effect::Grown,
        }
    }

    fn split(&mut self, inner: &mut Inner, at: usize, effect: Effect) -> Effect {
        let inserted = if let Effect::Inserted(at) = effect { Some(at) } else { None };
        let pieces = self.dirty(&mut inner.branches[at].link).split(inserted);
        let count = pieces.len();
        self.ledger.dirty_nodes += count;
        let branch = |(key, node)| Branch { key, link: Link::Dirty(Box::new(node)) };
        inner.branches.splice(at + 1..at + 1, pieces.into_iter().map(branch));
        Effect::Inserted(at + count)
    }

    /// Joins a child with the one behind it. What is too much for one node is spread over two.
    fn join(&mut self, inner: &mut Inner, at: usize) -> Effect {
        let mut behind = inner.branches.remove(at + 1);
        let behind = mem::replace(self.dirty(&mut behind.link), Node::Leaf(Vec::new()));
        self.ledger.dirty_nodes -= 1;
        let joined = self.dirty(&mut inner.branches[at].link);
        joined.absorb(behind);
        if joined.bytes() <= NODE_ROOM {
            return Effect::Shrunk;
        }
        self.split(inner, at, Effect::Grown);
        Effect::Grown
    }

    /// Puts a root of this level above one that is too large.
    fn grow(&mut self, root: &mut Link, level: u8, effect: Effect) {
        let empty = Link::Dirty(Box::new(Node::Leaf(Vec::new())));
        let mut old = mem::replace(root, empty);
        let key = self.dirty(&mut old).first_key().expect("a node that is too large has keys");
        let mut inner = Inner { level, branches: vec![Branch { key, link: old }] };
        self.split(&mut inner, 0, effect);
        *root = Link::Dirty(Box::new(Node::Inner(inner)));
        self.ledger.dirty_nodes += 1;
    }

    /// Drops roots that lead to one node or to none. Returns how many levels there are less.
    fn shrink(&mut self, root: &mut Link) -> u8 {
        let mut less = 0;
        while let Link::Dirty(node) = root
            && let Node::Inner(inner) = &mut **node
            && inner.branches.len() <= 1
        {
            let Some(only) = inner.branches.pop() else {
                less += inner.level;
                **node = Node::Leaf(Vec::new());
                break;
            };
            *root = only.link;
            self.ledger.dirty_nodes -= 1;
            less += 1;
        }
        less
    }
}

fn put(items: &mut Vec<Item>, key: Key, value: Option<Arc<[u8]>>) -> Effect {
    match (items.binary_search_by_key(&key, |item| item.key), value) {
        (Ok(at), Some(value)) => {
            let old = mem::replace(&mut items[at].value, value);
            if items[at].value.len() < old.len() { Effect::Shrunk } else { Effect::Grown }
        }
        (Ok(at), None) => {
            items.remove(at);
            Effect::Shrunk
        }
        (Err(at), Some(value)) => {
            items.insert(at, Item { key, value });
            Effect::Inserted(at)
        }
        (Err(_), None) => Effect::Grown,
    }
}
