//! Clients of a database: shells that commit one transaction after the other, and a note of what was acknowledged.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    common::eventually,
    database::{Database, text, transaction},
};

/// Answers for each client before the load counts as begun.
const FIRST_ANSWERS: u64 = 2;
/// More than any client commits in a round.
const TRANSACTIONS_MAX: u64 = 100_000;
/// How long a client may take to notice that the array has gone away.
const END_WAIT: Duration = Duration::from_secs(60);

/// How far a client is, in numbers of transactions.
#[derive(Debug, Default)]
pub(crate) struct Place {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

impl Place {
    /// A client that has committed so many, and nothing else.
    fn settled(number: u64) -> Self {
        Self { sent: number.into(), acknowledged: number.into() }
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }
}

/// One shell, and the thread that feeds it.
struct Client {
    shell: Child,
    feeder: Option<JoinHandle<()>>,
}

/// All clients of a round.
pub(crate) struct Clients {
    running: Vec<Client>,
    ledger: Ledger,
}

/// What was sent and what was acknowledged, by client.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ledger(BTreeMap<u64, Arc<Place>>);

impl Ledger {
    /// Clients that have not committed anything.
    pub(crate) fn of(count: u64) -> Self {
        Self((0..count).map(|client| (client, Arc::default())).collect())
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.0.values().map(|place| place.acknowledged()).sum()
    }

    /// Compares all that a database holds with what it must hold, and settles it. How many transactions are there
    /// that were not acknowledged.
    pub(crate) fn settle(&mut self, everything: &str) -> u64 {
        let mut held = Held::parse(everything);
        let mut unacknowledged = 0;
        for (client, place) in &mut self.0 {
            let (sent, acknowledged) = (place.sent.load(Ordering::SeqCst), place.acknowledged());
            let last = held.take(*client);
            assert!(last >= acknowledged, "client {client} was told of {acknowledged}, and {last} are there");
            assert!(last <= sent, "client {client} sent {sent}, and {last} are there");
            unacknowledged += last - acknowledged;
            *place = Arc::new(Place::settled(last));
        }
        assert!(held.0.is_empty(), "clients that never were: {:?}", held.0.keys());
        unacknowledged
    }
}

/// The rows of a database by client: the counter, and the numbers, all of which have the right text.
struct Held(BTreeMap<u64, (u64, Vec<u64>)>);

impl Held {
    fn parse(everything: &str) -> Self {
        let mut held = BTreeMap::<u64, (u64, Vec<u64>)>::new();
        for line in everything.lines() {
            let [client, number, rest] = line.splitn(3, '|').collect::<Vec<_>>()[..] else {
                panic!("not a row: {line}")
            };
            let (client, number) = (client.parse().unwrap(), number.parse().unwrap());
            let (last, numbers) = held.entry(client).or_default();
            if rest == "counter" {
                *last = number;
            } else {
                assert!(
                    rest == text(client, number),
                    "client {client}, {number}: not what was written: {rest}"
                );
                numbers.push(number);
            }
        }
        Self(held)
    }

    /// The number of a client's transactions, of which none is missing, and none is there in part.
    fn take(&mut self, client: u64) -> u64 {
        let (last, numbers) =
            self.0.remove(&client).unwrap_or_else(|| panic!("client {client} has no counter"));
        let whole: Vec<u64> = (1..=last).collect();
        assert!(
            numbers == whole,
            "client {client}: the counter is at {last}, and these rows are there: {numbers:?}"
        );
        last
    }
}

impl Clients {
    /// Starts all clients of the ledger, and waits until there were some answers for each: some may have had none, as
    /// SQLite does not let in those first who wait longest.
    pub(crate) fn start<D: Database>(database: &D, ledger: &Ledger) -> Self {
        let begun = ledger.clone();
        let awaited = begun.acknowledged() + FIRST_ANSWERS * begun.0.len() as u64;
        let running = begun.0.iter().map(|(client, place)| Client::start(database, *client, place.clone()));
        let clients = Self { running: running.collect(), ledger: begun };
        eventually("clients have committed something", || clients.ledger.acknowledged() >= awaited);
        clients
    }

    /// None was refused anything.
    pub(crate) fn assert_all_run(&mut self) {
        assert!(self.running.iter_mut().all(Client::runs), "a client ended while the array was there");
    }

    /// Clients end by themselves when the array is gone: their next transaction fails.
    pub(crate) fn end(self) {
        let deadline = Instant::now() + END_WAIT;
        self.running.into_iter().for_each(|client| client.end(deadline));
    }
}

impl Drop for Client {
    /// In a test that fails it may run, and may hang.
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl Client {
    fn start<D: Database>(database: &D, client: u64, place: Arc<Place>) -> Self {
        let mut command = database.shell();
        let mut shell =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let feeder = thread::spawn(move || feed::<D>(client, &place, input, output));
        Self { shell, feeder: Some(feeder) }
    }

    fn runs(&mut self) -> bool {
        self.shell.try_wait().unwrap().is_none()
    }

    fn end(mut self, deadline: Instant) {
        while self.runs() {
            assert!(Instant::now() < deadline, "a client hangs after the array has gone");
            thread::sleep(Duration::from_millis(2));
        }
        self.feeder.take().unwrap().join().unwrap();
    }
}

/// Sends one transaction after the other until the shell ends.
fn feed<D: Database>(client: u64, place: &Place, mut input: ChildStdin, output: ChildStdout) {
    let mut answers = BufReader::new(output).lines();
    let first = place.acknowledged() + 1;
    for number in first..first + TRANSACTIONS_MAX {
        place.sent.store(number, Ordering::SeqCst);
        if input.write_all(transaction::<D>(client, number).as_bytes()).is_err() {
            return;
        }
        let Some(Ok(answer)) = answers.next() else { return };
        assert_eq!(answer.parse(), Ok(number), "client {client}");
        place.acknowledged.store(number, Ordering::SeqCst);
    }
}
