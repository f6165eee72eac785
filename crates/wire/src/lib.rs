//! What is said on the control socket of an array's daemon, as types: a [`Request`] and a [`Reply`] are a
//! line of JSON each. The same types are what `stripewise --json` prints.
//!
//! An array NAME listens on `NAME.sock` ([`socket_in`]) in the run directory: `/run/stripewise` for root,
//! `$XDG_RUNTIME_DIR/stripewise` for other users, or `$STRIPEWISE_RUN_DIR`. The socket belongs to the user
//! who started the array, with mode 0600. A daemon answers one request and closes the connection; after
//! [`Request::Trace`] and [`Request::Load`] it takes more on the same one, and what was begun ends with it.
//!
//! Programs and daemons of different releases understand each other: each line carries the number of its
//! protocol ([`PROTOCOL`]), a field that is added has a default, and one that is there keeps its meaning.
//! What that asks of a reader, [`Request::read`] and [`Reply::read`] do.
//!
//! ```no_run
//! use stripewise_wire::{Reply, Request, ask, socket_in};
//!
//! let socket = socket_in("/run/stripewise".as_ref(), "tank");
//! let Reply::Status(status) = ask(&socket, &Request::Status)? else { panic!("another answer") };
//! for member in &status.members {
//!     println!("{} is {}: {} read errors", member.device, member.state, member.read_errors);
//! }
//! # Ok::<(), stripewise_wire::AskError>(())
//! ```

mod array;
mod cache;
mod choices;
mod client;
mod decision;
mod job;
mod line;
mod load;
mod member;
mod rafs;
mod reply;
mod request;

pub use array::{ArrayStatus, BitmapStatus};
pub use cache::{CacheChange, CacheStatus, DestagedStatus, WayStatus};
pub use choices::{
    AttachChoice, ClassChoice, DiscardChoice, OrderChoice, Pattern, ScrubAction, TraceCycle, UnknownWord,
};
pub use client::{ANSWER_TIMEOUT, AskError, Connection, ask, socket_in};
pub use decision::{BandStatus, DecisionStatus, TraceChoice, TracedStatus};
pub use job::JobStatus;
pub use line::{PROTOCOL, WireError, protocol_of};
pub use load::{Ended, LoadFigures, LoadSpec, LoadStatus, OpFigures};
pub use member::{
    CostStatus, EnduranceStatus, ForecastStatus, MemberStatus, NoForecastStatus, SlowStatus, StrideStatus,
    StridesStatus, TimesStatus,
};
pub use rafs::{CheckedStatus, MadeStatus, MkfsSpec, MountChoice, MountedStatus, UsageStatus};
pub use reply::{Notes, Reply, StepStatus, StripeStatus};
pub use request::{Request, ServeLimits};
