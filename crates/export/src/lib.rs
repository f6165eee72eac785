//! The ways by which others use an array, or any other [`Device`](stripewise_device::Device): as a block device of
//! this machine, and by the network block device protocol, both ends of it.
//!
//! * [`attach`]: a local block device by the best way this kernel has.
//! * [`nbd`]: the NBD codec, the server, the client (which is a member as well), and addresses.
//! * [`seldom`]: messages that must not flood a log.

pub mod attach;
pub mod nbd;
pub mod seldom;
