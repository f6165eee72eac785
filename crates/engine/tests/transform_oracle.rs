//! The matrices of msc-ct, and the contiguity transform, against the paper's own procedure: another program, cell by
//! cell, that shares nothing with the engine's.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fmt::Write};

use fastrand::Rng;
use smallvec::SmallVec;
use stripewise_engine::{
    plan::{
        ColumnState, Presence, Redundancy, StripeState, build,
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

#[test]
fn a_thousand_stripes_are_transformed_as_the_paper_says() {
    let mut rng = Rng::with_seed(1);
    let mut saved = 0;
    for number in 0..1000 {
        let (rows, data, parity) = (rng.usize(1..=40), rng.usize(2..=7), rng.usize(1..=2));
        let letters: Vec<char> = ["DEEEEC", "DEC", "DDEC", "DEEEEEEEE"][rng.usize(..4)].chars().collect();
        let z: Vec<Vec<char>> =
            (0..rows).map(|_| (0..data).map(|_| letters[rng.usize(..letters.len())]).collect()).collect();
        let limits: Vec<[usize; 2]> =
            (0..data + parity).map(|_| [rng.usize(1..=64), rng.usize(1..=64)]).collect();
        let except = [rng.usize(1..8), rng.usize(1..8)];
        let mut oracle: Vec<Vec<Cell>> = z.iter().map(|row| basic_row(row, parity)).collect();
        let state = state_of(&z, parity);
        let Ok(mut plan) = build(&state, &*(policy("classic").unwrap().make)(), &NoCosts) else {
            panic!("nothing is lost")
        };
        assert_eq!(plan.matrix(rows), text(&oracle), "the basic matrix of stripe {number}");
        fig_10(&mut oracle, &z, &limits, except);
        let strides = |max: usize| {
            let mut strides = Strides::below(max as u16);
            strides.except[0] = except.map(|stride| stride as u16);
            strides
        };
        let limits =
            limits.iter().map(|[read, write]| MemberStrides { read: strides(*read), write: strides(*write) });
        let limits = Limits(limits.collect());
        // The paper's two.
        let passes = PASSES.iter().filter(|pass| pass.name.starts_with("gaps between"));
        let mut run = |pass: &Pass| (pass.run)(&mut plan, &state, RowSet::ALL, &limits).requests_saved;
        saved += passes.map(|pass| run(pass)).sum::<u32>();
        assert_eq!(plan.matrix(rows), text(&oracle), "stripe {number}: {z:?}");
    }
    assert!(saved > 1000, "{saved}");
}
