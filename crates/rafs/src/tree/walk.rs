//! The way from the root down to a leaf.

use std::sync::Arc;

use stripewise_format::rafs::key::Key;

use super::Tree;
use super::error::TreeError;
use super::node::{Bounds, Expected, Inner, Link, Node, Pointer};

/// A node that was reached, and the keys that belong under it.
pub(super) struct Visit<'tree> {
    held: Held<'tree>,
    bounds: Bounds,
}

enum Held<'tree> {
    Dirty(&'tree Node),
    Clean(Pointer, Arc<Node>),
}

impl<'tree> Visit<'tree> {
    pub(super) fn node(&self) -> &Node {
        match &self.held {
            Held::Dirty(node) => node,
            Held::Clean(_, node) => node,
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The node itself, if it is a clean one.
    pub(super) fn into_clean(self) -> Option<(Pointer, Arc<Node>)> {
        match self.held {
            Held::Dirty(_) => None,
            Held::Clean(pointer, node) => Some((pointer, node)),
        }
    }

    /// A child of the node in memory, or where it lies.
    fn child(&self, at: usize) -> Result<&'tree Node, Pointer> {
        match &self.held {
            Held::Dirty(node) => follow(inner_of(node).link(at)),
            Held::Clean(_, node) => match inner_of(node).link(at) {
                Link::Clean(pointer) => Err(*pointer),
                Link::Dirty(_) => unreachable!("a clean node refers to clean nodes only"),
            },
        }
    }
}

fn inner_of(node: &Node) -> &Inner {
    match node {
        Node::Inner(inner) => inner,
        Node::Leaf(_) => unreachable!("the way down ends at leaves"),
    }
}

fn follow(link: &Link) -> Result<&Node, Pointer> {
    match link {
        Link::Dirty(node) => Ok(node),
        Link::Clean(pointer) => Err(*pointer),
    }
}

impl Tree {
    pub(super) async fn visit_root(&self) -> Result<Visit<'_>, TreeError> {
        let bounds = Bounds::ALL;
        let held = match follow(&self.root) {
            Ok(node) => Held::Dirty(node),
            Err(pointer) => {
                let expected = Expected { pointer, level: self.level, bounds, is_root: true };
                self.clean(&expected).await?
            }
        };
        Ok(Visit { held, bounds })
    }

    /// A child of an inner node.
    pub(super) async fn visit_child<'tree>(
        &'tree self,
        parent: &Visit<'tree>,
        at: usize,
    ) -> Result<Visit<'tree>, TreeError> {
        let (inner, own) = (inner_of(parent.node()), parent.bounds);
        let held = match parent.child(at) {
            Ok(node) => Held::Dirty(node),
            Err(pointer) => self.clean(&inner.expects(at, pointer, own)).await?,
        };
        Ok(Visit { held, bounds: inner.bounds_of(at, own) })
    }

    async fn clean<'tree>(&self, expected: &Expected) -> Result<Held<'tree>, TreeError> {
        let node = match self.ledger.frozen(expected.pointer) {
            Some(node) => Arc::clone(node),
            None => self.source.load(expected).await?,
        };
        Ok(Held::Clean(expected.pointer, node))
    }

    /// The leaf under which a key belongs.
    pub(super) async fn leaf_of(&self, key: Key) -> Result<Visit<'_>, TreeError> {
        let mut visit = self.visit_root().await?;
        while let Node::Inner(inner) = visit.node() {
            let at = inner.position(key);
            visit = self.visit_child(&visit, at).await?;
        }
        Ok(visit)
    }

    /// The clean nodes on the way to the leaf under which a key belongs.
    pub(super) async fn clean_way(&self, key: Key) -> Result<Vec<(Pointer, Arc<Node>)>, TreeError> {
        let (mut way, mut visit) = (Vec::new(), self.visit_root().await?);
        while let Node::Inner(inner) = visit.node() {
            let at = inner.position(key);
            let child = self.visit_child(&visit, at).await?;
            way.push(std::mem::replace(&mut visit, child));
        }
        way.push(visit);
        Ok(way.into_iter().filter_map(Visit::into_clean).collect())
    }
}
