//! What a story asks of a database, and the tables that it fills.
//!
//! Each transaction of a client adds a row with the next number, and writes the number to the client's counter. So it
//! is seen whether a transaction is there, and whether all of it is.

use std::{path::Path, process::Command};

pub(crate) const TABLES: &str =
    "CREATE TABLE entries (client INTEGER, number INTEGER, text TEXT, PRIMARY KEY (client, number));
    CREATE TABLE counters (client INTEGER PRIMARY KEY, last INTEGER);";
/// All that was written, a client's counter first.
pub(crate) const EVERYTHING: [&str; 2] = [
    "SELECT client, last, 'counter' FROM counters ORDER BY client",
    "SELECT client, number, text FROM entries ORDER BY client, number",
];
/// Texts are longer than a page of a database now and then, and mostly shorter.
const TEXT_LEN_MAX: u64 = 12_000;
const SHORT_TEXT_LEN: u64 = 400;

pub(crate) trait Database {
    /// How a transaction begins that is going to write.
    const BEGIN: &'static str;

    /// Makes an empty database in `folder`, on the array, and runs `tables`; what is not to be lost with the array
    /// goes to `beside`.
    fn make(folder: &Path, beside: &Path, tables: &str) -> Self;

    /// Opens the database for clients; recovers it, if it was not closed.
    fn open(&mut self, random: &mut fastrand::Rng);

    /// What the database answers: a line for each row, its fields with `|` between them.
    fn ask(&self, sql: &str) -> String;

    /// A program that runs SQL of its standard input, and ends at the first error.
    fn shell(&self) -> Command;

    /// A line at which the shell prints a number.
    fn print(number: u64) -> String;

    /// Has the database look at itself.
    fn check(&self);

    /// Closes it in good order. The array can be unmounted then.
    fn close(&mut self);

    /// Ends what runs, after the array has gone away.
    fn abandon(&mut self);
}

/// The transaction that is a client's `number`th.
pub(crate) fn transaction<D: Database>(client: u64, number: u64) -> String {
    let (begin, text) = (D::BEGIN, text(client, number));
    format!(
        "{begin};\nINSERT INTO entries VALUES ({client}, {number}, '{text}');\n\
         UPDATE counters SET last = {number} WHERE client = {client};\nCOMMIT;\n{}\n",
        D::print(number)
    )
}

/// A new client's counter.
pub(crate) fn counter(client: u64) -> String {
    format!("INSERT INTO counters VALUES ({client}, 0);\n")
}

/// The text in a row, different for each.
pub(crate) fn text(client: u64, number: u64) -> String {
    let mut random = fastrand::Rng::with_seed(client << 32 | number);
    let len_max = if random.u8(0..16) == 0 { TEXT_LEN_MAX } else { SHORT_TEXT_LEN };
    let len = random.u64(1..=len_max);
    (0..len).map(|_| random.alphanumeric()).collect()
}
