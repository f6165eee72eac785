//! From a story that ends badly to a short one that ends as badly.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use stripewise_sim::story::{Action, Outcome, Plan, tell};

/// The most tries, and the longest time.
const TRIES_MAX: usize = 400;
const TIME_MAX: Duration = Duration::from_secs(120);

/// Leaves out of a story what it does not need: lives after the end, lives before it, caches, clients,
/// requests, actions.
pub(crate) fn shrink(plan: &Plan, outcome: &Outcome) -> Plan {
    let checker = outcome.violation.as_ref().map(|violation| violation.checker);
    let started = Instant::now();
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut tries = 0;
    let mut ends_as_badly = |plan: &Plan| {
        tries += 1;
        bar.set_message(format!("shrinking: {tries} tries"));
        tries <= TRIES_MAX
            && started.elapsed() < TIME_MAX
            && tell(plan).violation.map(|violation| violation.checker) == checker
    };
    let mut best = Plan { lives: outcome.life + 1, ..plan.clone() };
    loop {
        let shorter = candidates(&best).into_iter().find(|candidate| ends_as_badly(candidate));
        match shorter {
            Some(shorter) => best = Plan { lives: shorter.lives.min(tell(&shorter).life + 1), ..shorter },
            None => break,
        }
    }
    bar.finish_and_clear();
    best
}

/// Plans that are a little shorter, the boldest first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut shorter = Vec::new();
    for quiet_lives in [plan.lives.saturating_sub(1), plan.lives / 2, plan.quiet_lives + 1] {
        if quiet_lives > plan.quiet_lives && quiet_lives < plan.lives {
            shorter.push(Plan { quiet_lives, ..plan.clone() });
        }
    }
    if plan.caches {
        shorter.push(Plan { caches: false, ..plan.clone() });
    }
    for clients_max in 0..plan.clients_max {
        shorter.push(Plan { clients_max, ..plan.clone() });
    }
    for requests_max in [plan.requests_max / 4, plan.requests_max / 2, plan.requests_max * 3 / 4] {
        if requests_max < plan.requests_max {
            shorter.push(Plan { requests_max, ..plan.clone() });
        }
    }
    for action in Action::all().filter(|action| !plan.without.contains(action)) {
        let without = plan.without.iter().copied().chain([action]).collect();
        shorter.push(Plan { without, ..plan.clone() });
    }
    shorter
}
