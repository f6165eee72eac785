//! The tree as one stream of bytes over NBD, for machines without root or FUSE.

use std::{fs, path::Path, sync::Arc};

use anyhow::ensure;
use smallvec::smallvec;
use stripewise::{
    Array, Device, Host, IoBuf, WriteFlags,
    export::nbd::{Endpoint, Export, Limits, NbdAddress, NbdClient, Server},
    internals::uring::Runtime,
};
use xxhash_rust::xxh3::xxh3_128;

use super::{Store, story::Story, tree::Tree};

/// Files lie on multiples of this in the stream.
const ALIGN: usize = 4096;

/// The array served on a socket, and a client of it.
pub(super) struct OverNbd {
    runtime: Arc<Runtime>,
    server: Arc<Server>,
    client: Arc<NbdClient>,
}

impl OverNbd {
    pub(super) fn open(host: &Host, array: &Array, folder: &Path) -> anyhow::Result<Self> {
        let endpoint = Endpoint::Unix(folder.join("nbd.sock"));
        let export = Export::new("demo", Arc::new(array.device()));
        let server = Server::start(host.runtime(), &endpoint, vec![export], Limits::default())?;
        let (env, address) = (host.env(), NbdAddress { endpoint, export: "demo".into() });
        let client = host.block_on(async move { NbdClient::connect(&env, &address).await })?;
        Ok(Self { runtime: host.runtime().clone(), server: Arc::new(server), client: Arc::new(client) })
    }
}

impl Store for OverNbd {
    fn describe(&self) -> String {
        "served over NBD, with the built-in client".to_owned()
    }

    fn copy_in(&mut self, tree: &Tree, story: &Story, at_half: &mut dyn FnMut()) -> anyhow::Result<()> {
        let half = tree.bytes() / 2;
        let mut at = 0u64;
        let mut before_half = true;
        for file in &tree.files {
            story.check()?;
            let content = fs::read(&file.path)?;
            let mut buf = IoBuf::zeroed(content.len().next_multiple_of(ALIGN));
            buf[..content.len()].copy_from_slice(&content);
            let (client, len) = (self.client.clone(), buf.len() as u64);
            let data = buf.freeze();
            let (sender, receiver) = std::sync::mpsc::channel();
            self.runtime.spawn_on(
                0,
                Box::pin(async move {
                    let _ = sender.send(client.write(at, smallvec![data], WriteFlags::default()).await);
                }),
            );
            if before_half && at >= half {
                before_half = false;
                at_half();
            }
            receiver.recv()??;
            at += len;
        }
        let client = self.client.clone();
        self.runtime.block_on(async move { client.flush().await })?;
        Ok(())
    }

    fn verify(&mut self, tree: &Tree, story: &Story) -> anyhow::Result<()> {
        let mut at = 0u64;
        for file in &tree.files {
            story.check()?;
            let len = (file.bytes as usize).next_multiple_of(ALIGN);
            let client = self.client.clone();
            let done =
                self.runtime.block_on(async move { client.read(at, smallvec![IoBuf::with_len(len)]).await });
            let buf = done.into_one()?;
            let found = xxh3_128(&buf[..file.bytes as usize]);
            ensure!(found == file.checksum, "the copy of {} is wrong", file.path.display());
            at += len as u64;
        }
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let server = self.server.clone();
        self.runtime.block_on(async move { server.stop().await });
        Ok(())
    }
}
