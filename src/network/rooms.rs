//! Room for large frames.
//!
//! Each is a mapping of its own, so that what is given back is given back: an
//! allocator keeps what lies between blocks of many sizes that come and go, and
//! takes several times what is in use. Some are kept, for a page costs most when it
//! is touched for the first time.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Advice, MmapMut, MmapOptions};
use parking_lot::Mutex;

/// Rooms are this large at least, and sizes above it powers of two, so that one is used
/// for many frames.
const SMALLEST: usize = 128 * 1024;

/// Larger ones are not kept.
const LARGEST_KEPT: usize = 4 * 1024 * 1024;

/// Bytes of all that are kept.
const KEPT: usize = 16 * 1024 * 1024;

/// Rooms that wait for their next frame.
#[derive(Debug, Default)]
pub struct Rooms {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The one used last is the last.
    maps: Vec<MmapMut>,
    bytes: usize,
}

impl Rooms {
    /// Room for `size` bytes, which takes memory from the beginning.
    pub fn take(self: &Arc<Self>, size: usize) -> io::Result<Room> {
        match self.kept(rounded(size)) {
            Some(map) => Ok(self.room(map)),
            None => self.promised(size),
        }
    }

    /// Room that takes memory only as it is filled: the size may be a promise.
    pub fn promised(self: &Arc<Self>, size: usize) -> io::Result<Room> {
        let map = MmapOptions::new().len(rounded(size)).no_reserve_swap().map_anon()?;
        // With the first byte of a huge page, megabytes would be taken. Where there are
        // none, this fails and changes nothing.
        let _ = map.advise(Advice::NoHugePage);
        Ok(self.room(map))
    }

    fn room(self: &Arc<Self>, map: MmapMut) -> Room {
        Room { map: Some(map), filled: 0, rooms: Arc::clone(self) }
    }

    fn kept(&self, len: usize) -> Option<MmapMut> {
        let mut kept = self.kept.lock();
        let at = kept.maps.iter().rposition(|map| map.len() == len)?;
        let map = kept.maps.remove(at);
        kept.bytes -= map.len();
        Some(map)
    }

    #[cfg(test)]
    pub fn kept_now(&self) -> usize {
        self.kept.lock().maps.len()
    }

    fn give_back(&self, map: MmapMut) {
        let mut kept = self.kept.lock();
        if map.len() <= LARGEST_KEPT && kept.bytes + map.len() <= KEPT {
            kept.bytes += map.len();
            kept.maps.push(map);
        }
    }
}

fn rounded(size: usize) -> usize {
    match size {
        ..=LARGEST_KEPT => size.max(SMALLEST).next_power_of_two(),
        _ => size,
    }
}

/// One frame's bytes, as they come in.
#[derive(Debug)]
pub struct Room {
    /// There until it is dropped.
    map: Option<MmapMut>,
    filled: usize,
    rooms: Arc<Rooms>,
}

impl Room {
    /// Bytes that are there.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Where the next bytes go, until `end` bytes are there.
    pub fn rest(&mut self, end: usize) -> &mut [u8] {
        let filled = self.filled;
        self.map.as_mut().and_then(|map| map.get_mut(filled..end)).unwrap_or_default()
    }

    /// So many bytes of [`Self::rest`] have come.
    pub fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// The bytes; the room is free again when the last slice of them is dropped.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        self.map.as_ref().and_then(|map| map.get(..self.filled)).unwrap_or_default()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(map) = self.map.take() {
            self.rooms.give_back(map);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rooms: &Arc<Rooms>, bytes: &[u8]) -> Bytes {
        let mut room = rooms.take(bytes.len()).unwrap();
        for piece in bytes.chunks(70_000) {
            let end = room.len() + piece.len();
            room.rest(end).copy_from_slice(piece);
            room.advance(piece.len());
        }
        room.freeze()
    }

    #[test]
    fn a_room_is_used_again_once_nobody_reads_it() {
        let rooms = Arc::new(Rooms::default());
        let first = filled(&rooms, &[1; 200_000]);
        let slice = first.slice(100..);
        drop(first);
        let second = filled(&rooms, &[2; 250_000]);
        assert!(slice.iter().all(|byte| *byte == 1) && slice.len() == 199_900);
        assert!(second.iter().all(|byte| *byte == 2) && second.len() == 250_000);
        assert!(rooms.kept.lock().maps.is_empty());
        let place = slice.as_ptr() as usize - 100;
        drop(slice);
        let third = filled(&rooms, &[3; 150_000]);
        assert_eq!(third.as_ptr() as usize, place);
        assert!(third.iter().all(|byte| *byte == 3) && third.len() == 150_000);
        drop(third);
        assert_eq!(rooms.kept.lock().maps.len(), 1);
        // Neither a small frame nor one that may never come takes what was touched.
        let (small, promised) = (rooms.take(100_000).unwrap(), rooms.promised(200_000).unwrap());
        assert_eq!(rooms.kept.lock().maps.len(), 1);
        drop((small, promised));
    }

    #[test]
    fn what_is_kept_has_limits() {
        let rooms = Arc::new(Rooms::default());
        let many: Vec<_> = (0..100).map(|_| rooms.take(1_000_000).unwrap()).collect();
        drop(many);
        drop(rooms.take(LARGEST_KEPT + 1).unwrap());
        let kept = rooms.kept.lock();
        assert_eq!((kept.maps.len(), kept.bytes), (16, KEPT));
    }

    #[test]
    fn no_more_is_filled_than_fits() {
        let rooms = Arc::new(Rooms::default());
        let mut room = rooms.take(200_000).unwrap();
        assert!(room.rest(usize::MAX).is_empty());
        assert_eq!(room.rest(200_000).len(), 200_000);
        room.advance(200_000);
        assert!(room.rest(200_000).is_empty() && room.rest(100).is_empty());
    }
}
