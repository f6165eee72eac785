//! NBD: fixed newstyle negotiation, simple and structured replies, as the protocol text (`doc/proto.md` of
//! the reference implementation) has them.
//!
//! * [`proto`]: the codec and the server's negotiation, without any I/O; all code that parses a peer's bytes
//!   is there.
//! * [`server`]: serves any [`Device`](stripewise_device::Device) on a unix or TCP socket.
//! * [`client`]: a connection that is itself a `Device`: an NBD member, and the client of tests and the demo.
//! * [`address`]: `nbd://` and `nbd+unix://` addresses.
//! * [`limits`]: every bound, and the memory they add up to.
//!
//! Not here: TLS (refused with `NBD_REP_ERR_POLICY`; use an ssh tunnel or a private network), extended
//! headers, and reconnecting, which is up to the member's owner.

pub mod address;
pub mod client;
mod inlet;
pub mod limits;
mod mailbox;
mod outlet;
pub mod proto;
pub mod server;
mod turn;

pub use address::{AddressError, Endpoint, NbdAddress};
pub use client::{ConnectError, NbdClient};
pub use limits::Limits;
pub use server::{Export, Server, ServerError, ServerStats};
