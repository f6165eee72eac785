//! One connection: negotiation, then requests until it ends, then the last replies.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{Either, select};
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, IoError, WriteBufs, uring::net::Stream};
use thiserror::Error;

use super::{
    accept::Shared,
    budget::{Budget, Held, Ticket},
    execute,
    payload::{STALL_LOOKS, receive_payload},
};
use crate::nbd::{
    inlet::{Inlet, InletError},
    limits::{PROGRESS_BYTES, STATUS_EXTENTS_MAX, charged_bytes},
    mailbox::Mailbox,
    outlet::{Message, send_all},
    proto::{
        Chunk, Cookie, Head, NbdErrno, Negotiation, NegotiationError, Refusal, Request, RequestError,
        Session, Step, Then, Work, check, request::REQUEST_BYTES,
    },
    turn::Turn,
};

/// A connection as its tasks and the server see it.
pub(super) struct Connection {
    id: usize,
    /// Where its tasks run.
    worker: usize,
    stream: Stream,
    budget: Arc<Budget>,
    replies: Mailbox<Message<Ticket>>,
    shared: Arc<Shared>,
    /// Nothing can be sent any more.
    broken: AtomicBool,
    /// When it last sent a request, moved data, or was accepted: nanoseconds of the server's clock.
    active_ns: AtomicU64,
    has_asked: AtomicBool,
    /// When the current part of a reply began to be sent, and the current part of a write's data to be
    /// received; 0 for none.
    sending_ns: AtomicU64,
    pub(super) receiving_ns: AtomicU64,
}

/// Why a connection ended other than by the client's DISC.
#[derive(Debug, Error)]
enum End {
    #[error("{0}")]
    Inlet(#[from] InletError),
    #[error("sending failed: {0}")]
    Send(#[from] IoError),
    #[error("{0}")]
    Negotiation(#[from] NegotiationError),
    #[error("{0}")]
    Request(#[from] RequestError),
    #[error("negotiation took too long")]
    Slow,
}

impl Connection {
    pub(super) fn new(
        id: usize,
        worker: usize,
        stream: Stream,
        budget: Arc<Budget>,
        shared: Arc<Shared>,
    ) -> Self {
        let active_ns = AtomicU64::new(shared.now_ns());
        Self {
            id,
            worker,
            stream,
            budget,
            replies: Mailbox::default(),
            shared,
            broken: AtomicBool::new(false),
            active_ns,
            has_asked: AtomicBool::new(false),
            sending_ns: AtomicU64::new(0),
            receiving_ns: AtomicU64::new(0),
        }
    }

    fn note_request(&self) {
        self.active_ns.store(self.shared.now_ns(), Ordering::Relaxed);
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Notes that another part is being moved from now on, or none.
    pub(super) fn note_progress(&self, since: &AtomicU64, is_moving: bool) {
        let now_ns = self.shared.now_ns();
        since.store(if is_moving { now_ns } else { 0 }, Ordering::Relaxed);
        self.active_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether it ever sent a request.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// How long it has sent no request and moved no data.
    pub(super) fn idle_for(&self) -> Duration {
        self.since(self.active_ns.load(Ordering::Relaxed))
    }

    /// How long its client has stalled in the middle of a transfer.
    pub(super) fn stalled_for(&self) -> Duration {
        let since = |ns: &AtomicU64| match ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            ns => self.since(ns),
        };
        since(&self.sending_ns).max(since(&self.receiving_ns))
    }

    fn since(&self, ns: u64) -> Duration {
        Duration::from_nanos(self.shared.now_ns().saturating_sub(ns))
    }

    /// Waits for memory. Meanwhile, clients that hold memory and stall lose their connections.
    async fn acquire(self: &Arc<Self>, bytes: u64) -> Ticket {
        let stall = self.shared.limits().stall;
        let mut ticket = std::pin::pin!(self.budget.acquire(bytes));
        loop {
            match select(ticket, self.shared.env().sleep(stall / STALL_LOOKS)).await {
                Either::Left((ticket, _)) => return ticket,
                Either::Right((_, waiting)) => ticket = waiting,
            }
            // If the connection itself has no room, closing others would not help it.
            if self.budget.waits_for_others() {
                self.shared.cut_off_stalled(stall);
            }
        }
    }

    pub(super) fn id(&self) -> usize {
        self.id
    }

    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// The memory that its requests hold.
    pub(super) fn held(&self) -> Held {
        self.budget.held()
    }

    pub(super) fn stop_receiving(&self) {
        self.stream.shutdown_receive();
    }

    pub(super) fn cut_off(&self) {
        self.stream.shutdown();
    }

    /// As [`Connection::cut_off`]. False if it was given up before.
    pub(super) fn give_up(&self) -> bool {
        let is_first = !self.broken.swap(true, Ordering::SeqCst);
        self.cut_off();
        is_first
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn device(&self, session: &Session) -> &dyn Device {
        &*self.shared.export(session.export).device
    }

    /// Queues a reply. The ticket is returned when it is sent, or at once if nothing can be sent any more.
    pub(super) fn reply(&self, head: Head, payload: WriteBufs, ticket: Ticket) {
        drop(self.replies.push(Message { head, payload, _keep: ticket }));
    }

    /// Queues an error, with words if the client understands them.
    pub(super) fn refuse(&self, session: &Session, cookie: Cookie, refusal: Refusal, ticket: Ticket) {
        if session.structured {
            let (errno, message) = (refusal.errno, refusal.reason.to_owned());
            self.reply_chunk(cookie, &Chunk::Error { errno, message }, ticket);
        } else {
            self.reply(Head::simple(cookie, Some(refusal.errno)), WriteBufs::new(), ticket);
        }
    }

    /// Queues a reply of one chunk.
    pub(super) fn reply_chunk(&self, cookie: Cookie, chunk: &Chunk, ticket: Ticket) {
        let bytes = IoBuf::copy_of(&chunk.encode(cookie, true)).freeze();
        self.reply(Head::empty(), smallvec![bytes], ticket);
    }
}

/// The connection's life. It leaves the server's list when no device is used for it any more.
pub(super) async fn serve(connection: Arc<Connection>) {
    let ended = talk(&connection).await;
    connection.budget.drained().await;
    connection.replies.close();
    connection.stream.shutdown();
    match ended {
        Ok(()) | Err(End::Inlet(InletError::Closed)) => {
            tracing::debug!(id = connection.id, "connection ended")
        }
        Err(reason) => {
            if let Some(untold) = connection.shared.told().ended.count() {
                tracing::info!(id = connection.id, %reason, untold, "connection ended");
            }
        }
    }
    connection.shared.leave(connection.id);
}

async fn talk(connection: &Arc<Connection>) -> Result<(), End> {
    let mut inlet = Inlet::new(connection.stream.clone());
    let Some(session) = negotiate_in_time(connection, &mut inlet).await? else { return Ok(()) };
    let sender = connection.clone();
    connection.shared.env().spawn(Box::pin(async move { send_replies(&sender).await }));
    receive_requests(connection, &mut inlet, session).await
}

async fn negotiate_in_time(connection: &Connection, inlet: &mut Inlet) -> Result<Option<Session>, End> {
    let timeout = connection.shared.env().sleep(connection.shared.limits().handshake);
    let negotiation = std::pin::pin!(negotiate(connection, inlet));
    match select(negotiation, timeout).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(End::Slow),
    }
}

async fn negotiate(connection: &Connection, inlet: &mut Inlet) -> Result<Option<Session>, End> {
    let mut negotiation = Negotiation::new(connection.shared.facts());
    send(connection, &Negotiation::greeting()).await?;
    loop {
        match negotiation.advance(inlet.available())? {
            Step::Need(len) => inlet.ensure(len).await?,
            Step::Took { consumed, reply, then } => {
                inlet.consume(consumed);
                send(connection, &reply).await?;
                match then {
                    Then::Continue => {}
                    Then::Close => return Ok(None),
                    Then::Transmit(session) => return Ok(Some(session)),
                }
            }
        }
    }
}

async fn send(connection: &Connection, bytes: &[u8]) -> Result<(), IoError> {
    if bytes.is_empty() {
        return Ok(());
    }
    connection.stream.send(smallvec![IoBuf::copy_of(bytes).freeze()]).await
}

async fn send_replies(connection: &Connection) {
    let is_sending = |is_sending: bool| connection.note_progress(&connection.sending_ns, is_sending);
    if send_all(&connection.stream, &connection.replies, is_sending).await.is_err() {
        connection.broken.store(true, Ordering::SeqCst);
        // Wakes the receiver, which waits for the socket or, through the tickets, for its budget.
        connection.stream.shutdown();
        drop(connection.replies.close_and_clear());
    }
}

async fn receive_requests(
    connection: &Arc<Connection>,
    inlet: &mut Inlet,
    session: Session,
) -> Result<(), End> {
    let mut turn = Turn::default();
    while !connection.broken.load(Ordering::SeqCst) {
        let request = Request::decode(&inlet.take::<REQUEST_BYTES>().await?)?;
        connection.shared.counters().count_request();
        connection.note_request();
        let judged =
            if connection.shared.is_stopping() { Err(SHUTTING_DOWN) } else { check(&request, &session) };
        match judged {
            Ok(Work::Disconnect) => return Ok(()),
            Ok(work) => {
                let cost_bytes = cost_bytes(&work);
                start(connection, inlet, session, &request, work).await?;
                turn.count(cost_bytes).await;
            }
            Err(refusal) => {
                inlet.discard(u64::from(request.payload_bytes())).await?;
                connection.shared.counters().count_refused();
                // A structured error takes a buffer.
                let ticket = connection.acquire(charged_bytes(1)).await;
                connection.refuse(&session, request.cookie, refusal, ticket);
                turn.count(charged_bytes(1)).await;
            }
        }
    }
    Ok(())
}

const SHUTTING_DOWN: Refusal = Refusal { errno: NbdErrno::Shutdown, reason: "the server is shutting down" };

async fn start(
    connection: &Arc<Connection>,
    inlet: &mut Inlet,
    session: Session,
    request: &Request,
    work: Work,
) -> Result<(), End> {
    let asked_ns = connection.shared.now_ns();
    let bytes = cost_bytes(&work);
    let (ticket, has_waited) = match connection.budget.acquire_at_once(bytes) {
        Some(ticket) => (ticket, false),
        None => {
            // A client that sends no data takes no place in the queue for memory.
            inlet.ensure(payload_bytes(&work).min(PROGRESS_BYTES)).await?;
            (connection.acquire(bytes).await, true)
        }
    };
    let payload = match &work {
        Work::Write { .. } => {
            let late_ns = has_waited.then_some(asked_ns);
            Some(receive_payload(connection, inlet, payload_bytes(&work), late_ns).await?)
        }
        _ => None,
    };
    let job = execute::Job { connection: connection.clone(), session, cookie: request.cookie, ticket };
    execute::start(job, work, request.offset_bytes, payload);
    Ok(())
}

/// The data that comes with a request.
fn payload_bytes(work: &Work) -> usize {
    match work {
        Work::Write { len_bytes, .. } => *len_bytes as usize,
        _ => 0,
    }
}

/// The buffers that a request will hold.
fn cost_bytes(work: &Work) -> u64 {
    match work {
        Work::Read { len_bytes, .. } | Work::Write { len_bytes, .. } => charged_bytes(u64::from(*len_bytes)),
        Work::Status { .. } => charged_bytes(STATUS_EXTENTS_MAX as u64 * 8),
        _ => 0,
    }
}
