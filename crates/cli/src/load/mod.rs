//! Load on a device: a daemon puts it on its array, `bench run` on any other device. Here is what makes a
//! load fit, where its clients run, and what its figures are.

mod figures;
mod fit;
mod spread;

pub(crate) use figures::figures_of;
pub(crate) use fit::load_on;
pub(crate) use spread::Spread;
