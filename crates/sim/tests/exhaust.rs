//! Short histories end well at every crash, are the same every time, and what is left out is counted.

#![allow(clippy::unwrap_used)]

use stripewise_sim::exhaust::{Base, Counts, History, Shape, Teller};

fn tell(histories: &[&str]) -> Counts {
    let histories: Vec<History> = histories.iter().map(|text| text.parse().unwrap()).collect();
    let mut teller = Teller::new(Base::new(histories[0].shape, histories[0].seed).unwrap(), 32);
    for history in &histories {
        teller.tell(history).unwrap_or_else(|failure| {
            panic!("{}: {}: {}", failure.history, failure.when, failure.violation);
        });
    }
    teller.counts()
}

#[test]
fn histories_of_every_shape_end_well() {
    for shape in Shape::ALL {
        let name = shape.to_string();
        let counts = tell(&[&format!("{name}:1:512.fua,flush"), &format!("{name}:1:512.fua,lose,4k.beside")]);
        assert_eq!(counts.histories, 2);
        assert!(counts.distinct_points > 10 && counts.distinct_states > 20, "{name}: {counts:?}");
        assert!(counts.distinct_points < counts.crash_points, "they begin alike: {counts:?}");
    }
}

#[test]
fn a_history_is_the_same_every_time_and_nothing_new_the_second_time() {
    const HISTORY: &str = "5x3:7:4k,zero+4k.fua.beside";
    let (once, again) = (tell(&[HISTORY]), tell(&[HISTORY]));
    assert_eq!(once, again);
    let twice = tell(&[HISTORY, HISTORY]);
    assert_eq!(twice.distinct_states, once.distinct_states);
    assert_eq!(twice.crash_points, 2 * once.crash_points);
}

#[test]
fn what_is_left_out_is_counted() {
    let few = tell(&["5x3:0:4k"]);
    assert_eq!((few.skipped, few.bounded_points), (0, 0));
    let many = tell(&["6x5:0:2stripes"]);
    assert!(many.skipped > 0 && many.bounded_points > 0, "{many:?}");
}
