//! Reads a request's body from its front. Every step checks what is left.

use zerocopy::FromBytes;

use super::ParseErrorKind;

/// What is left of a body.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// A struct of the ABI, wherever it lies.
    pub(super) fn read<T: FromBytes>(&mut self) -> Result<T, ParseErrorKind> {
        let short = ParseErrorKind::Short { needed_bytes: size_of::<T>(), found_bytes: self.rest.len() };
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| short)?;
        self.rest = rest;
        Ok(value)
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], ParseErrorKind> {
        let short = ParseErrorKind::Short { needed_bytes: len, found_bytes: self.rest.len() };
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Bytes up to a zero, which is passed over.
    pub(super) fn string(&mut self) -> Result<&'a [u8], ParseErrorKind> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(ParseErrorKind::EndlessName)?;
        let (string, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(string)
    }

    /// A name of a folder's entry, which is neither empty nor a path.
    pub(super) fn name(&mut self) -> Result<&'a [u8], ParseErrorKind> {
        let name = self.string()?;
        if name.is_empty() || name.contains(&b'/') { Err(ParseErrorKind::BadName) } else { Ok(name) }
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
