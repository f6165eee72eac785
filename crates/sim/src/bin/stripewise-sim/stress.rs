//! Rounds with real threads, for a given time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use indicatif::{ProgressBar, ProgressStyle};
use stripewise_sim::stress::{Round, Tally, round};

use crate::args::{StressArgs, threads_or_all};

/// Runs rounds until the time is over or something is wrong. True if nothing was.
pub(crate) fn stress(args: &StressArgs) -> bool {
    let threads = threads_or_all(args.threads);
    let (started, mut all, mut rounds) = (Instant::now(), Tally::default(), 0);
    let bar = ProgressBar::new(args.seconds.as_secs());
    bar.set_style(ProgressStyle::with_template("{bar:30} {msg} ETA {eta}").expect("the template is right"));
    while started.elapsed() < args.seconds {
        let plan = Round { seed: args.seed + rounds, threads, requests: args.requests };
        let told = catch_unwind(AssertUnwindSafe(|| round(&plan)));
        let tally = match told {
            Ok(Ok(tally)) => tally,
            Ok(Err(violation)) => return wrong(&bar, &plan, &violation.to_string()),
            Err(_) => return wrong(&bar, &plan, "a panic"),
        };
        rounds += 1;
        all.requests += tally.requests;
        all.commands += tally.commands;
        bar.set_position(started.elapsed().as_secs());
        bar.set_message(format!("{rounds} arrays, {} requests", all.requests));
    }
    bar.finish_and_clear();
    println!(
        "{rounds} arrays, {} requests of clients, {} commands in {:.1} s, threads: {threads}",
        all.requests,
        all.commands,
        started.elapsed().as_secs_f64()
    );
    println!("no violation");
    true
}

fn wrong(bar: &ProgressBar, plan: &Round, what: &str) -> bool {
    bar.finish_and_clear();
    println!(
        "VIOLATION with --seed {} --threads {} --requests {}: {what}\nReal threads never run twice alike: run it some times.",
        plan.seed, plan.threads, plan.requests
    );
    false
}
