//! The measured figures, for people and programs.

use std::fmt;

use serde::Serialize;
use stripewise_lab::engine_bench::median;

use super::{case::Case, servers::Kind};

/// The figures of all servers for one case and one number of connections.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    case: String,
    bytes_per_request: u64,
    connections: usize,
    /// Requests in flight on each connection.
    queue_depth: usize,
    servers: Vec<ServerFigure>,
    /// This program's rate divided by the better peer's: the median over the turns. None without either.
    ratio: Option<f64>,
}

/// The figures of one server.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ServerFigure {
    server: String,
    requests_per_s: f64,
    /// Processor time per request in nanoseconds: first the server's, then that of the client beside it.
    cpu_ns_per_request: f64,
    client_cpu_ns_per_request: f64,
}

/// A turn of one server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) requests_per_s: f64,
    pub(super) cpu_ns: f64,
    pub(super) client_cpu_ns: f64,
}

/// All turns. Each holds one sample of every server, always in the same order.
pub(super) struct Turns {
    kinds: Vec<Kind>,
    turns: Vec<Vec<Sample>>,
}

impl Turns {
    pub(super) fn new(kinds: Vec<Kind>) -> Self {
        Self { kinds, turns: Vec::new() }
    }

    pub(super) fn add(&mut self, turn: Vec<Sample>) {
        self.turns.push(turn);
    }

    pub(super) fn figure(&self, case: Case, connections: usize) -> Figure {
        let servers = self.kinds.iter().enumerate().map(|(index, kind)| self.of_server(index, *kind));
        Figure {
            case: case.name(),
            bytes_per_request: case.bytes() as u64,
            connections,
            queue_depth: case.depth(),
            servers: servers.collect(),
            ratio: median(self.turns.iter().filter_map(|turn| self.ratio(turn)).collect()),
        }
    }

    fn of_server(&self, index: usize, kind: Kind) -> ServerFigure {
        let of = |value: fn(&Sample) -> f64| {
            median(self.turns.iter().map(|turn| value(&turn[index])).collect()).unwrap_or(0.0)
        };
        ServerFigure {
            server: kind.name(),
            requests_per_s: of(|sample| sample.requests_per_s),
            cpu_ns_per_request: of(|sample| sample.cpu_ns),
            client_cpu_ns_per_request: of(|sample| sample.client_cpu_ns),
        }
    }

    /// Our rate divided by the better peer's, in one turn.
    fn ratio(&self, turn: &[Sample]) -> Option<f64> {
        let best = |ours: bool| {
            let of = self.kinds.iter().zip(turn).filter(|(kind, _)| (**kind == Kind::Stripewise) == ours);
            of.map(|(_, sample)| sample.requests_per_s).max_by(f64::total_cmp)
        };
        Some(best(true)? / best(false)?)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, bytes_per_request, connections, queue_depth, servers, ratio } = self;
        write!(f, "{case:<16} {bytes_per_request:>7} B, {connections} connections, queue {queue_depth:>2}")?;
        if let Some(ratio) = ratio {
            write!(f, "  ratio {ratio:.2}")?;
        }
        for ServerFigure { server, requests_per_s, cpu_ns_per_request, client_cpu_ns_per_request } in servers
        {
            let gb_per_s = requests_per_s * *bytes_per_request as f64 / 1e9;
            write!(
                f,
                "\n  {server:<10} {requests_per_s:>8.0}/s {gb_per_s:>6.2} GB/s {cpu_ns_per_request:>8.0} ns of CPU, \
                 client {client_cpu_ns_per_request:>8.0} ns"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn sample(requests_per_s: f64) -> Sample {
        Sample { requests_per_s, cpu_ns: 1.0, client_cpu_ns: 2.0 }
    }

    #[test]
    fn the_ratio_is_to_the_better_peer_of_each_turn() {
        let mut turns = Turns::new(Kind::value_variants().to_vec());
        for [ours, nbdkit, qemu] in [[30.0, 10.0, 20.0], [30.0, 30.0, 20.0], [40.0, 10.0, 10.0]] {
            turns.add([ours, nbdkit, qemu].map(sample).to_vec());
        }
        let figure = turns.figure(Case::RandomRead, 2);
        assert_eq!(figure.ratio, Some(1.5));
        assert_eq!(figure.servers[1].requests_per_s, 10.0);
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let mut turns = Turns::new(vec![Kind::Stripewise]);
        turns.add(vec![sample(1.0)]);
        assert_eq!(turns.figure(Case::RandomRead, 1).ratio, None);
    }
}
