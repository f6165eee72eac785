//! Connecting: a socket, then the client's side of the handshake.

use std::{
    io,
    net::{TcpStream, ToSocketAddrs},
    os::{fd::OwnedFd, unix::net::UnixStream},
    thread,
    time::Duration,
};

use futures_util::future::{Either, select};
use rustix::net::sockopt;
use smallvec::smallvec;
use stripewise_device::{DeviceInfo, EnvHandle, IoBuf, IoError, MediaKind, uring::net::Stream};
use thiserror::Error;

use super::{ExportInfo, max_request_bytes, pending::Answer};
use crate::nbd::{
    Endpoint, NbdAddress,
    inlet::{Inlet, InletError},
    limits::{OPTIONS_MAX, SOCKET_BUFFER_BYTES},
    proto::{
        ClientOption, Info, InfoRequest, MetaQuery, OptionReply, OptionReplyHeader, OptionReplyKind,
        TransmissionFlags,
        codes::{BASE_ALLOCATION, ClientFlags, HandshakeFlags, NBD_MAGIC, OPTION_MAGIC, info},
        option_reply::OPTION_REPLY_HEADER_BYTES,
    },
};

/// How long a host may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may take to negotiate.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest reply to an option that we read: descriptions are at most 4096 bytes.
const REPLY_BYTES_MAX: u32 = 16 << 10;

/// Why no connection could be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No socket.
    #[error("cannot connect to {address}: {source}")]
    Socket {
        /// The server.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The connection broke during the handshake.
    #[error("{0} broke off the handshake; look into its log")]
    Broken(String),
    /// The peer speaks something else, or an NBD from before 2009.
    #[error("{0} does not speak NBD's fixed newstyle")]
    NotNbd(String),
    /// The server does not answer.
    #[error("{0} did not finish the handshake within 10 s")]
    Slow(String),
    /// The server will not serve this export.
    #[error("{address} refuses: {message}")]
    Refused {
        /// The server and export.
        address: String,
        /// The server's message.
        message: String,
    },
    /// The export cannot be used as a member.
    #[error("{address} cannot be used: {reason}")]
    Unfit {
        /// The server and export.
        address: String,
        /// Why.
        reason: &'static str,
    },
}

/// A connection in its transmission phase.
pub(super) struct Connected {
    pub(super) stream: Stream,
    pub(super) inlet: Inlet,
    pub(super) info: DeviceInfo,
    pub(super) export: ExportInfo,
}

pub(super) async fn connect(env: &EnvHandle, address: &NbdAddress) -> Result<Connected, ConnectError> {
    let fd = open(&address.endpoint).await;
    let fd = fd.map_err(|source| ConnectError::Socket { address: address.endpoint.to_string(), source })?;
    // Nothing depends on either option.
    let _ = sockopt::set_tcp_nodelay(&fd, true);
    let _ = sockopt::set_socket_send_buffer_size(&fd, SOCKET_BUFFER_BYTES);
    let stream = Stream::new(fd);
    let mut talk = Talk { inlet: Inlet::new(stream.clone()), stream: stream.clone(), address };
    let result = {
        let handshake = std::pin::pin!(talk.handshake());
        match select(handshake, env.sleep(HANDSHAKE_TIMEOUT)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(ConnectError::Slow(address.to_string())),
        }
    };
    if result.is_err() {
        stream.shutdown();
    }
    let (info, export) = result?;
    Ok(Connected { stream, inlet: talk.inlet, info, export })
}

/// Name resolution and connecting block, so a thread of their own runs them.
async fn open(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let answer = Answer::default();
    let (sender, endpoint) = (answer.clone(), endpoint.clone());
    thread::Builder::new()
        .name("stripewise-connect".into())
        .spawn(move || sender.set(open_blocking(&endpoint)))?;
    answer.wait().await
}

fn open_blocking(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let (host, port) = match endpoint {
        Endpoint::Unix(path) => return UnixStream::connect(path).map(OwnedFd::from),
        Endpoint::Tcp { host, port } => (host.as_str(), *port),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream.into()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A handshake under way.
struct Talk<'a> {
    inlet: Inlet,
    stream: Stream,
    address: &'a NbdAddress,
}

/// The server's answer to GO.
#[derive(Default)]
struct Told {
    export: Option<(u64, TransmissionFlags)>,
    sizes: Option<(u32, u32, u32)>,
}

impl Talk<'_> {
    async fn handshake(&mut self) -> Result<(DeviceInfo, ExportInfo), ConnectError> {
        let no_zeroes = self.greet().await?;
        let structured = self.ask(&ClientOption::StructuredReply, |_, _| {}).await?.is_none();
        let allocation = if structured { self.choose_allocation().await? } else { None };
        let told = self.go(no_zeroes).await?;
        let (size_bytes, flags) = told.export.ok_or_else(|| self.unfit("the server told no size"))?;
        self.describe(size_bytes, flags, told.sizes, structured, allocation)
    }

    /// Returns whether the server leaves out the zeroes of the old protocol.
    async fn greet(&mut self) -> Result<bool, ConnectError> {
        let greeting = self.take::<18>().await?;
        let word = |at: usize| greeting[at..].first_chunk().copied().map_or(0, u64::from_be_bytes);
        let flags = HandshakeFlags(u16::from_be_bytes([greeting[16], greeting[17]]));
        if (word(0), word(8)) != (NBD_MAGIC, OPTION_MAGIC) || !flags.contains(HandshakeFlags::FIXED_NEWSTYLE)
        {
            return Err(ConnectError::NotNbd(self.address.endpoint.to_string()));
        }
        let no_zeroes = flags.contains(HandshakeFlags::NO_ZEROES);
        let answer = ClientFlags::FIXED_NEWSTYLE | ClientFlags::when(no_zeroes, ClientFlags::NO_ZEROES);
        self.send(&answer.0.to_be_bytes()).await?;
        Ok(no_zeroes)
    }

    async fn choose_allocation(&mut self) -> Result<Option<u32>, ConnectError> {
        let query =
            MetaQuery { export: self.address.export.clone(), queries: vec![BASE_ALLOCATION.to_owned()] };
        let mut id = None;
        let each = |kind, data: &[u8]| {
            if kind == OptionReplyKind::MetaContext {
                id = OptionReply::parse_meta(data)
                    .filter(|(_, name)| name == BASE_ALLOCATION)
                    .map(|(id, _)| id);
            }
        };
        let refused = self.ask(&ClientOption::SetMetaContext(query), each).await?;
        Ok(id.filter(|_| refused.is_none()))
    }

    async fn go(&mut self, no_zeroes: bool) -> Result<Told, ConnectError> {
        let wanted = vec![info::BLOCK_SIZE];
        let request = InfoRequest { export: self.address.export.clone(), wanted };
        let mut told = Told::default();
        let each = |kind, data: &[u8]| match Info::decode(data) {
            Some(Info::Export { size_bytes, flags }) if kind == OptionReplyKind::Info => {
                told.export = Some((size_bytes, flags));
            }
            Some(Info::BlockSize { min_bytes, preferred_bytes, max_bytes })
                if kind == OptionReplyKind::Info =>
            {
                told.sizes = Some((min_bytes, preferred_bytes, max_bytes));
            }
            _ => {}
        };
        match self.ask(&ClientOption::Go(request), each).await? {
            None => Ok(told),
            Some((OptionReplyKind::ErrUnsupported, _)) => self.go_the_old_way(no_zeroes).await,
            Some((_, message)) => Err(ConnectError::Refused { address: self.address.to_string(), message }),
        }
    }

    async fn go_the_old_way(&mut self, no_zeroes: bool) -> Result<Told, ConnectError> {
        self.send(&ClientOption::ExportName(self.address.export.clone()).encode()).await?;
        let reply = self.take::<10>().await?;
        if !no_zeroes {
            self.take::<124>().await?;
        }
        let size = reply.first_chunk().copied().map_or(0, u64::from_be_bytes);
        let flags = TransmissionFlags(u16::from_be_bytes([reply[8], reply[9]]));
        Ok(Told { export: Some((size, flags)), sizes: None })
    }

    fn describe(
        &self,
        size_bytes: u64,
        flags: TransmissionFlags,
        sizes: Option<(u32, u32, u32)>,
        structured: bool,
        allocation: Option<u32>,
    ) -> Result<(DeviceInfo, ExportInfo), ConnectError> {
        let (min_bytes, preferred_bytes, max_bytes) = sizes.unwrap_or((512, 4096, 0));
        let block = if min_bytes <= 512 { 512 } else { 4096 };
        if min_bytes > 4096 {
            return Err(self.unfit("its blocks are larger than 4096 bytes"));
        }
        let size_bytes = size_bytes / u64::from(block) * u64::from(block);
        if size_bytes > i64::MAX as u64 {
            return Err(self.unfit("its size is beyond 2^63 bytes"));
        }
        let media =
            if flags.contains(TransmissionFlags::ROTATIONAL) { MediaKind::Hdd } else { MediaKind::Unknown };
        let name = self.address.to_string();
        // A server that supports fast zeroes answers each request by whether it has them.
        let unmaps = if flags.contains(TransmissionFlags::SEND_FAST_ZERO) { None } else { Some(false) };
        let info = DeviceInfo { name, size_bytes, logical_block_bytes: block, media, unmaps };
        let max_bytes = max_request_bytes(sizes.map(|_| max_bytes), block);
        Ok((info, ExportInfo { flags, preferred_bytes, max_bytes, structured, allocation }))
    }

    fn unfit(&self, reason: &'static str) -> ConnectError {
        ConnectError::Unfit { address: self.address.to_string(), reason }
    }

    /// Sends an option and hands its replies to `each` up to the last. Returns the last reply's error, if it
    /// is one.
    async fn ask(
        &mut self,
        option: &ClientOption,
        mut each: impl FnMut(OptionReplyKind, &[u8]),
    ) -> Result<Option<(OptionReplyKind, String)>, ConnectError> {
        self.send(&option.encode()).await?;
        // Do not wait for a server that keeps talking: none has this many facts.
        for _ in 0..OPTIONS_MAX {
            let header = self.take::<OPTION_REPLY_HEADER_BYTES>().await?;
            let header = OptionReplyHeader::decode(&header)
                .filter(|header| header.option == option.code() && header.len_bytes <= REPLY_BYTES_MAX)
                .ok_or_else(|| ConnectError::NotNbd(self.address.endpoint.to_string()))?;
            let data = self.inlet.take_vec(header.len_bytes as usize).await;
            let data = data.map_err(|error| self.broken(error))?;
            match header.kind {
                OptionReplyKind::Ack => return Ok(None),
                kind if kind.is_error() => return Ok(Some((kind, message(kind, &data)))),
                kind => each(kind, &data),
            }
        }
        Err(ConnectError::NotNbd(self.address.endpoint.to_string()))
    }

    async fn take<const N: usize>(&mut self) -> Result<[u8; N], ConnectError> {
        self.inlet.take::<N>().await.map_err(|error| self.broken(error))
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), ConnectError> {
        let sent = self.stream.send(smallvec![IoBuf::copy_of(bytes).freeze()]).await;
        sent.map_err(|error: IoError| self.broken(error.into()))
    }

    fn broken(&self, error: InletError) -> ConnectError {
        tracing::debug!(address = %self.address, %error, "handshake broke");
        ConnectError::Broken(self.address.endpoint.to_string())
    }
}

fn message(kind: OptionReplyKind, data: &[u8]) -> String {
    let said = String::from_utf8_lossy(data);
    let meaning = match kind {
        OptionReplyKind::ErrUnknown => "no such export",
        OptionReplyKind::ErrPolicy => "not allowed",
        OptionReplyKind::ErrShutdown => "the server is shutting down",
        _ => "an error",
    };
    if said.is_empty() { meaning.to_owned() } else { format!("{meaning} ({said})") }
}
