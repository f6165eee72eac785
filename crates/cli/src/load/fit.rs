//! What makes a load fit a device.

use std::time::Duration;

use stripewise::DeviceInfo;
use stripewise_load::{Load, Offsets, Sizes, Stop};
use stripewise_wire::{LoadSpec, Pattern};
use thiserror::Error;

use crate::sizes::{format_compared_sizes, format_size};

/// The longest request: longer than any stripe.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// A week.
const MILLISECONDS_MAX: u64 = 7 * 24 * 3600 * 1000;
/// Memory for requests under way.
const UNDER_WAY_BYTES_MAX: u64 = 512 << 20;

/// Why a load does not fit a device. A request to a daemon may carry any number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum LoadError {
    #[error("--bs {bytes}: give a multiple of {block}")]
    Block { bytes: u64, block: u64 },
    #[error("--bs {}: give {} or less", format_size(*bytes), format_size(BLOCK_BYTES_MAX))]
    BlockTooLong { bytes: u64 },
    #[error("--iodepth {depth} and --numjobs {jobs}: that is no number of requests")]
    Requests { depth: u64, jobs: u64 },
    #[error(
        "--bs, --iodepth and --numjobs: {requests} requests of {} would be under way at once: give less, so that they take {} or \
         less together",
        format_size(*bytes), format_size(UNDER_WAY_BYTES_MAX)
    )]
    UnderWay { bytes: u64, requests: u64 },
    #[error(
        "--bs {}: the device has {}",
        format_compared_sizes(*bytes, *device_bytes)[0], format_compared_sizes(*bytes, *device_bytes)[1]
    )]
    Device { bytes: u64, device_bytes: u64 },
    #[error("--rwmixread {0}: give a whole number from 0 to 100")]
    ReadPercent(u8),
    #[error("--size {}: give one request, {}, or more", format_size(*size), format_size(*bytes))]
    Size { size: u64, bytes: u64 },
    #[error(
        "--size {}: the device has {}, and the size is that of the region; give no more, and a --runtime to go over it again and \
         again",
        format_compared_sizes(*size, *device_bytes)[0], format_compared_sizes(*size, *device_bytes)[1]
    )]
    Region { size: u64, device_bytes: u64 },
    #[error("neither a size nor a time: it would never end")]
    Endless,
    #[error("--runtime: give 7d or less")]
    Runtime,
}

/// The load, if it fits the device.
///
/// # Errors
/// [`LoadError`].
pub(crate) fn load_on(device: &DeviceInfo, spec: &LoadSpec) -> Result<Load, LoadError> {
    let (bytes, block) = (spec.block_bytes, u64::from(device.logical_block_bytes));
    if bytes == 0 || !bytes.is_multiple_of(block) {
        return Err(LoadError::Block { bytes, block });
    }
    if bytes > BLOCK_BYTES_MAX {
        return Err(LoadError::BlockTooLong { bytes });
    }
    let (depth, jobs) = (u64::from(spec.iodepth), u64::from(spec.numjobs));
    let requests = depth.checked_mul(jobs).filter(|requests| *requests > 0);
    let requests = requests.ok_or(LoadError::Requests { depth, jobs })?;
    let under_way = requests.checked_mul(bytes).filter(|bytes| *bytes <= UNDER_WAY_BYTES_MAX);
    under_way.ok_or(LoadError::UnderWay { bytes, requests })?;
    if bytes > device.size_bytes {
        return Err(LoadError::Device { bytes, device_bytes: device.size_bytes });
    }
    if spec.read_percent > 100 {
        return Err(LoadError::ReadPercent(spec.read_percent));
    }
    match spec.size_bytes {
        Some(size) if size < bytes => return Err(LoadError::Size { size, bytes }),
        Some(size) if size > device.size_bytes => {
            return Err(LoadError::Region { size, device_bytes: device.size_bytes });
        }
        _ => {}
    }
    let stop = match (spec.runtime_ms, spec.size_bytes) {
        (Some(time), _) if time > MILLISECONDS_MAX => return Err(LoadError::Runtime),
        (Some(time), _) => Stop::Time(Duration::from_millis(time)),
        (None, Some(size)) => Stop::Requests(size / bytes),
        (None, None) => return Err(LoadError::Endless),
    };
    let sequential = matches!(spec.rw, Pattern::Read | Pattern::Write | Pattern::Rw);
    Ok(Load {
        clients: spec.numjobs,
        depth: spec.iodepth,
        offsets: if sequential { Offsets::Sequential } else { Offsets::Uniform },
        sizes: Sizes::Fixed(bytes),
        unit_bytes: bytes,
        span_bytes: spec.size_bytes,
        separate: true,
        read_percent: spec.reads_of_hundred(),
        stop,
        seed: Some(spec.seed),
        ..Load::default()
    })
}

#[cfg(test)]
mod tests {
    use stripewise::{Device, memory::MemoryDevice};

    use super::*;

    fn spec() -> LoadSpec {
        LoadSpec {
            rw: Pattern::RandWrite,
            block_bytes: 4096,
            iodepth: 1,
            numjobs: 1,
            size_bytes: Some(1 << 20),
            runtime_ms: None,
            read_percent: 50,
            seed: 1,
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_errors_and_no_overflow() {
        let device = MemoryDevice::new("m".to_owned(), 1 << 20);
        let load = |change: &dyn Fn(&mut LoadSpec)| {
            let mut spec = spec();
            change(&mut spec);
            load_on(device.info(), &spec)
        };
        assert!(load(&|_| ()).is_ok());
        let error = load(&|spec| (spec.iodepth, spec.numjobs) = (u32::MAX, u32::MAX)).unwrap_err();
        assert!(matches!(error, LoadError::UnderWay { .. }), "{error}");
        let error = load(&|spec| spec.block_bytes = u64::MAX / 512 * 512).unwrap_err();
        assert!(matches!(error, LoadError::BlockTooLong { .. }), "{error}");
        assert_eq!(load(&|spec| spec.numjobs = 0).unwrap_err(), LoadError::Requests { depth: 1, jobs: 0 });
        assert_eq!(load(&|spec| spec.read_percent = 101).unwrap_err(), LoadError::ReadPercent(101));
        let error = load(&|spec| spec.runtime_ms = Some(u64::MAX)).unwrap_err();
        assert_eq!(error, LoadError::Runtime);
        assert_eq!(load(&|spec| spec.size_bytes = None).unwrap_err(), LoadError::Endless);
        let error = load(&|spec| spec.size_bytes = Some((1 << 20) + 1)).unwrap_err();
        assert!(error.to_string().contains("give no more, and a --runtime"), "{error}");
    }

    #[test]
    fn a_time_goes_before_a_size_which_stays_the_region() {
        let device = MemoryDevice::new("m".to_owned(), 1 << 20);
        let spec = LoadSpec { size_bytes: Some(65_536), runtime_ms: Some(5), numjobs: 3, ..spec() };
        let load = load_on(device.info(), &spec).unwrap();
        assert_eq!((load.span_bytes, load.stop), (Some(65_536), Stop::Time(Duration::from_millis(5))));
        let spec = LoadSpec { runtime_ms: None, ..spec };
        assert_eq!(load_on(device.info(), &spec).unwrap().stop, Stop::Requests(16));
        assert_eq!(spec.total_bytes(), Some(3 * 65_536), "each job does as much");
    }
}
