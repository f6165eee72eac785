//! The `stripewise` binary.
fn main() {}
