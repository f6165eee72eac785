//! Client requests.

use stripewise_device::{IoBuf, SharedBuf, WriteBufs, WriteFlags, ZeroFlags};

use super::Array;
use crate::{compute::Data, error::ArrayError, life::detached::Detached};

impl Array {
    /// Fills `buf` from `offset_bytes` and returns it. Starts at once. Any thread may call and await. A
    /// caller that drops the future loses the buffer. [`Array::stop`] waits until the future is polled to
    /// completion or dropped.
    ///
    /// # Errors
    /// [`ArrayError::Unreadable`] names the first requested byte in the first 4 KiB block that neither its
    /// member nor redundancy could deliver.
    pub fn read(
        &self,
        offset_bytes: u64,
        buf: IoBuf,
    ) -> impl Future<Output = Result<IoBuf, ArrayError>> + Send + use<> {
        self.parts.stripes.start_read(offset_bytes, buf)
    }

    /// Reads into the caller's memory by copying. A member may still write into the buffer of an abandoned
    /// request, so members never get borrowed memory.
    ///
    /// # Errors
    /// As [`Array::read`]. On an error `into` is unchanged.
    pub fn read_into<'a>(
        &self,
        offset_bytes: u64,
        into: &'a mut [u8],
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<'a> {
        let read = self.read(offset_bytes, IoBuf::with_len(into.len()));
        async move {
            into.copy_from_slice(&read.await?);
            Ok(())
        }
    }

    /// Writes `data` at `offset_bytes`. Starts at once and completes even if the future is dropped. Any
    /// thread may call and await. If overlapping writes are under way together, any of them may be the last.
    /// Data at an address that is not on logical blocks is copied.
    ///
    /// # Errors
    /// [`ArrayError`]; on an error any part of the range may have been written.
    pub fn write(
        &self,
        offset_bytes: u64,
        data: SharedBuf,
        flags: WriteFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        self.parts.stripes.start_write(offset_bytes, Data::One(data), flags)
    }

    /// As [`Array::write`], with data in several buffers. Nothing is copied if all of them are whole blocks
    /// of 4 KiB, in memory and in the array.
    ///
    /// # Errors
    /// [`ArrayError`]; on an error any part of the range may have been written.
    pub fn write_vectored(
        &self,
        offset_bytes: u64,
        bufs: WriteBufs,
        flags: WriteFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        self.parts.stripes.start_write(offset_bytes, Data::of(bufs, offset_bytes), flags)
    }

    /// Makes every write acknowledged before this call durable.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] if so many members cannot flush that data may be lost; [`ArrayError::Closed`] once
    /// the array stops.
    pub fn flush(&self) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let array = self.clone();
        Detached::start(self.env(), async move { array.parts.stripes.flush_request().await })
    }

    /// Makes the range read as zeroes.
    ///
    /// # Errors
    /// [`ArrayError`].
    pub fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let array = self.clone();
        Detached::start(self.env(), async move {
            array.parts.stripes.write_zeroes_request(offset_bytes, len_bytes, flags).await
        })
    }

    /// Whether a discard frees space on the members; otherwise it does nothing. All members must free zeroed
    /// ranges, according to the trial when they became members or to the operating system.
    pub fn unmaps(&self) -> bool {
        self.parts.stripes.unmaps()
    }

    /// Tells the array that the range's content is no longer needed. If all members unmap
    /// ([`Array::unmaps`]), whole stripes in the range are unmapped and read as zeroes; the rest is
    /// unchanged.
    ///
    /// # Errors
    /// [`ArrayError`].
    pub fn discard(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let array = self.clone();
        Detached::start(self.env(), async move {
            array.parts.stripes.discard_request(offset_bytes, len_bytes, false).await
        })
    }
}
