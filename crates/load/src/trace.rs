//! Replays recorded requests.
//!
//! A trace is text, one request a line: time in microseconds, operation (R, W or F for flush), and except for
//! F offset and length in bytes, separated by blanks or tabs. Empty lines and lines that begin with `#` are
//! ignored.

use std::{str::FromStr, sync::Arc, time::Duration};

use smallvec::smallvec;
use stripewise_device::{Device, EnvHandle, IoBuf, SharedBuf, WriteFlags};
use thiserror::Error;

use crate::{gather::Gathering, report::LoadReport};

/// The operation of a recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceOp {
    /// R.
    Read,
    /// W.
    Write,
    /// F.
    Flush,
}

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRequest {
    /// From the recording's start, in microseconds.
    pub time_us: u64,
    /// What it did.
    pub op: TraceOp,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub len_bytes: u64,
}

/// A recording, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace(Vec<TraceRequest>);

/// Why a text is not a trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct TraceError {
    /// Counted from 1.
    pub line: usize,
    what: &'static str,
}

impl Trace {
    /// The requests.
    pub fn requests(&self) -> &[TraceRequest] {
        &self.0
    }
}

impl FromIterator<TraceRequest> for Trace {
    fn from_iter<T: IntoIterator<Item = TraceRequest>>(requests: T) -> Self {
        let mut requests: Vec<_> = requests.into_iter().collect();
        requests.sort_by_key(|request| request.time_us);
        Self(requests)
    }
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        text.lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(line, text)| parse_line(text).map_err(|what| TraceError { line, what }))
            .collect()
    }
}

fn parse_line(text: &str) -> Result<TraceRequest, &'static str> {
    let mut words = text.split_ascii_whitespace();
    let mut word = || words.next().ok_or("time, operation, offset and length are expected");
    let time_us = number(word()?)?;
    let op = match word()? {
        "R" | "r" => TraceOp::Read,
        "W" | "w" => TraceOp::Write,
        "F" | "f" => TraceOp::Flush,
        _ => return Err("the operation is none of R, W and F"),
    };
    let (offset_bytes, len_bytes) = match op {
        TraceOp::Flush => (0, 0),
        _ => (number(word()?)?, number(word()?)?),
    };
    if words.next().is_some() {
        return Err("there is more than time, operation, and but for F offset and length");
    }
    Ok(TraceRequest { time_us, op, offset_bytes, len_bytes })
}

fn number(word: &str) -> Result<u64, &'static str> {
    word.parse().map_err(|_| "a number is expected")
}

/// Begins each request at its time, whether or not earlier ones have ended. Must be awaited on a task of the
/// environment.
pub async fn replay(env: EnvHandle, device: Arc<dyn Device>, trace: &Trace) -> LoadReport {
    let longest = trace.0.iter().map(|request| request.len_bytes).max().unwrap_or(0);
    let source = IoBuf::zeroed(longest as usize).freeze();
    let gathering = Gathering::new(trace.0.len() as u64);
    let start = env.now();
    for request in &trace.0 {
        let due = Duration::from_micros(request.time_us);
        let wait = due.saturating_sub(env.now().since(start));
        if wait > Duration::ZERO {
            env.sleep(wait).await;
        }
        let (gathering, one) =
            (gathering.clone(), One { env: env.clone(), device: device.clone(), request: *request });
        let source = source.clone();
        env.spawn(Box::pin(async move {
            let mut report = one.run(source).await;
            report.elapsed = one.env.now().since(start);
            gathering.bring(&mut report);
        }));
    }
    gathering.wait().await
}

struct One {
    env: EnvHandle,
    device: Arc<dyn Device>,
    request: TraceRequest,
}

impl One {
    async fn run(&self, source: SharedBuf) -> LoadReport {
        let TraceRequest { op, offset_bytes, len_bytes, .. } = self.request;
        let begin = self.env.now();
        let mut report = LoadReport::default();
        let (result, of) = match op {
            TraceOp::Read => {
                let into = smallvec![IoBuf::with_len(len_bytes as usize)];
                (self.device.read(offset_bytes, into).await.result, &mut report.reads)
            }
            TraceOp::Write => {
                let from = smallvec![source.slice(0..len_bytes as usize)];
                (self.device.write(offset_bytes, from, WriteFlags::default()).await, &mut report.writes)
            }
            TraceOp::Flush => (self.device.flush().await, &mut report.flushes),
        };
        match result {
            Ok(()) => of.record(len_bytes, self.env.now().since(begin)),
            Err(_) => of.errors += 1,
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_read_line_by_line() {
        let text = "# time op offset len\n20 W 4096 512\n\n10 R 0 8192\n 30\tF\n";
        let trace: Trace = text.parse().unwrap();
        let ops: Vec<_> = trace.requests().iter().map(|request| (request.time_us, request.op)).collect();
        assert_eq!(ops, [(10, TraceOp::Read), (20, TraceOp::Write), (30, TraceOp::Flush)]);
        for (bad, line) in
            [("1 X 0 0", 1), ("\n1 R 0", 2), ("1 R 0 1 2", 1), ("1 F 0 0", 1), ("one R 0 1", 1)]
        {
            assert_eq!(bad.parse::<Trace>().unwrap_err().line, line, "{bad}");
        }
    }
}
