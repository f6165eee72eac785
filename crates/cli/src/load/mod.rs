//! Load on a device, as the daemon puts it on its array and `bench run` on any other: what a load must be to
//! fit, where its clients run, and what came of it.

mod figures;
mod fit;
mod spread;

pub(crate) use figures::figures_of;
pub(crate) use fit::load_on;
pub(crate) use spread::Spread;
