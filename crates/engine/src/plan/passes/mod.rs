//! Passes over a plan: operations that are added so that members take less time. A pass leaves what the plan does to
//! data and redundancy as it is.

mod contiguity;

pub use contiguity::{
    ColumnStrides, Filled, MemberStrides, STRIDE_MAX, Strides, transform, transform_reads, transform_writes,
    with_gaps,
};
