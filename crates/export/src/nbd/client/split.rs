//! Requests larger than the server takes, in pieces.

use smallvec::SmallVec;
use stripewise_device::{ReadBufs, WriteBufs};

use crate::nbd::limits::WRITE_PIECES_MAX;

/// Cuts a write into pieces of at most `max` bytes, each with no more buffers than one send takes.
pub(super) fn split_writes(from: WriteBufs, max: usize) -> Vec<WriteBufs> {
    let mut pieces = Vec::with_capacity(1);
    let (mut piece, mut room) = (WriteBufs::new(), max);
    for buf in from {
        let mut start = 0;
        while start < buf.len() {
            if room == 0 || piece.len() == WRITE_PIECES_MAX {
                pieces.push(std::mem::take(&mut piece));
                room = max;
            }
            let now = (buf.len() - start).min(room);
            piece.push(buf.slice(start..start + now));
            start += now;
            room -= now;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// Cuts the buffers of a read into pieces of at most `max` bytes; the first value says how to join them
/// again.
pub(super) fn split_reads(into: ReadBufs, max: usize) -> (SmallVec<[usize; 2]>, Vec<ReadBufs>) {
    let shapes = into.iter().map(|buf| buf.len()).collect();
    let mut pieces = Vec::with_capacity(1);
    let (mut piece, mut room) = (ReadBufs::new(), max);
    for mut buf in into {
        while buf.len() > room {
            let head = buf.split_to(room);
            if !head.is_empty() {
                piece.push(head);
            }
            pieces.push(std::mem::take(&mut piece));
            room = max;
        }
        room -= buf.len();
        piece.push(buf);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    (shapes, pieces)
}

/// Puts the pieces of split buffers together again.
pub(super) fn join_reads(shapes: &[usize], parts: ReadBufs) -> ReadBufs {
    let mut parts = parts.into_iter();
    let join = |len: &usize| {
        let mut buf = parts.next()?;
        while buf.len() < *len {
            buf.unsplit(parts.next()?).ok()?;
        }
        Some(buf)
    };
    shapes.iter().map_while(join).collect()
}

#[cfg(test)]
mod tests {
    use stripewise_device::{IoBuf, bufs_len};

    use super::*;

    #[test]
    fn reads_come_back_in_their_shapes() {
        for (shape, max) in
            [(vec![512usize], 4096), (vec![10, 20, 30], 7), (vec![100, 100], 100), (vec![64, 1], 64)]
        {
            let bufs: ReadBufs = shape.iter().map(|len| IoBuf::with_len(*len)).collect();
            let (shapes, pieces) = split_reads(bufs, max);
            assert!(pieces.iter().all(|piece| bufs_len(piece) <= max));
            let joined = join_reads(&shapes, pieces.into_iter().flatten().collect());
            assert_eq!(joined.iter().map(|buf| buf.len()).collect::<Vec<_>>(), shape);
        }
    }

    #[test]
    fn writes_are_cut_by_length_and_by_number_of_buffers() {
        let data = IoBuf::copy_of(&[7; 100]).freeze();
        let pieces = split_writes(smallvec::smallvec![data.clone(), data.clone()], 150);
        assert_eq!(pieces.iter().map(|piece| bufs_len(piece)).collect::<Vec<_>>(), [150, 50]);
        let many: WriteBufs = (0..2000).map(|at| data.slice(at % 100..at % 100 + 1)).collect();
        let pieces = split_writes(many, 1 << 20);
        assert!(pieces.iter().all(|piece| piece.len() <= WRITE_PIECES_MAX));
        assert_eq!(pieces.iter().map(|piece| bufs_len(piece)).sum::<usize>(), 2000);
    }
}
