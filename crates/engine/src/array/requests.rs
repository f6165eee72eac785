//! Requests of clients.

use stripewise_device::{IoBuf, SharedBuf, WriteBufs, WriteFlags, ZeroFlags};

use super::Array;
use crate::{compute::Data, error::ArrayError, life::detached::Detached};

impl Array {
    /// Fills `buf` from `offset_bytes` and gives it back. Starts at once. Any thread may ask and await. A
    /// caller that drops the future loses the buffer. [`Array::stop`] waits until the future is polled to its
    /// end or dropped.
    ///
    /// # Errors
    /// [`ArrayError::Unreadable`] names where the first block of 4 KiB begins of which neither its member nor
    /// redundancy could deliver all that was asked for.
    pub fn read(
        &self,
        offset_bytes: u64,
        buf: IoBuf,
    ) -> impl Future<Output = Result<IoBuf, ArrayError>> + Send + use<> {
        self.parts.stripes.start_read(offset_bytes, buf)
    }

    /// Reads into memory of the caller's, by a copy: a member may go on writing into a buffer whose request
    /// was given up, and so never gets memory that is only borrowed.
    ///
    /// # Errors
    /// As [`Array::read`]; then `into` is as it was.
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

    /// Writes `data` at `offset_bytes`. Starts at once, and goes to its end even if the future is dropped.
    /// Any thread may ask and await; of overlapping writes that are under way together any may be the last.
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

    /// As [`Array::write`], of data that lies in several buffers. Where all of them are whole blocks of 4
    /// KiB, in memory and in the array, nothing is copied.
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
    /// [`ArrayError::Failed`] when so many members cannot flush that data may be lost.
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

    /// Whether a discard frees space on the members; else it does nothing. All members must free what is
    /// zeroed: as was tried when they became members, or as the operating system says.
    pub fn unmaps(&self) -> bool {
        self.parts.stripes.unmaps()
    }

    /// Tells that the range's content is no longer needed. If all members unmap ([`Array::unmaps`]), whole
    /// stripes in it are unmapped and read as zeroes; the rest is left as it is.
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
