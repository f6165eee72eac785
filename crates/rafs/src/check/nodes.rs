//! The nodes of the durable tree: each once, and readable.

use std::{collections::BTreeSet, sync::Arc};

use smallvec::smallvec;
use stripewise_device::IoBuf;
use stripewise_format::rafs::{
    anchor::Root,
    block::{BlockKind, open_at},
    node::Node,
    superblock::Superblock,
};
use uuid::Uuid;

use super::Problem;
use crate::{
    shape::{BLOCK_BYTES, BlockNo, Order},
    store::order_of,
    volume::Volume,
};

/// The nodes that were found.
pub(super) struct Nodes {
    volume: Arc<dyn Volume>,
    order: Order,
    uuid: Uuid,
    pub(super) places: BTreeSet<u64>,
    pub(super) problems: Vec<Problem>,
}

impl Nodes {
    pub(super) fn new(volume: Arc<dyn Volume>, superblock: &Superblock) -> Self {
        let (places, problems) = (BTreeSet::new(), Vec::new());
        Self { volume, order: order_of(superblock), uuid: superblock.uuid, places, problems }
    }

    /// Looks at all nodes from the root on.
    pub(super) async fn walk(&mut self, root: Root) {
        let mut left = vec![root.place];
        while let Some(place) = left.pop() {
            if !self.places.insert(place) {
                self.problems.push(Problem::NodeTwice { place });
                continue;
            }
            match self.children(place).await {
                Ok(children) => left.extend(children),
                Err(why) => self.problems.push(Problem::Node { place, why }),
            }
        }
    }

    /// The places of a node's children.
    async fn children(&self, place: u64) -> Result<Vec<u64>, String> {
        let geometry = self.volume.geometry();
        if place >= geometry.blocks() {
            return Err("it lies behind the end of the volume".to_owned());
        }
        let offset_bytes = geometry.offset_bytes(self.order, BlockNo(place));
        let read = self.volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]).await;
        let bytes = read.into_one().map_err(|error| error.to_string())?;
        let (_, payload) =
            open_at(&bytes, BlockKind::Node, place, self.uuid).map_err(|error| error.to_string())?;
        match Node::decode(payload).map_err(|error| error.to_string())? {
            Node::Inner { children, .. } => Ok(children.iter().map(|child| child.place).collect()),
            Node::Leaf { .. } => Ok(Vec::new()),
        }
    }
}
