//! The matrices of msc-ct, and the contiguity transform, against the paper's own procedure: another program, cell by
//! cell, that shares nothing with the engine's.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fmt::Write};

use fastrand::Rng;
use smallvec::SmallVec;
use stripewise_engine::{
    plan::{
        ColumnState, Plan, Presence, Redundancy, StripeState, build,
        costs::NoCosts,
        passes::{ColumnStrides, MemberStrides, PASSES, Pass, Strides},
        selection::policy,
    },
    rows::RowSet,
};

/// A cell's operations.
type Cell = BTreeSet<&'static str>;

/// msc-ct Fig. 5: a row's cycle, by md's counts, and its operations. Data first, then parity.
fn basic_row(z: &[char], parity: usize) -> Vec<Cell> {
    let (dirty, clean) = (|cell: char| cell == 'D', |cell: char| cell == 'C');
    let mut row: Vec<Cell> = vec![Cell::new(); z.len() + parity];
    if !z.iter().any(|cell| dirty(*cell)) {
        return row;
    }
    let writes = z.iter().filter(|cell| dirty(**cell)).count();
    let (rmw, rcw) = (writes + parity, z.iter().filter(|cell| !dirty(**cell) && !clean(**cell)).count());
    for (cell, ops) in z.iter().zip(&mut row) {
        match (*cell, rmw < rcw) {
            ('D', true) => ops.extend(["t", "xx", "w"]),
            ('D', false) => ops.extend(["x", "w"]),
            (_, true) => {}
            ('C', false) => ops.extend(["x"]),
            (_, false) => ops.extend(["r", "x"]),
        }
    }
    for ops in &mut row[z.len()..] {
        ops.extend(if rmw < rcw { vec!["r", "x", "_", "w"] } else { vec!["_", "w"] });
    }
    row
}

/// msc-ct Fig. 10, line by line, with its one-based indices; p is reset for each column in both procedures.
fn fig_10(m: &mut [Vec<Cell>], z: &[Vec<char>], limits: &[[usize; 2]], except: [usize; 2]) {
    let (u, v, data) = (m.len(), m[0].len(), z[0].len());
    let may = |s: usize, max: usize| s < max && (s < except[0] || s > except[1]);
    for j in 1..=v {
        let mut p = -1_i64;
        for i in 1..=u {
            if m[i - 1][j - 1].contains("r") || m[i - 1][j - 1].contains("t") {
                if p >= 0 && may(i - p as usize, limits[j - 1][0]) {
                    for h in p as usize + 1..i {
                        let is_dirty = j <= data && z[h - 1][j - 1] == 'D';
                        m[h - 1][j - 1].insert(if is_dirty { "t" } else { "r" });
                    }
                }
                p = i as i64;
            }
        }
    }
    for j in 1..=v {
        let mut p = -1_i64;
        for i in 1..=u {
            if m[i - 1][j - 1].contains("w") {
                if p >= 0 && may(i - p as usize, limits[j - 1][1]) {
                    let is_valid =
                        |h: usize| m[h - 1][j - 1].contains("r") || j <= data && z[h - 1][j - 1] != 'E';
                    if (p as usize + 1..i).all(is_valid) {
                        for h in p as usize + 1..i {
                            m[h - 1][j - 1].insert("w");
                        }
                    }
                }
                p = i as i64;
            }
        }
    }
}

/// The gaps of a column's rows with one of these operations, by the rows on either side.
fn pairs(m: &[Vec<Cell>], column: usize, ops: &[&str]) -> Vec<(usize, usize)> {
    let is_it = |row: &usize| ops.iter().any(|op| m[*row][column].contains(op));
    let rows: Vec<usize> = (0..m.len()).filter(is_it).collect();
    rows.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Gaps that are weighed: by column, curves of reads and of writes in hundredths, by stride from 1 on.
fn weighed(m: &mut [Vec<Cell>], z: &[Vec<char>], curves: &[[Vec<i64>; 2]]) {
    let gain = |curve: &[i64], (p, i): (usize, usize)| match curve.get(i - p - 1) {
        Some(time) => (i - p) as i64 * (time - 102),
        None => i64::MIN / 2,
    };
    for (j, [reads, writes]) in curves.iter().enumerate() {
        let letter = |h: usize| z[h].get(j).copied().unwrap_or('E');
        let before = m.to_vec();
        let in_hand = |h: usize| before[h][j].contains("r") || letter(h) == 'C';
        for (p, i) in pairs(&before, j, &["r", "t"]) {
            let enables = |pair: &(usize, usize)| {
                let missing: Vec<usize> = (pair.0 + 1..pair.1).filter(|h| !in_hand(*h)).collect();
                !missing.is_empty() && missing.iter().all(|h| p < *h && *h < i)
            };
            let joined = pairs(&before, j, &["w"]).into_iter().filter(enables);
            let joins: i64 = joined.map(|pair| gain(writes, pair).max(0)).sum();
            let own = gain(reads, (p, i));
            if own > 0 || own + joins > 0 {
                for (h, row) in m.iter_mut().enumerate().take(i).skip(p + 1) {
                    row[j].insert(if letter(h) == 'D' { "t" } else { "r" });
                }
            }
        }
        for (p, i) in pairs(m, j, &["w"]) {
            if gain(writes, (p, i)) > 0 && (p + 1..i).all(|h| m[h][j].contains("r") || letter(h) != 'E') {
                m[p + 1..i].iter_mut().for_each(|row| {
                    row[j].insert("w");
                });
            }
        }
    }
}

fn text(m: &[Vec<Cell>]) -> String {
    let mut text = String::new();
    for row in m {
        let cell = |ops: &Cell| {
            let order = ["r", "t", "x", "xx", "_", "w"];
            let names: Vec<_> = order.into_iter().filter(|name| ops.contains(name)).collect();
            if names.is_empty() { ".".to_owned() } else { names.join(",") }
        };
        writeln!(text, "{}", row.iter().map(cell).collect::<Vec<_>>().join(" | ")).unwrap();
    }
    text
}

/// The strides of members, by column.
struct Limits(Vec<MemberStrides>);

impl ColumnStrides for Limits {
    fn of(&self, column: usize) -> MemberStrides {
        self.0[column]
    }
}

fn state_of(z: &[Vec<char>], parity: usize) -> StripeState {
    let data_columns = z[0].len();
    let rows = |column: usize, letter: char| {
        let is_it = |row: &usize| z[*row][column] == letter;
        (0..z.len()).filter(is_it).fold(RowSet::EMPTY, |all, row| all | RowSet::range(row..row + 1))
    };
    let empty = ColumnState::empty(Presence::Present);
    let mut columns: SmallVec<[ColumnState; 8]> = (0..data_columns)
        .map(|column| ColumnState { dirty: rows(column, 'D'), clean: rows(column, 'C'), ..empty })
        .collect();
    columns.extend((0..parity).map(|_| empty));
    StripeState { columns, data_columns, redundancy: Redundancy::Parity { trusted: true } }
}

/// Any stripe, and how many parity columns it has.
fn any_stripe(rng: &mut Rng) -> (Vec<Vec<char>>, usize) {
    let (rows, data, parity) = (rng.usize(1..=40), rng.usize(2..=7), rng.usize(1..=2));
    let letters: Vec<char> = ["DEEEEC", "DEC", "DDEC", "DEEEEEEEE"][rng.usize(..4)].chars().collect();
    let z = (0..rows).map(|_| (0..data).map(|_| letters[rng.usize(..letters.len())]).collect()).collect();
    (z, parity)
}

/// The plan of a stripe, whose basic matrix is the oracle's, and that.
fn basic(z: &[Vec<char>], parity: usize) -> (Plan, Vec<Vec<Cell>>) {
    let oracle: Vec<Vec<Cell>> = z.iter().map(|row| basic_row(row, parity)).collect();
    let Ok(plan) = build(&state_of(z, parity), &*(policy("classic").unwrap().make)(), &NoCosts) else {
        panic!("nothing is lost")
    };
    assert_eq!(plan.matrix(z.len()), text(&oracle), "the basic matrix of {z:?}");
    (plan, oracle)
}

/// Runs the paper's two passes. Returns the requests that they saved.
fn transform(plan: &mut Plan, state: &StripeState, limits: &Limits) -> u32 {
    let passes = PASSES.iter().filter(|pass| pass.name.starts_with("gaps between"));
    let run = |pass: &Pass| (pass.run)(plan, state, RowSet::ALL, limits).requests_saved;
    passes.copied().map(run).sum()
}

#[test]
fn a_thousand_stripes_are_transformed_as_the_paper_says() {
    let mut rng = Rng::with_seed(1);
    let mut saved = 0;
    for number in 0..1000 {
        let (z, parity) = any_stripe(&mut rng);
        let members = z[0].len() + parity;
        let limits: Vec<[usize; 2]> = (0..members).map(|_| [rng.usize(1..=64), rng.usize(1..=64)]).collect();
        let except = [rng.usize(1..8), rng.usize(1..8)];
        let (mut plan, mut oracle) = basic(&z, parity);
        fig_10(&mut oracle, &z, &limits, except);
        let strides = |max: usize| {
            let except = [except.map(|stride| stride as u16), [0; 2], [0; 2], [0; 2]];
            Strides::Limit { max: max as u16, except }
        };
        let limits =
            limits.iter().map(|[read, write]| MemberStrides { read: strides(*read), write: strides(*write) });
        saved += transform(&mut plan, &state_of(&z, parity), &Limits(limits.collect()));
        assert_eq!(plan.matrix(z.len()), text(&oracle), "stripe {number}: {z:?}");
    }
    assert!(saved > 1000, "{saved}");
}

#[test]
fn a_thousand_stripes_have_their_gaps_weighed() {
    let mut rng = Rng::with_seed(2);
    let (mut saved, mut bought) = (0, 0);
    for number in 0..1000 {
        let (z, parity) = any_stripe(&mut rng);
        let any_curve = |rng: &mut Rng| (0..64).map(|_| rng.i64(60..150)).collect::<Vec<i64>>();
        let curves: Vec<[Vec<i64>; 2]> =
            (0..z[0].len() + parity).map(|_| [any_curve(&mut rng), any_curve(&mut rng)]).collect();
        let (mut plan, mut oracle) = basic(&z, parity);
        weighed(&mut oracle, &z, &curves);
        let strides = |curve: &[i64]| {
            let times = std::array::from_fn(|at| curve[at] as u16 * 10);
            Strides::weighed(&times)
        };
        let of = |[read, write]: &[Vec<i64>; 2]| MemberStrides { read: strides(read), write: strides(write) };
        saved += transform(&mut plan, &state_of(&z, parity), &Limits(curves.iter().map(of).collect()));
        assert_eq!(plan.matrix(z.len()), text(&oracle), "stripe {number}: {z:?}");
        // Reads that gain nothing by themselves.
        let without =
            |[read, _]: &[Vec<i64>; 2]| MemberStrides { read: strides(read), write: Strides::below(0) };
        let (mut alone, _) = basic(&z, parity);
        transform(&mut alone, &state_of(&z, parity), &Limits(curves.iter().map(without).collect()));
        let reads = |plan: &Plan| plan.columns.iter().map(|ops| ops.reads().len()).sum::<usize>();
        bought += reads(&plan) - reads(&alone);
    }
    assert!(saved > 1000 && bought > 100, "{saved}, {bought}");
}
