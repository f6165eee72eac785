//! Values of the options of the file system's commands.

use crate::{rafs::BLOCK_BYTES, sizes::parse_size};

/// Data columns and the chunk of stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) data_columns: u32,
    pub(super) chunk_bytes: u64,
}

impl Columns {
    /// Bytes of a stripe.
    pub(super) fn stripe_bytes(self) -> u64 {
        u64::from(self.data_columns).saturating_mul(self.chunk_bytes)
    }

    /// Blocks of a chunk.
    pub(super) fn rows(self) -> u32 {
        u32::try_from(self.chunk_bytes / BLOCK_BYTES).unwrap_or(u32::MAX)
    }
}

/// Parses `4x64K`.
///
/// # Errors
/// A text for the usage error.
pub(super) fn parse_columns(text: &str) -> Result<Columns, String> {
    let wrong = || format!("'{text}' is no geometry; write it as 4x64K: data columns, and their chunk");
    let (columns, chunk) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
    let data_columns = columns.parse().ok().filter(|columns| *columns > 0).ok_or_else(wrong)?;
    let chunk_bytes = parse_size(chunk).map_err(|_| wrong())?;
    if chunk_bytes == 0 || chunk_bytes % BLOCK_BYTES != 0 {
        return Err(format!("a chunk of {chunk} is no multiple of 4K"));
    }
    Ok(Columns { data_columns, chunk_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometry_is_columns_and_a_chunk() {
        let columns = Columns { data_columns: 4, chunk_bytes: 65_536 };
        assert_eq!(parse_columns("4x64K"), Ok(columns));
        assert_eq!(columns.rows(), 16);
        for bad in ["", "4", "x64K", "0x64K", "4x", "4x1000", "4x0", "-1x64K", "4x64K,"] {
            assert!(parse_columns(bad).is_err(), "{bad}");
        }
    }
}
