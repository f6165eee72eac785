//! Translates the engine's reports into the types of the control socket, and what comes from there into the
//! engine's types.

mod array;
mod cache;
mod decision;
mod job;
mod member;

pub(crate) use array::{map_name, state_name};
pub(crate) use cache::{cache_status, cached_bytes, changed as changed_cache, stride_limits};
pub(crate) use decision::{band_status, trace_filter, traced_status};
pub(crate) use job::job_status;
pub(crate) use member::{
    class_name, endurance_status, member_class, member_cost, member_statuses, member_strides, times_status,
};
