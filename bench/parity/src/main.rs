//! Parity bandwidth, ours against others, in one run: 4+1 XOR and 8+2 P+Q at 4 KiB, 64 KiB and 1 MiB, with the
//! working set in cache and far beyond it. Before timing, every contender's output is checked against ISA-L's.
//!
//! Figures are data bytes per second (parity not counted), the best of interleaved rounds.

mod isal;
mod row;
mod stream;

use row::Row;
use std::hint::black_box;
use std::time::{Duration, Instant};
use stripewise_parity::Kernel;

const COLD_BYTES: usize = 512 << 20;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(30);
const LENGTHS: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

struct Contender {
    name: String,
    run: Box<dyn FnMut(&mut Row)>,
    /// Whether P (and Q) come out as RAID-6 defines them.
    comparable: bool,
}

fn contender(name: impl Into<String>, run: impl FnMut(&mut Row) + 'static) -> Contender {
    Contender { name: name.into(), run: Box::new(run), comparable: true }
}

fn memcpy() -> Contender {
    let mut copies = Vec::new();
    let mut turn = 0;
    let run = move |row: &mut Row| {
        // As many targets as keep the copies out of cache whenever the sources are.
        let targets = if row.length * row.data * 64 > COLD_BYTES { 2 } else { 1 };
        copies.resize_with(targets, || vec![0; row.length * row.data]);
        turn = (turn + 1) % targets;
        let sources = row.columns[..row.data].iter();
        copies[turn]
            .chunks_exact_mut(row.length)
            .zip(sources)
            .for_each(|(to, from)| to.copy_from_slice(from));
        black_box(&mut copies[turn]);
    };
    Contender { comparable: false, ..contender("memcpy", run) }
}

/// Its code is not RAID-6 and its shards are copied in: what embedding it would cost, as its API stands.
fn reed_solomon_simd(data: usize, parities: usize, length: usize) -> Contender {
    let mut encoder = reed_solomon_simd::ReedSolomonEncoder::new(data, parities, length).expect("supported");
    let run = move |row: &mut Row| {
        for column in &row.columns[..data] {
            encoder.add_original_shard(column).expect("a shard");
        }
        let result = encoder.encode().expect("all shards");
        for (parity, to) in result.recovery_iter().zip(&mut row.columns[data..]) {
            to.copy_from_slice(parity);
        }
    };
    Contender { comparable: false, ..contender("reed-solomon-simd", run) }
}

fn xor_contenders(data: usize, length: usize) -> Vec<Contender> {
    let mut all = vec![memcpy()];
    for kernel in Kernel::available() {
        all.push(contender(format!("ours {}", kernel.name()), |row| {
            let (data, parity) = row.columns.split_at_mut(row.data);
            let sources: [&[u8]; 4] = std::array::from_fn(|index| &*data[index]);
            kernel.xor_gen(parity[0], &sources);
        }));
    }
    if stream::supported() {
        all.push(contender("ours, streaming stores", stream::xor));
    }
    all.push(contender("isa-l xor_gen", isal::xor));
    all.push(reed_solomon_simd(data, 1, length));
    all
}

fn pq_contenders(data: usize, length: usize) -> Vec<Contender> {
    let mut all = vec![memcpy()];
    for kernel in Kernel::available() {
        all.push(contender(format!("ours {}", kernel.name()), |row| {
            let (data, p, q) = row.parts::<8>();
            kernel.pq_gen(&data, p, q);
        }));
    }
    if stream::supported() {
        all.push(contender("ours, streaming stores", stream::pq));
    }
    all.push(contender("isa-l pq_gen", isal::pq));
    let mut encoder = isal::Encoder::new(data, 2);
    all.push(contender("isa-l ec_encode_data", move |row| encoder.run(row)));
    all.push(reed_solomon_simd(data, 2, length));
    all
}

/// Every comparable contender must give the parity that ISA-L gives.
fn check(contenders: &mut [Contender], data: usize, parities: usize, length: usize) {
    let mut row = Row::many(1, data, length).remove(0);
    if parities == 1 {
        isal::xor(&mut row)
    } else {
        isal::pq(&mut row)
    }
    let expected: Vec<Vec<u8>> = row.columns[data..data + parities].iter().map(|c| c.to_vec()).collect();
    for contender in contenders.iter_mut().filter(|contender| contender.comparable) {
        row.columns[data..].iter_mut().for_each(|parity| parity.fill(0xEE));
        (contender.run)(&mut row);
        for (parity, expected) in row.columns[data..].iter().zip(&expected) {
            assert!(**parity == expected[..], "{} differs from ISA-L", contender.name);
        }
    }
}

/// Data bytes per nanosecond over one round.
fn measure(contender: &mut Contender, rows: &mut [Row], next: &mut usize) -> f64 {
    let per_row = rows[0].data * rows[0].length;
    let batch = (256_usize << 10).div_ceil(per_row);
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < ROUND {
        for _ in 0..batch {
            (contender.run)(black_box(&mut rows[*next]));
            *next = (*next + 1) % rows.len();
            bytes += per_row;
        }
    }
    bytes as f64 / start.elapsed().as_nanos() as f64
}

fn compete(contenders: &mut [Contender], rows: &mut [Row]) -> Vec<f64> {
    let (mut best, mut next) = (vec![0.0_f64; contenders.len()], 0);
    for _ in 0..ROUNDS {
        for (contender, best) in contenders.iter_mut().zip(&mut best) {
            *best = best.max(measure(contender, rows, &mut next));
        }
    }
    best
}

fn case(title: &str, data: usize, parities: usize, contenders: fn(usize, usize) -> Vec<Contender>) {
    println!("\n{title}, GB/s of data");
    println!("{:<26}  4K hot 64K hot  1M hot 4K cold 64K cold 1M cold", "");
    let mut table: Vec<(String, Vec<f64>)> = Vec::new();
    for cold in [false, true] {
        for length in LENGTHS {
            let mut contenders = contenders(data, length);
            check(&mut contenders, data, parities, length);
            let rows = if cold { COLD_BYTES / ((data + 2) * length) } else { 1 };
            let figures = compete(&mut contenders, &mut Row::many(rows, data, length));
            table.resize_with(contenders.len(), Default::default);
            for ((line, contender), figure) in table.iter_mut().zip(contenders).zip(figures) {
                line.0 = contender.name;
                line.1.push(figure);
            }
        }
    }
    for (name, figures) in table {
        println!("{name:<26}{}", figures.iter().map(|f| format!("{f:8.1}")).collect::<String>());
    }
}

type Operation = fn(&mut Row);

/// What the engine does most: read-modify-write and reconstruction, ours only.
fn other_operations() {
    println!("\nother operations of the best kernel, GB/s (rmw: of new data; recover: of data read), hot");
    println!("{:<26}      4K     64K      1M", "");
    let operations: [(&str, Operation); 4] = [
        ("p_update", |row| {
            let (data, p, _) = row.parts::<2>();
            stripewise_parity::p_update(p, data[0].expect("given"), data[1].expect("given"));
        }),
        ("pq_update", |row| {
            let (data, p, q) = row.parts::<2>();
            stripewise_parity::pq_update(p, q, 3, data[0].expect("given"), data[1].expect("given"));
        }),
        ("recover_two_data, 8+2", |row| {
            let (lost, survivors) = row.columns.split_at_mut(2);
            let [out_a, out_b] = lost else { unreachable!() };
            let data: [Option<&[u8]>; 8] =
                std::array::from_fn(|index| index.checked_sub(2).map(|at| &*survivors[at]));
            stripewise_parity::recover_two_data(&*survivors[6], &*survivors[7], &data, [0, 1], out_a, out_b);
        }),
        ("is_zero", |row| {
            row.columns[0].fill(0);
            let repeats = 64;
            (0..repeats).for_each(|_| assert!(stripewise_parity::is_zero(black_box(&*row.columns[0]))));
        }),
    ];
    for (name, run) in operations {
        let weight = if name.starts_with("recover") {
            8.0
        } else if name == "is_zero" {
            64.0
        } else {
            1.0
        };
        let figures = LENGTHS.map(|length| {
            let mut rows = Row::many(1, 8, length);
            compete(&mut [contender(name, run)], &mut rows)[0] / 8.0 * weight
        });
        println!("{name:<26}{}", figures.iter().map(|f| format!("{f:8.1}")).collect::<String>());
    }
}

fn main() {
    println!("best kernel here: {}", Kernel::best().name());
    case("4+1 XOR", 4, 1, xor_contenders);
    case("8+2 P+Q", 8, 2, pq_contenders);
    other_operations();
}
