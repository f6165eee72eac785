//! One story, told in full.

use stripewise_sim::story::{Plan, tell};

use crate::args::{ReplayArgs, replay_command};

/// How many of the last requests to members are shown.
pub(crate) const EVENTS_DEFAULT: usize = 60;

pub(crate) fn replay(args: &ReplayArgs) -> bool {
    narrate(&args.story.plan(args.seed), args.events)
}

/// Tells a story. True if it ends well.
pub(crate) fn narrate(plan: &Plan, events: usize) -> bool {
    let outcome = tell(&Plan { narrate: true, ..plan.clone() });
    outcome.narration.iter().for_each(|line| println!("{line}"));
    let skipped = outcome.events.len().saturating_sub(events);
    println!("the last requests to members:");
    outcome.events.iter().skip(skipped).for_each(|event| println!("{event}"));
    match &outcome.violation {
        None => println!("it ends well; power failures: {}", outcome.crash_points.len()),
        Some(violation) => println!("VIOLATION in life {}: {violation}", outcome.life),
    }
    println!("trace {:016x}", outcome.trace);
    println!("again: {}", replay_command(plan));
    outcome.violation.is_none()
}
