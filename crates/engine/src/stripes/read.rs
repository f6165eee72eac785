//! Reads.

use std::{ops::Range, pin::pin, sync::Arc};

use futures_util::stream::{self, StreamExt};
use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoFuture, ReadBufs, ReadDone, Waiting, sync::Reader};

use super::{
    Asks, Stripes,
    around::Pieces,
    pending::Reading,
    piece::Piece,
    recover::{Begun, Recovery},
};
use crate::{
    cache::{Cache, Hit},
    error::{ArrayError, is_member_gone},
    life::{detached::Detached, step::step},
    members::{member::Member, meter::IoClass, stats::Cause, topology::Topology},
};

/// One read of one member: pieces that lie side by side there.
struct MemberRead<'t> {
    member: &'t Arc<Member>,
    /// Where in the member's data.
    start: u64,
    len: u64,
    /// Which pieces, by index.
    pieces: SmallVec<[usize; 4]>,
    bufs: ReadBufs,
}

/// What a read of many pieces asks for.
struct Gathered<'t> {
    reads: Vec<MemberRead<'t>>,
    /// The pieces of each stripe in which some pieces are lost.
    around: Vec<Pieces>,
    /// Pieces of mirrors that no member has.
    lost: Pieces,
    /// Pieces that are filled already.
    cached: Pieces,
}

/// How far a read came without waiting.
pub(super) enum Progress {
    Done(IoBuf),
    Waits(Left),
}

/// What is left of a read.
pub(super) enum Left {
    /// Its one piece was asked for.
    Piece(Piece, Arc<Member>, Waiting<ReadDone>),
    /// Its one piece could not be read.
    Failed(Piece, Arc<Member>, ReadDone),
    /// No member has its one piece; other members were asked for what it is recovered from.
    Lost(Box<Recovery>),
    /// Nothing was asked for yet.
    All(IoBuf),
    /// As above, and some of the pieces are filled.
    Cut(IoBuf, Vec<Piece>),
}

/// Pieces in one vectored read: below the kernel's limit of 1024.
const PIECES_MAX: usize = 512;
/// Stripes of one read that are read around a missing member at the same time: the members' queues are full
/// long before that.
const AROUND_IN_FLIGHT: usize = 128;

impl MemberRead<'_> {
    /// Whether a piece at that place of the same member can be added.
    fn follows(&self, start: u64) -> bool {
        self.start + self.len == start && self.pieces.len() < PIECES_MAX
    }
}

impl Stripes {
    /// Serves a read request, as far as possible without waiting.
    #[inline]
    pub(crate) fn start_read(&self, offset_bytes: u64, buf: IoBuf) -> Reading {
        let request = self.requests.enter();
        let geometry = &self.members.get(&request).value().geometry;
        let len_bytes = buf.len() as u64;
        if let Err(error) = self.check_request(geometry, offset_bytes, len_bytes) {
            return Reading::done(Err(error));
        }
        self.stats.count_read(len_bytes);
        if !self.life.env().is_here() {
            return self.read_there(request, offset_bytes, buf);
        }
        match step(self.life.env(), || self.begin_read(&request, offset_bytes, buf)) {
            Progress::Done(buf) => Reading::done(Ok(buf)),
            Progress::Waits(Left::Piece(_, member, io)) => {
                let bytes = offset_bytes..offset_bytes + len_bytes;
                Reading::pending(self.handle(), request.keep(), bytes, member, io)
            }
            Progress::Waits(left) => self.go_on_reading(request, offset_bytes, left),
        }
    }

    /// Serves, on a worker, a read request that was made outside the workers.
    #[cold]
    #[inline(never)]
    fn read_there(&self, request: Reader<'_>, offset_bytes: u64, buf: IoBuf) -> Reading {
        let (stripes, kept) = (self.handle(), request.keep());
        Reading::runs(Detached::go_on(self.life.env(), async move {
            let request = stripes.requests.resume(kept);
            match stripes.begin_read(&request, offset_bytes, buf) {
                Progress::Done(buf) => Ok(buf),
                Progress::Waits(left) => stripes.finish_read(&request, offset_bytes, left).await,
            }
        }))
    }

    /// Lets a read run to its end by itself.
    #[inline(never)]
    fn go_on_reading(&self, request: Reader<'_>, offset_bytes: u64, left: Left) -> Reading {
        let (stripes, kept) = (self.handle(), request.keep());
        Reading::runs(Detached::start(self.life.env(), async move {
            let request = stripes.requests.resume(kept);
            stripes.finish_read(&request, offset_bytes, left).await
        }))
    }

    /// Begins a read. If it is one piece of one member, asks the member for it.
    #[inline(always)]
    fn begin_read(&self, request: &Reader<'_>, offset_bytes: u64, mut buf: IoBuf) -> Progress {
        let topology = self.members.get(request);
        let Some(piece) = Piece::only(&topology.geometry, offset_bytes, buf.len()) else {
            return Progress::Waits(Left::All(buf));
        };
        if let Some(cache) = self.cache.get(request).value() {
            if piece.bytes.start < piece.bytes.len() {
                self.look_ahead(cache, &topology.geometry, &piece);
            }
            match cache.read(piece.stripe, piece.column, piece.bytes.clone(), &mut buf) {
                Hit::All => return Progress::Done(buf),
                Hit::Without(missing) => return Progress::Waits(cut_one(buf, &piece, missing)),
                Hit::Nothing => {}
            }
        }
        let Some(member) = self.pick_reader(&topology, &piece) else {
            return match self.begin_recovery(request, piece, buf) {
                Begun::Done(buf) => Progress::Done(buf),
                Begun::Waits(recovery) => Progress::Waits(Left::Lost(recovery)),
                Begun::Nothing(buf) => Progress::Waits(Left::All(buf)),
            };
        };
        let mut io = member.read(piece.member_offset(&topology.geometry), smallvec![buf]);
        if let Some(buf) = io.peek_mut().and_then(ReadDone::take_read) {
            return Progress::Done(buf);
        }
        match io.try_ready() {
            Ok(failed) => Progress::Waits(Left::Failed(piece, member.clone(), failed)),
            Err(io) => Progress::Waits(Left::Piece(piece, member.clone(), io)),
        }
    }

    /// Continues a read to its end.
    async fn finish_read(
        &self,
        request: &Reader<'_>,
        offset_bytes: u64,
        left: Left,
    ) -> Result<IoBuf, ArrayError> {
        match left {
            Left::Piece(piece, member, io) => self.take_read(&member, &piece, io.await).await,
            Left::Failed(piece, member, failed) => self.take_read(&member, &piece, failed).await,
            Left::Lost(recovery) => self.finish_recovery(*recovery).await,
            Left::All(buf) => {
                let pieces = Piece::all(&self.members.get(request).geometry, offset_bytes, buf.len());
                self.read_uncut(request, pieces, buf).await
            }
            Left::Cut(buf, pieces) => self.read_pieces(&self.members.get(request), buf, &pieces).await,
        }
    }

    /// Reads pieces, one behind the other in the buffer, from the cache and from members.
    pub(super) async fn read_uncut(
        &self,
        request: &Reader<'_>,
        mut pieces: SmallVec<[Piece; 8]>,
        mut buf: IoBuf,
    ) -> Result<IoBuf, ArrayError> {
        if let Some(cache) = self.cache.get(request).value() {
            pieces = cut_cached(cache, pieces, &mut buf);
        }
        self.read_pieces(&self.members.get(request), buf, &pieces).await
    }

    /// The member to read a piece from. Mirrors take turns by stripe, except where a resync is due. There,
    /// all readers must see the mirror that the others will be made equal to.
    fn pick_reader<'t>(&self, topology: &'t Topology, piece: &Piece) -> Option<&'t Arc<Member>> {
        let copies = topology.geometry.copies_of(piece.column);
        if copies.len() == 1 {
            return topology.reader(piece.stripe, piece.column);
        }
        let first =
            if self.is_trusted(piece.stripe) { (piece.stripe.0 % copies.len() as u64) as usize } else { 0 };
        (0..copies.len())
            .find_map(|i| topology.reader(piece.stripe, copies.start + (first + i) % copies.len()))
    }

    /// Reads a piece from its member.
    async fn read_from(&self, member: &Arc<Member>, piece: &Piece, buf: IoBuf) -> Result<IoBuf, ArrayError> {
        let done = member.read(piece.member_offset(&self.geometry()), smallvec![buf]).await;
        self.take_read(member, piece, done).await
    }

    /// Reads many pieces: one vectored read per run of pieces that are neighbours on a member, all at once.
    async fn read_pieces(
        &self,
        topology: &Topology,
        buf: IoBuf,
        pieces: &[Piece],
    ) -> Result<IoBuf, ArrayError> {
        let Gathered { reads, around, mut lost, cached } = self.gather(topology, buf, pieces);
        // Pieces that were read alone and failed, each with the column that it was read from.
        let mut unread: SmallVec<[(usize, usize); 2]> = SmallVec::new();
        let started: Vec<(MemberRead<'_>, IoFuture<ReadDone>)> = reads
            .into_iter()
            .map(|mut read| {
                let io = read.member.read_as(
                    IoClass::Other,
                    Cause::Reader,
                    read.start,
                    std::mem::take(&mut read.bufs),
                );
                (read, io)
            })
            .collect();
        let mut filled: Vec<Option<IoBuf>> = pieces.iter().map(|_| None).collect();
        cached.into_iter().for_each(|(index, buf)| filled[index] = Some(buf));
        let around = stream::iter(around).map(|stripe| self.read_around(pieces, stripe));
        let mut around = pin!(around.buffer_unordered(AROUND_IN_FLIGHT));
        while let Some(stripe) = around.next().await {
            match stripe {
                Ok(read) => read.into_iter().for_each(|(index, buf)| filled[index] = Some(buf)),
                Err(unread) => lost.extend(unread),
            }
        }
        for (read, io) in started {
            let ReadDone { result, bufs } = io.await;
            if let Err(error) = result {
                // The error does not tell which of several pieces failed. Each is read alone, which will
                // tell.
                let is_alone = read.pieces.len() == 1;
                if is_alone || is_member_gone(&error) {
                    let piece = &pieces[read.pieces[0]];
                    let column = self.column_read(read.member, piece);
                    unread.extend(is_alone.then_some((read.pieces[0], column)));
                    self.note_read_error(read.member, piece.stripe, column, error, Asks::Client).await;
                }
                let mut bufs = bufs.into_iter();
                let mut buf_of =
                    |index: usize| bufs.next().unwrap_or_else(|| IoBuf::with_len(pieces[index].bytes.len()));
                lost.extend(read.pieces.into_iter().map(|index| (index, buf_of(index))));
            } else {
                read.pieces.into_iter().zip(bufs).for_each(|(index, buf)| filled[index] = Some(buf));
            }
        }
        // The error names the first piece that is lost for good.
        lost.sort_unstable_by_key(|(index, _)| *index);
        for (index, buf) in lost {
            let piece = &pieces[index];
            let failed = unread.iter().find(|(unread, _)| *unread == index);
            filled[index] = Some(match failed {
                Some((_, column)) => {
                    self.recover_locked(piece.stripe, *column, piece.bytes.clone(), buf).await?
                }
                None => self.read_or_recover(piece, buf).await?,
            });
        }
        Ok(join(filled))
    }

    /// Cuts the buffer into the pieces and puts them into reads. Pieces of stripes with a lost piece are kept
    /// apart.
    fn gather<'t>(&self, topology: &'t Topology, mut buf: IoBuf, pieces: &[Piece]) -> Gathered<'t> {
        let mut reads: Vec<MemberRead<'t>> =
            Vec::with_capacity(topology.geometry.members().min(pieces.len()));
        let (mut around, mut lost): (Vec<Pieces>, _) = (Vec::new(), Pieces::new());
        let mut cached = Pieces::new();
        let has_all = topology.has_all();
        let mut last_around = None;
        for (index, piece) in pieces.iter().enumerate() {
            let part = buf.split_to(piece.bytes.len());
            if piece.is_cached {
                cached.push((index, part));
                continue;
            }
            if !has_all && self.is_around(topology, pieces, index) {
                match around.last_mut().filter(|_| last_around == Some(piece.stripe)) {
                    Some(stripe) => stripe.push((index, part)),
                    None => around.push(vec![(index, part)]),
                }
                last_around = Some(piece.stripe);
                continue;
            }
            let Some(member) = self.pick_reader(topology, piece) else {
                lost.push((index, part));
                continue;
            };
            let (start, len) = (piece.member_offset(&topology.geometry), part.len() as u64);
            let neighbour =
                reads.iter_mut().rev().find(|r| r.follows(start) && Arc::ptr_eq(r.member, member));
            match neighbour {
                Some(read) => {
                    read.len += len;
                    read.pieces.push(index);
                    read.bufs.push(part);
                }
                None => reads.push(MemberRead {
                    member,
                    start,
                    len,
                    pieces: smallvec![index],
                    bufs: smallvec![part],
                }),
            }
        }
        Gathered { reads, around, lost, cached }
    }

    /// Whether a piece of the same stripe is lost that parity may give back.
    fn is_around(&self, topology: &Topology, pieces: &[Piece], index: usize) -> bool {
        let stripe = pieces[index].stripe;
        let is_here = |piece: &&Piece| piece.stripe == stripe;
        let mut here = pieces[index..]
            .iter()
            .take_while(is_here)
            .chain(pieces[..index].iter().rev().take_while(is_here));
        topology.geometry.has_parity() && here.any(|piece| topology.reader(stripe, piece.column).is_none())
    }

    /// A piece whose vectored read failed, or whose member is missing: read alone, else recovered.
    async fn read_or_recover(&self, piece: &Piece, buf: IoBuf) -> Result<IoBuf, ArrayError> {
        let topology = self.members.load();
        let Some(member) = self.pick_reader(&topology, piece) else {
            return self.recover_locked(piece.stripe, piece.column, piece.bytes.clone(), buf).await;
        };
        self.read_from(member, piece, buf).await
    }
}

/// Copies what is cached of some pieces into the buffer that they will fill, and cuts the pieces there.
fn cut_cached(cache: &Cache, pieces: SmallVec<[Piece; 8]>, buf: &mut IoBuf) -> SmallVec<[Piece; 8]> {
    let (mut cut, mut at) = (SmallVec::new(), 0);
    for piece in pieces {
        let bytes = piece.bytes.clone();
        let into = &mut buf[at..at + bytes.len()];
        at += bytes.len();
        let missing = match cache.read(piece.stripe, piece.column, bytes.clone(), into) {
            Hit::All => SmallVec::new(),
            Hit::Nothing => smallvec![bytes],
            Hit::Without(missing) => missing,
        };
        cut_piece(&piece, missing, |piece| cut.push(piece));
    }
    cut
}

/// A read of one piece of which some bytes are not cached.
#[cold]
fn cut_one(buf: IoBuf, piece: &Piece, missing: SmallVec<[Range<usize>; 4]>) -> Left {
    let mut cut = Vec::new();
    cut_piece(piece, missing, |piece| cut.push(piece));
    Left::Cut(buf, cut)
}

/// Cuts a piece where it is cached and where bytes are missing.
fn cut_piece(piece: &Piece, missing: SmallVec<[Range<usize>; 4]>, mut add: impl FnMut(Piece)) {
    let Piece { stripe, column, ref bytes, .. } = *piece;
    let mut push = |bytes: Range<usize>, is_cached| {
        if !bytes.is_empty() {
            add(Piece { stripe, column, bytes, is_cached });
        }
    };
    let mut from = bytes.start;
    for missing in missing {
        push(from..missing.start, true);
        from = missing.end;
        push(missing, false);
    }
    push(from..bytes.end, true);
}

/// Joins the pieces of a buffer again. They are copied if a member lost one piece's buffer and another buffer
/// took its place.
fn join(pieces: Vec<Option<IoBuf>>) -> IoBuf {
    let mut pieces = pieces.into_iter().map(|piece| piece.expect("every piece was filled"));
    let mut whole = pieces.next().unwrap_or_else(|| IoBuf::with_len(0));
    while let Some(piece) = pieces.next() {
        if let Err(strange) = whole.unsplit(piece) {
            let parts: Vec<IoBuf> = [whole, strange].into_iter().chain(pieces).collect();
            return IoBuf::copy_of(&parts.iter().map(|part| &part[..]).collect::<Vec<_>>().concat());
        }
    }
    whole
}
