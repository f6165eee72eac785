//! Why bytes are no request.

use thiserror::Error;

use crate::protocol::{Opcode, RequestId, input::InHeader};

/// Bytes from the kernel that are no request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "a FUSE request cannot be read (opcode {opcode}): {kind}; it is refused: kernel and program may not fit together"
)]
pub struct ParseError {
    /// The number of the request, if the header could be read: then the kernel can be answered.
    pub id: Option<RequestId>,
    /// The opcode's number; zero without a header.
    pub opcode: u32,
    /// What is wrong.
    pub kind: ParseErrorKind,
}

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The bytes end before a field that must be there.
    #[error("{needed_bytes} bytes are needed where {found_bytes} are left")]
    Short {
        /// The field's length.
        needed_bytes: usize,
        /// What is left.
        found_bytes: usize,
    },
    /// The header states another length than what came.
    #[error("its header says {stated_bytes} bytes, and {found_bytes} came")]
    WrongLength {
        /// As the header says.
        stated_bytes: u32,
        /// As they came.
        found_bytes: usize,
    },
    /// A name has no end.
    #[error("a name has no terminating zero")]
    EndlessName,
    /// The name of an entry is empty, or a path.
    #[error("a name is empty or contains a slash")]
    BadName,
    /// Data come with a request that has none.
    #[error("it has data, and is not a WRITE")]
    UnexpectedData,
    /// A number has no meaning.
    #[error("{field} is {value}, which has no meaning")]
    BadValue {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl ParseError {
    pub(super) fn new(header: &InHeader, kind: ParseErrorKind) -> Self {
        Self { id: Some(RequestId::of(header)), opcode: header.opcode, kind }
    }

    pub(super) fn without_header(found_bytes: usize) -> Self {
        let kind = ParseErrorKind::Short { needed_bytes: size_of::<InHeader>(), found_bytes };
        Self { id: None, opcode: 0, kind }
    }

    /// Whether the kernel waits for an answer to this request.
    pub fn wants_answer(&self) -> bool {
        self.id.is_some() && !Opcode::from_code(self.opcode).is_some_and(Opcode::is_silent)
    }
}
