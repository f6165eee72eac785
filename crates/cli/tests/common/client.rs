//! The own NBD client, for tests that read and write an export.

use std::sync::Arc;

use smallvec::smallvec;
use stripewise::{
    Device, IoBuf, IoError, WriteFlags, ZeroFlags,
    export::nbd::{NbdAddress, NbdClient},
    internals::uring::{Runtime, RuntimeOptions},
};

/// A connection, and the runtime that it belongs to.
pub(crate) struct Client {
    pub(crate) device: Arc<NbdClient>,
    pub(crate) runtime: Arc<Runtime>,
}

impl Client {
    pub(crate) fn connect(uri: &str) -> Self {
        let runtime = Arc::new(Runtime::start(&RuntimeOptions::default()).unwrap());
        let device = Self::connect_on(&runtime, uri);
        Self { device, runtime }
    }

    pub(crate) fn connect_on(runtime: &Runtime, uri: &str) -> Arc<NbdClient> {
        let (env, address): (_, NbdAddress) = (runtime.env(), uri.parse().unwrap());
        Arc::new(runtime.block_on(async move { NbdClient::connect(&env, &address).await }).unwrap())
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.device.info().size_bytes
    }

    pub(crate) fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), IoError> {
        let from = smallvec![IoBuf::copy_of(bytes).freeze()];
        self.runtime.block_on(self.device.write(offset_bytes, from, WriteFlags::default()))
    }

    pub(crate) fn read(&self, offset_bytes: u64, len: usize) -> Result<Vec<u8>, IoError> {
        let into = smallvec![IoBuf::with_len(len)];
        self.runtime.block_on(self.device.read(offset_bytes, into)).into_one().map(|buf| buf.to_vec())
    }

    /// Zeroes a range, which members write.
    pub(crate) fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        self.runtime.block_on(self.device.write_zeroes(offset_bytes, len_bytes, ZeroFlags::default()))
    }

    pub(crate) fn flush(&self) -> Result<(), IoError> {
        self.runtime.block_on(self.device.flush())
    }
}

/// Bytes that follow no pattern, the same for a seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}
