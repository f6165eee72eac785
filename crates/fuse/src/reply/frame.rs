//! The header of each reply.

use zerocopy::IntoBytes;

use crate::{
    Errno,
    protocol::{RequestId, output::OutHeader},
};

/// The kernel refuses larger numbers, and whoever waits for the reply would wait on.
const ERRNO_MAX: i32 = 511;

/// An error as the header has it: negative, and one that the kernel accepts.
pub(crate) fn error_code(error: Errno) -> i32 {
    match error.raw_os_error() {
        code @ 1..=ERRNO_MAX => -code,
        _ => -Errno::IO.raw_os_error(),
    }
}

/// The header of a reply with a body of `body_bytes`. `None` if the length does not fit its field.
pub(crate) fn header(id: RequestId, error: i32, body_bytes: usize) -> Option<[u8; size_of::<OutHeader>()]> {
    let len = body_bytes.checked_add(size_of::<OutHeader>()).and_then(|len| u32::try_from(len).ok())?;
    let mut bytes = [0; size_of::<OutHeader>()];
    bytes.copy_from_slice(OutHeader { len, error, unique: id.0 }.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_always_one_that_the_kernel_accepts() {
        assert_eq!(error_code(Errno::NOENT), -2);
        assert_eq!(error_code(Errno::from_raw_os_error(512)), -5);
        assert_eq!(error_code(Errno::from_raw_os_error(4000)), -5);
    }

    #[test]
    fn the_length_counts_the_header() {
        let bytes = header(RequestId(7), 0, 100).unwrap();
        assert_eq!(bytes[..4], 116_u32.to_ne_bytes());
        assert_eq!(bytes[8..], 7_u64.to_ne_bytes());
        assert_eq!(header(RequestId(7), 0, u32::MAX as usize), None);
    }
}
