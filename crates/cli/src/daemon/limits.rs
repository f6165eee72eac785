//! Checks the limits that an operator sets for the clients of an NBD server. A limit is honoured or refused,
//! never raised silently.

use std::time::Duration;

use anyhow::ensure;
use stripewise::export::nbd::{Limits, limits::CONNECTION_IN_FLIGHT_BYTES_MIN};
use stripewise_wire::ServeLimits;

use crate::sizes::format_size;

/// The limits of a server. If all clients together may hold less than one client's default, one client may
/// hold as much as all. If something bounds the process's memory, clients may by default hold half of what is
/// left of it: the work on their data takes memory too.
///
/// # Errors
/// If a limit cannot be kept.
pub(super) fn limits_of(asked: &ServeLimits, left_bytes: Option<u64>) -> anyhow::Result<Limits> {
    let ServeLimits { connections, in_flight_bytes, connection_in_flight_bytes, idle_ms } = *asked;
    let limits = Limits::default();
    check_least("--in-flight", in_flight_bytes)?;
    check_least("--connection-in-flight", connection_in_flight_bytes)?;
    let by_default = left_bytes.map_or(limits.in_flight_bytes, |left| {
        (left / 2).clamp(CONNECTION_IN_FLIGHT_BYTES_MIN, limits.in_flight_bytes)
    });
    let all = in_flight_bytes.unwrap_or(by_default);
    let one = connection_in_flight_bytes.unwrap_or(limits.connection_in_flight_bytes.min(all));
    ensure!(
        one <= all,
        "--connection-in-flight {} is more than all clients may hold together, {}: give --in-flight as much",
        format_size(one),
        format_size(all)
    );
    Ok(Limits {
        connections: connections.unwrap_or(limits.connections),
        in_flight_bytes: all,
        connection_in_flight_bytes: one,
        idle: idle_ms.map(Duration::from_millis),
        ..limits
    })
}

fn check_least(option: &str, bytes: Option<u64>) -> anyhow::Result<()> {
    ensure!(
        bytes.is_none_or(|bytes| bytes >= CONNECTION_IN_FLIGHT_BYTES_MIN),
        "{option} {} is less than the largest request takes: give {} or more",
        format_size(bytes.unwrap_or_default()),
        format_size(CONNECTION_IN_FLIGHT_BYTES_MIN)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(all_mib: Option<u64>, one_mib: Option<u64>) -> Result<(u64, u64), String> {
        limits_in(all_mib, one_mib, None)
    }

    fn limits_in(
        all_mib: Option<u64>,
        one_mib: Option<u64>,
        left_mib: Option<u64>,
    ) -> Result<(u64, u64), String> {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib << 20);
        let asked = ServeLimits {
            in_flight_bytes: bytes(all_mib),
            connection_in_flight_bytes: bytes(one_mib),
            ..ServeLimits::default()
        };
        let limits = limits_of(&asked, left_mib.map(|mib| mib << 20)).map_err(|error| error.to_string())?;
        Ok((limits.in_flight_bytes >> 20, limits.connection_in_flight_bytes >> 20))
    }

    #[test]
    fn a_limit_is_honoured_or_refused() {
        assert_eq!(limits(None, None), Ok((256, 64)));
        assert_eq!(limits(Some(48), None), Ok((48, 48)), "not raised to what one has by default");
        assert_eq!(limits(Some(512), Some(300)), Ok((512, 300)));
        let said = limits(Some(8), None).unwrap_err();
        assert!(said.contains("--in-flight 8 MiB") && said.contains("40 MiB or more"), "{said}");
        assert!(limits(None, Some(1)).unwrap_err().contains("--connection-in-flight 1 MiB"));
        assert!(limits(Some(48), Some(64)).unwrap_err().contains("--in-flight as much"));
        assert!(limits(None, Some(512)).unwrap_err().contains("256 MiB"));
        assert_eq!(limits_in(None, None, Some(9000)), Ok((256, 64)));
        assert_eq!(limits_in(None, None, Some(200)), Ok((100, 64)), "half of what is left");
        assert_eq!(limits_in(None, None, Some(20)), Ok((40, 40)), "less cannot be");
        assert_eq!(limits_in(Some(128), None, Some(20)), Ok((128, 64)), "as was asked");
    }
}
