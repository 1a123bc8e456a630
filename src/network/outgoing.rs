//! Answers on their way out: bytes gathered into few system calls, file ranges
//! from the page cache to the socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use rustix::fs::sendfile;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::protocol::{Chunk, Region};
use crate::sys::clock::within;
use crate::sys::cold::aside;

/// Slices that go into one system call.
const SLICES: usize = 64;

/// File ranges up to this size are read and sent along with their neighbours: one
/// read is cheaper than a call of their own.
const SMALL_REGION: usize = 16 * 1024;

/// What is read from files at once: of one without a descriptor, and of small
/// ranges for one system call. No answer takes more memory than this for them.
const PIECE: usize = 64 * 1024;

/// So much of a file is brought in at once where it is not in memory: disks like
/// large reads.
const STRETCH: usize = 1024 * 1024;

/// What is sent of a file before other connections have their turn: one reader
/// with a large window, which catches up, shall not keep the thread for itself.
pub(super) const STRIDE: usize = 128 * 1024;

/// Answers that are not yet in the socket's buffer, in order.
#[derive(Debug, Default)]
pub struct Outgoing {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// So much of the file's range in front is in memory: it may be evicted until it
    /// is sent, but then the disk is waited for.
    warm: usize,
}

impl Outgoing {
    /// Bytes waiting to be sent.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends one answer.
    pub fn push(&mut self, answer: Vec<Chunk>) {
        self.len += answer.iter().map(Chunk::len).sum::<usize>();
        self.chunks.extend(answer);
    }

    /// Sends everything. Fails when the peer takes nothing for `patience`.
    pub async fn flush(&mut self, stream: &TcpStream, patience: Duration) -> io::Result<()> {
        let mut unyielded = 0;
        while let Some(front) = self.chunks.front() {
            if front.is_empty() {
                self.chunks.pop_front();
                continue;
            }
            self.gather()?;
            if let Some((region, len)) = self.cold_stretch() {
                let bring_in = move || region.file.bring_in(region.position, len);
                aside(bring_in).await?;
                self.warm = len;
                continue;
            }
            match self.send_some(stream) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(sent) => {
                    self.advance(sent);
                    // A reader that takes everything shall not keep the thread.
                    unyielded += sent;
                    if unyielded >= STRIDE && !self.chunks.is_empty() {
                        unyielded = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    within(patience, stream.writable()).await.ok_or(io::ErrorKind::TimedOut)??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One system call's worth of progress.
    fn send_some(&mut self, stream: &TcpStream) -> io::Result<usize> {
        if let Some(Chunk::Region(region)) = self.chunks.front() {
            if region.file.descriptor().is_some() {
                // A rest that is not much more goes along.
                let len = if self.warm > 2 * STRIDE { STRIDE } else { self.warm };
                return send_region(stream, region, len);
            }
            let (len, position) = (self.warm.min(PIECE), region.position);
            let piece = filled(len, |into| region.file.read_at(into, position))?;
            let position = position + len as u64;
            let rest =
                Region { file: region.file.clone(), position, len: region.len - piece.len() };
            self.chunks.pop_front();
            self.chunks.push_front(Chunk::Region(rest));
            self.chunks.push_front(Chunk::Bytes(piece));
        }
        self.send_bytes(stream)
    }

    /// The range in front and how much of it is needed next, if it must be brought
    /// in before it is sent.
    fn cold_stretch(&mut self) -> Option<(Region, usize)> {
        let Some(Chunk::Region(region)) = self.chunks.front() else { return None };
        if self.warm > 0 {
            return None;
        }
        let len = region.len.min(STRETCH);
        if !region.file.is_in_memory(region.position, len) {
            return Some((region.clone(), len));
        }
        self.warm = len;
        None
    }

    /// Reads the small ranges that go out with the next call, as far as they are in
    /// memory, and no others: a peer that takes nothing shall not have them kept.
    fn gather(&mut self) -> io::Result<()> {
        // The rest of a file by itself is sent from where it is.
        if self.chunks.len() == 1 {
            return Ok(());
        }
        let mut gathered = 0;
        for chunk in self.chunks.iter_mut().take(SLICES) {
            gathered += chunk.len();
            if let Chunk::Region(region) = chunk {
                if region.len > SMALL_REGION || gathered > PIECE {
                    break;
                }
                let position = region.position;
                match filled(region.len, |into| region.file.try_read_at(into, position)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    bytes => *chunk = Chunk::Bytes(bytes?),
                }
            }
        }
        Ok(())
    }

    /// Sends as many of the leading byte chunks as one call takes; tells the
    /// kernel when a file follows, so that they share packets.
    fn send_bytes(&self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        let mut flags = SendFlags::NOSIGNAL;
        for chunk in &self.chunks {
            match (chunk, slices.get_mut(count)) {
                (Chunk::Bytes(bytes), Some(slice)) => *slice = IoSlice::new(bytes),
                _ => {
                    flags |= SendFlags::MORE;
                    break;
                }
            }
            count += 1;
        }
        stream.try_io(Interest::WRITABLE, || {
            let mut no_ancillary = SendAncillaryBuffer::default();
            Ok(sendmsg(stream, &slices[..count], &mut no_ancillary, flags)?)
        })
    }

    fn advance(&mut self, mut sent: usize) {
        self.len -= sent;
        self.warm = self.warm.saturating_sub(sent);
        while let Some(front) = self.chunks.front_mut() {
            let len = front.len();
            if len > sent {
                match front {
                    Chunk::Bytes(bytes) => bytes.advance(sent),
                    Chunk::Region(region) => {
                        region.position += sent as u64;
                        region.len -= sent;
                    }
                }
                return;
            }
            sent -= len;
            self.chunks.pop_front();
            self.warm = 0;
        }
    }
}

fn send_region(stream: &TcpStream, region: &Region, len: usize) -> io::Result<usize> {
    let Some(file) = region.file.descriptor() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut position = region.position;
    stream.try_io(Interest::WRITABLE, || Ok(sendfile(stream, file, Some(&mut position), len)?))
}

/// Fills `len` bytes by a read; an error when the file is shorter.
fn filled(len: usize, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<Bytes> {
    let mut bytes = BytesMut::zeroed(len);
    if read(&mut bytes)? < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.freeze())
}
