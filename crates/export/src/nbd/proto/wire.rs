//! Reading big-endian fields off a slice, and appending them to a vector.

/// The input ended before the field did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Short;

/// The part of the input that is not read yet.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (now, rest) = self.0.split_at_checked(len).ok_or(Short)?;
        self.0 = rest;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (now, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(*now)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string's bytes behind their 32-bit length.
    pub(super) fn counted(&mut self) -> Result<&'a [u8], Short> {
        let len = self.u32()?;
        self.bytes(len as usize)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends big-endian fields.
pub(super) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// A string behind its 32-bit length.
    fn put_counted(&mut self, text: &str) {
        self.put_u32(text.len() as u32);
        self.put(text.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
