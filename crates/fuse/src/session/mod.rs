//! Serves one mount: negotiates, reads requests on threads, and hands each to a server.
//!
//! Threads never wait for a server: it takes a request with its [`Reply`] and returns. Whatever takes long runs
//! elsewhere, such as on the executor of the `device` crate, and answers from there.

mod channel;
mod error;
mod message;
mod negotiation;
mod reader;
mod reply;

use std::{
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use self::{
    channel::Channel,
    negotiation::{InitAnswer, encoded, negotiate},
    reader::{Reader, Step},
};
pub use self::{
    error::SessionError,
    message::Message,
    negotiation::{Negotiated, REQUEST_BYTES_MAX, Wishes},
    reply::Reply,
};
use crate::{
    Errno, Mount, MountError, Unmount,
    protocol::{READ_BUFFER_BYTES_MIN, RequestId},
    request::{Init, Operation},
};

/// A file system, as a session sees it.
pub trait Server: Send + Sync + 'static {
    /// Tells what was agreed on, once, before the first request.
    fn begin(&self, negotiated: &Negotiated) {
        let _ = negotiated;
    }

    /// Takes over a request and its reply. Several threads call at the same time.
    ///
    /// It must not wait for anything that takes long: it hands both over to a task. All requests come here whose opcode is
    /// known. What the server does not support, it answers with ENOSYS, or with EOPNOTSUPP if the kernel shall ask again.
    fn handle(&self, message: Message, reply: Reply);
}

impl<F: Fn(Message, Reply) + Send + Sync + 'static> Server for F {
    fn handle(&self, message: Message, reply: Reply) {
        self(message, reply);
    }
}

/// A mount with the threads that serve it. Dropping it takes the mount out of the tree, and the threads end with its
/// last user.
#[derive(Debug)]
pub struct Session {
    mount: Mount,
    negotiated: Negotiated,
    threads: Vec<JoinHandle<Result<(), SessionError>>>,
}

impl Session {
    /// Negotiates with the kernel, and starts `threads` threads, at least one.
    ///
    /// # Errors
    /// If the kernel is too old, the mount is gone, or there are no threads to be had. The mount is then ended.
    pub fn start(
        mut mount: Mount,
        wishes: &Wishes,
        server: Arc<dyn Server>,
        threads: usize,
    ) -> Result<Self, SessionError> {
        let channel = mount.take_descriptor().map(Channel::new).map(Arc::new).ok_or(SessionError::Gone)?;
        let negotiated = begin(&channel, wishes)?;
        tracing::debug!(?negotiated, "a FUSE session begins");
        server.begin(&negotiated);
        let threads = (0..threads.max(1))
            .map(|_| start_thread(&channel, negotiated, &server))
            .collect::<Result<_, _>>()?;
        Ok(Self { mount, negotiated, threads })
    }

    /// What was agreed on with the kernel.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// The folder that the file system is mounted on.
    pub fn point(&self) -> &Path {
        self.mount.point()
    }

    /// Unmounts. The threads end once the kernel has let go of the file system: after [`Unmount::Detach`] with its
    /// last user. Another process may have unmounted it before: that is no error.
    ///
    /// # Errors
    /// If the kernel refuses, as with [`Unmount::Now`] while the mount is in use.
    pub fn unmount(&mut self, how: Unmount) -> Result<(), MountError> {
        self.mount.unmount(how)
    }

    /// Whether all threads have ended.
    pub fn is_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all threads have ended. Does not unmount.
    ///
    /// # Errors
    /// The first error of a thread.
    pub fn join(mut self) -> Result<(), SessionError> {
        let ends = std::mem::take(&mut self.threads).into_iter().map(JoinHandle::join);
        let ended = ends.map(|end| end.unwrap_or(Ok(()))).fold(Ok(()), Result::and);
        self.mount.note_its_end();
        ended
    }
}

fn start_thread(
    channel: &Arc<Channel>,
    negotiated: Negotiated,
    server: &Arc<dyn Server>,
) -> Result<JoinHandle<Result<(), SessionError>>, SessionError> {
    let (channel, server) = (channel.clone(), server.clone());
    let work = move || {
        reader::serve(&channel, &negotiated, &*server)
            .inspect_err(|error| tracing::error!(%error, "a FUSE thread ends"))
    };
    thread::Builder::new().name("fuse".into()).spawn(work).map_err(SessionError::Thread)
}

/// Answers the INIT that the kernel begins with.
fn begin(channel: &Arc<Channel>, wishes: &Wishes) -> Result<Negotiated, SessionError> {
    let mut reader = Reader::new(channel.clone(), READ_BUFFER_BYTES_MIN);
    loop {
        let message = match reader.step()? {
            Step::Message(message) => message,
            Step::Refused(error) => {
                reader::refuse(channel, &error);
                return Err(SessionError::NoInit { opcode: error.opcode });
            }
            Step::Nothing => continue,
            Step::End => return Err(SessionError::Gone),
        };
        let request = message.request();
        let Operation::Init(init) = &request.operation else {
            channel.send_error(request.id, Errno::IO);
            return Err(SessionError::NoInit { opcode: message.opcode() });
        };
        if let Some(negotiated) = answer(channel, request.id, init, wishes)? {
            return Ok(negotiated);
        }
    }
}

/// `None` if the kernel shall ask again.
fn answer(
    channel: &Channel,
    id: RequestId,
    init: &Init,
    wishes: &Wishes,
) -> Result<Option<Negotiated>, SessionError> {
    let answer = negotiate(init, wishes).inspect_err(|_| channel.send_error(id, Errno::PROTO))?;
    let (out, negotiated) = match &answer {
        InitAnswer::Agreed(negotiated, out) => (out, Some(*negotiated)),
        InitAnswer::Again(out) => (out, None),
    };
    channel.send(id, &[std::io::IoSlice::new(encoded(out))]);
    Ok(negotiated)
}
