//! How a device is added to an open array.

use stripewise_format::extension::MemberClass;

use crate::members::benches::StrideBenches;

/// How a device is added. By default, what it is like is detected.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AddOptions {
    /// What kind of device it is, if that is not to be detected.
    pub class: Option<MemberClass>,
    /// Tells those who wait that its strides are being measured.
    pub benches: StrideBenches,
}

impl AddOptions {
    /// Sets what kind of [device](#structfield.class) it is.
    #[must_use]
    pub fn class(self, class: Option<MemberClass>) -> Self {
        Self { class, ..self }
    }

    /// Sets what [tells](#structfield.benches) of the benchmark.
    #[must_use]
    pub fn benches(self, benches: StrideBenches) -> Self {
        Self { benches, ..self }
    }
}
