//! The ways for others to use an array, or any other [`Device`](stripewise_device::Device): as a block device
//! of this machine, and over the network block device protocol, of which both ends are here.
//!
//! * [`attach`]: a local block device by the best way this kernel has.
//! * [`nbd`]: the NBD codec, the server, the client (which is a member as well), and addresses.
//! * [`seldom`]: messages that must not flood a log.

pub mod attach;
pub mod nbd;
pub mod seldom;
