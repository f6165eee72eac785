//! Half stripes in sequence and anywhere: an example.

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes},
    pick, policy,
};
use crate::{
    arrays::shapes,
    findings::{Claim, Findings, Judged},
    point::{Places, Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "half-stripe",
    title: "Half stripes in sequence and anywhere",
    source: "an example",
    setting: &["Writes of 128 KiB on RAID5."],
    points: Points::Modelled(points),
    findings,
};

const KIB: u64 = 128;

fn point(effort: Effort, places: Places) -> Point {
    let load = WriteLoad { places, ..WriteLoad::random(KIB << 10, 10, pick(effort, 16 << 20, 256 << 20), 3) };
    Point::new(&shapes::RAID5, policy("classic"), load)
}

fn points(effort: Effort) -> Vec<Point> {
    [Places::Sequential, Places::Random].map(|places| point(effort, places)).to_vec()
}

fn findings(results: &Results) -> Findings {
    let of = |places| point(results.effort, places);
    let judged = results
        .speed_up(&of(Places::Sequential), &of(Places::Random))
        .map(|ratio| Judged::above(ratio, 1.0, format!("{ratio:.2}x")));
    let line = Line::new("in sequence", 0, &[KIB], |_| of(Places::Sequential));
    Findings {
        claims: vec![Claim::new("In sequence they are faster.", "", judged)],
        plots: vec![lines::throughput(("half-stripe-throughput", "RAID5"), Sizes::Even, &[line], results)],
        tables: Vec::new(),
    }
}
