//! The commands of the control socket and their options, as this protocol has them.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use stripewise_wire::{
    AttachChoice, CacheChange, ClassChoice, DiscardChoice, LoadSpec, MkfsSpec, MountChoice, PROTOCOL,
    Pattern, Request, ScrubAction, ServeLimits, TraceChoice,
};

/// What is known since this protocol: a command in each line, and its options.
const KNOWN: (u32, &str) = (
    5,
    "status
slow
stripes from to
add class device force steps
added device
fail member
remove member
replace class force member steps with
scrub action
speed max_bytes_per_s min_bytes_per_s
attach discard method sector_bytes
detach force
serve address discard limits.connection_in_flight_bytes limits.connections limits.idle_ms limits.in_flight_bytes read_only
unserve address
mkfs spec.dry_run spec.force spec.journal_bytes spec.keep_blocks spec.label spec.order spec.owner spec.uuid
mount choice.age_ms choice.allow_other choice.buffer_bytes choice.cleans choice.discards choice.free_percent choice.has_loop choice.journal choice.no_recovery choice.noatime choice.nodev choice.noexec choice.nosuid choice.point choice.preset choice.read_only choice.without
fsck mend
usage
worked work
unmounted
stop force steps
policy policy
cache change.age_ms change.alloc change.flush_ms change.gaps change.high_percent change.idle_ms change.kind change.low_percent change.past change.read change.s_max_read change.s_max_write change.size_bytes change.what change.when
measure
measured
emptied
class class member
endurance member rated_write_bytes warranty_end_s warranty_margin_days
trace choice.chosen_only choice.cycles choice.min_bytes choice.stripes
traced since
trace-end
load load.block_bytes load.iodepth load.numjobs load.read_percent load.runtime_ms load.rw load.seed load.size_bytes
load-status
load-end
",
);

/// An option that an older daemon passes over makes it do something else than was asked, so a new one needs a new number.
#[test]
fn a_new_option_raises_the_protocol() {
    let known: String = requests().iter().map(options).collect();
    assert_eq!(
        (PROTOCOL, known.as_str()),
        KNOWN,
        "raise `PROTOCOL`, say in `Request::needs` which option is known since then, and enter both here"
    );
}

/// A line with a request's command and the names of its options.
fn options(request: &Request) -> String {
    let Value::Object(mut said) = serde_json::to_value(request).unwrap() else { panic!("{request:?}") };
    let command = said.remove("command").unwrap();
    let mut names = vec![command.as_str().unwrap().to_owned()];
    for (name, value) in &said {
        match value.as_object() {
            Some(inner) => names.extend(inner.keys().map(|inner| format!("{name}.{inner}"))),
            None => names.push(name.clone()),
        }
    }
    names[1..].sort();
    names.join(" ") + "\n"
}

/// Every request, with all that it can say. They are written out, so that a new option must be entered.
fn requests() -> Vec<Request> {
    let (device, member, address) = (|| "/dev/x".to_owned(), || "/dev/y".to_owned(), || "/run/x".to_owned());
    vec![
        Request::Status,
        Request::Slow,
        Request::Stripes { from: 0, to: 1 },
        Request::Add { device: device(), force: true, class: Some(ClassChoice::Hdd), steps: true },
        Request::Added { device: device() },
        Request::Fail { member: member() },
        Request::Remove { member: member() },
        Request::Replace {
            member: member(),
            with: device(),
            force: true,
            class: Some(ClassChoice::Hdd),
            steps: true,
        },
        Request::Scrub { action: ScrubAction::Start },
        Request::Speed { min_bytes_per_s: Some(1), max_bytes_per_s: Some(1) },
        Request::Attach {
            method: Some(AttachChoice::Nbd),
            sector_bytes: Some(512),
            discard: DiscardChoice::On,
        },
        Request::Detach { force: true },
        Request::Serve {
            address: address(),
            read_only: true,
            discard: DiscardChoice::On,
            limits: ServeLimits::default(),
        },
        Request::Unserve { address: Some(address()) },
        Request::Mkfs { spec: MkfsSpec::default() },
        Request::Mount { choice: MountChoice::default() },
        Request::Fsck { mend: true },
        Request::Usage,
        Request::Worked { work: Some(1) },
        Request::Unmounted,
        Request::Stop { force: true, steps: true },
        Request::Policy { policy: "cost".to_owned() },
        Request::Cache { change: CacheChange::default() },
        Request::Measure,
        Request::Measured,
        Request::Emptied,
        Request::Class { member: member(), class: ClassChoice::Hdd },
        Request::Endurance {
            member: member(),
            rated_write_bytes: Some(1),
            warranty_end_s: Some(1),
            warranty_margin_days: Some(1),
        },
        Request::Trace {
            choice: TraceChoice { cycles: Vec::new(), stripes: None, chosen_only: true, min_bytes: 1 },
        },
        Request::Traced { since: 0 },
        Request::TraceEnd,
        Request::Load {
            load: LoadSpec {
                rw: Pattern::Read,
                block_bytes: 1,
                iodepth: 1,
                numjobs: 1,
                size_bytes: Some(1),
                runtime_ms: Some(1),
                read_percent: 1,
                seed: 1,
            },
        },
        Request::LoadStatus,
        Request::LoadEnd,
    ]
}

/// Does not compile with a request that is new: [`requests`] must have it, too.
#[expect(dead_code, reason = "it only has to compile")]
fn is_entered(request: &Request) {
    match request {
        Request::Status | Request::Slow | Request::Measure | Request::Measured | Request::Emptied => {}
        Request::Mkfs { .. } | Request::Mount { .. } | Request::Fsck { .. } | Request::Usage => {}
        Request::Worked { .. } | Request::Unmounted => {}
        Request::TraceEnd | Request::LoadStatus | Request::LoadEnd => {}
        Request::Stripes { .. } | Request::Add { .. } | Request::Added { .. } | Request::Fail { .. } => {}
        Request::Remove { .. } | Request::Replace { .. } | Request::Scrub { .. } | Request::Speed { .. } => {}
        Request::Attach { .. } | Request::Detach { .. } | Request::Serve { .. } | Request::Unserve { .. } => {
        }
        Request::Stop { .. } | Request::Policy { .. } | Request::Cache { .. } | Request::Class { .. } => {}
        Request::Endurance { .. } | Request::Trace { .. } | Request::Traced { .. } | Request::Load { .. } => {
        }
    }
}
