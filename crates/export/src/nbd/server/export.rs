//! An export: a device under a name.

use std::sync::Arc;

use stripewise_device::{Device, MediaKind};

use super::ServerError;
use crate::nbd::{
    limits::{REQUEST_BYTES_MAX, STRING_BYTES_MAX},
    proto::{ExportFacts, TransmissionFlags},
};

/// The advertised I/O size if nothing better is known.
const PREFERRED_BYTES: u32 = 64 << 10;

/// A device that clients can choose by name.
#[derive(Clone)]
pub struct Export {
    /// The name; "" makes it the default export. Clients must give it exactly.
    pub name: String,
    /// Text for people, shown in lists.
    pub description: String,
    /// The device served.
    pub device: Arc<dyn Device>,
    /// Refuse all changes.
    pub read_only: bool,
    /// The size of fast I/O, a power of two: the stripe's data width, say. Clients are told.
    pub preferred_bytes: u32,
    /// The device writes zeroes faster than data, so a client may ask for "fast or not at all".
    pub fast_zero: bool,
    /// Offer discards (TRIM).
    pub discard: bool,
}

impl Export {
    /// A writable export without description.
    pub fn new(name: impl Into<String>, device: Arc<dyn Device>) -> Self {
        let (name, description) = (name.into(), String::new());
        let fast_zero = device.info().unmaps == Some(true);
        Self {
            name,
            description,
            device,
            read_only: false,
            preferred_bytes: PREFERRED_BYTES,
            fast_zero,
            discard: true,
        }
    }

    /// What clients learn about it, if the protocol can carry its strings.
    pub(super) fn facts(&self) -> Result<ExportFacts, ServerError> {
        let is_text = |text: &str| text.len() <= STRING_BYTES_MAX && !text.contains(char::is_control);
        if !is_text(&self.name) || !is_text(&self.description) {
            return Err(ServerError::BadName(self.name.clone()));
        }
        let info = self.device.info();
        let block = info.logical_block_bytes;
        Ok(ExportFacts {
            name: self.name.clone(),
            description: self.description.clone(),
            size_bytes: info.size_bytes / u64::from(block) * u64::from(block),
            block_bytes: block,
            preferred_bytes: self
                .preferred_bytes
                .next_power_of_two()
                .clamp(block.max(512), REQUEST_BYTES_MAX),
            flags: self.flags(info.media),
            fast_zero: self.fast_zero,
        })
    }

    /// A flush covers the writes of all connections, as they all end in one device: several may be opened.
    fn flags(&self, media: MediaKind) -> TransmissionFlags {
        use TransmissionFlags as Flags;
        let always = Flags::HAS_FLAGS | Flags::SEND_FLUSH | Flags::SEND_FUA | Flags::CAN_MULTI_CONN;
        let changes =
            Flags::SEND_WRITE_ZEROES | Flags::SEND_FAST_ZERO | Flags::when(self.discard, Flags::SEND_TRIM);
        let access = if self.read_only { Flags::READ_ONLY } else { changes };
        always | access | Flags::when(media == MediaKind::Hdd, Flags::ROTATIONAL)
    }
}
