//! Processor time that another process took.

use std::{fs, time::Duration};

use anyhow::Context;

/// The processor time of a process, including threads that have ended, in steps of a hundredth of a second.
pub(super) fn of(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("{path}: the server has ended"))?;
    let ticks = ticks(&stat).with_context(|| format!("{path}: not as proc(5) has it"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// User and system time. The program's name, in front of them, may contain spaces and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields =
        stat.rsplit_once(") ")?.1.split(' ').skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(fields.next()? + fields.next()?)
}

#[cfg(test)]
mod tests {
    use stripewise_lab::engine_bench::own_processor_time;

    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let stat = "77 (a) b (c) S 1 77 77 0 -1 4194560 1 0 0 0 30 12 5 6 20 0 1 0 9 9 9";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("77 (a) S 1"), None);
        assert!(of(std::process::id()).unwrap() <= own_processor_time() + Duration::from_millis(20));
    }
}
