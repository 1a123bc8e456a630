//! One connection: read a frame, have it answered, send the answer, and again.
//!
//! ```text
//!   idle ──bytes──▶ reading ──whole frame──▶ answering ──▶ (next frame in the buffer)
//!    ▲ no buffer      │ room grows with         │ inline; a waiting request keeps
//!    │                │ what arrives            │ the connection from the next one
//!    └────────────── flush ◀────────────────────┘
//! ```
//!
//! Answers to requests that arrived together leave together. The connection ends
//! with a bad frame, a refused request, the peer's end, too long a silence, too
//! slow a frame while memory is short, or the broker's stop.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::budget::{Budget, Lease};
use super::frame::{FREE_ROOM, FrameError, Front, SIZE_BYTES, room_for, take_front};
use super::outgoing::Outgoing;
use super::{ConnectionInfo, Dispatcher, PendingReply, Reply, stopped};
use crate::sys::clock::{sleep, within};

/// Room for the first bytes after an idle time.
const READ_ROOM: usize = 16 * 1024;

/// Answers beyond this are sent before the next request is begun.
const COALESCED: usize = 64 * 1024;

/// Bytes of requests and answers after which other connections have their turn.
const STINT: usize = 64 * 1024;

/// While memory is short, a large frame must bring [`PACE`] bytes per window.
const WINDOW: Duration = Duration::from_secs(10);

/// See [`WINDOW`].
const PACE: usize = 1024 * 1024;

/// What all connections are run by.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// `socket.request.max.bytes`
    pub max_frame: usize,
    /// `connections.max.idle.ms`
    pub max_idle: Duration,
}

/// Why a connection ended.
#[derive(Debug, Error)]
enum End {
    #[error("the peer closed it")]
    PeerClosed,
    #[error("idle for {0:?}")]
    Idle(Duration),
    #[error("the broker stops")]
    Stopping,
    #[error("a request was refused")]
    Refused,
    #[error("a large frame came too slowly while memory for frames was short")]
    TooSlow,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One connection and what it has read but not answered, answered but not sent.
pub struct Connection {
    stream: TcpStream,
    info: Arc<ConnectionInfo>,
    settings: Arc<ConnectionSettings>,
    dispatcher: Arc<Dispatcher>,
    stopping: watch::Receiver<bool>,
    budget: Arc<Budget>,
    lease: Lease,
    buffer: BytesMut,
    /// Size of frames that came whole lately, or a little more; see [`room_for`].
    proven: usize,
    /// Bytes of requests and large answers since others had their turn.
    stint: usize,
    outgoing: Outgoing,
}

impl Connection {
    /// A connection from which nothing has been read yet.
    pub fn new(
        stream: TcpStream,
        info: Arc<ConnectionInfo>,
        settings: Arc<ConnectionSettings>,
        dispatcher: Arc<Dispatcher>,
        budget: Arc<Budget>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            stream,
            info,
            settings,
            dispatcher,
            stopping,
            lease: budget.lease(),
            budget,
            buffer: BytesMut::new(),
            proven: 0,
            stint: 0,
            outgoing: Outgoing::default(),
        }
    }

    /// Serves until the connection ends, and logs why it did.
    pub async fn run(mut self) {
        let Err(end) = self.serve().await;
        match end {
            End::Frame(_) => warn!("Closing connection from {}: {end}", self.info),
            End::TooSlow => warn!("Closing connection from {}: {end}", self.info),
            _ => debug!("Connection from {} ended: {end}", self.info),
        }
    }

    async fn serve(&mut self) -> Result<Infallible, End> {
        loop {
            match take_front(&mut self.buffer, self.settings.max_frame) {
                Ok(Front::Frame(frame)) => self.answer(frame).await?,
                Ok(Front::Partial(needed)) => {
                    self.flush().await?;
                    if needed > FREE_ROOM {
                        let frame = self.read_large(needed).await?;
                        self.answer(frame).await?;
                        // That was much for one turn.
                        tokio::task::yield_now().await;
                    } else {
                        self.read(needed).await?;
                    }
                }
                Err(error) => {
                    self.flush().await?;
                    return Err(error.into());
                }
            }
        }
    }

    async fn answer(&mut self, frame: Bytes) -> Result<(), End> {
        if *self.stopping.borrow() {
            self.flush().await?;
            return Err(End::Stopping);
        }
        // Others of about the same size are to be expected.
        let whole = SIZE_BYTES + frame.len();
        self.proven = whole.next_power_of_two().max(self.proven / 2);
        self.stint += frame.len();
        let reply = self.dispatch(frame).await?;
        self.lease.release();
        match reply {
            Reply::Answer(chunks) => self.outgoing.push(chunks),
            Reply::Silence => {}
            Reply::Close => {
                self.flush().await?;
                return Err(End::Refused);
            }
        }
        if self.outgoing.len() >= COALESCED {
            self.stint += self.outgoing.len();
            self.flush().await?;
        }
        // A client that keeps the buffer full shall not keep the thread; any other
        // leaves it to wait for its next request.
        if self.buffer.is_empty() {
            self.stint = 0;
        } else if self.stint >= STINT {
            self.stint = 0;
            tokio::task::yield_now().await;
        } else {
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    async fn dispatch(&mut self, frame: Bytes) -> Result<Reply, End> {
        let mut pending = (self.dispatcher)(self.info.clone(), frame);
        match poll_fn(|cx| Poll::Ready(pending.as_mut().poll(cx))).await {
            Poll::Ready(reply) => Ok(reply),
            Poll::Pending => {
                self.flush().await?;
                self.wait_for(pending).await
            }
        }
    }

    /// Waits for a request that could not be answered at once, or for the end of
    /// the client who asked.
    async fn wait_for(&mut self, mut pending: PendingReply) -> Result<Reply, End> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        tokio::select! {
            biased;
            reply = &mut pending => Ok(reply),
            end = hang_up(&mut self.stream, &mut self.buffer, self.settings.max_idle) => Err(end),
        }
    }

    async fn flush(&mut self) -> Result<(), End> {
        self.outgoing.flush(&self.stream, self.settings.max_idle).await.map_err(|error| match error
            .kind()
        {
            io::ErrorKind::TimedOut => End::Idle(self.settings.max_idle),
            _ => End::Io(error),
        })
    }

    /// Reads until the buffer may hold the frame that will fill `needed` bytes.
    async fn read(&mut self, needed: usize) -> Result<(), End> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        let idle = self.settings.max_idle;
        tokio::select! {
            biased;
            ready = within(idle, self.stream.readable()) => ready.ok_or(End::Idle(idle))??,
            () = stopped(&mut self.stopping) => return Err(End::Stopping),
        }
        let room = needed.max(READ_ROOM);
        read_ready(&mut self.stream, &mut self.buffer, room).await
    }

    /// Reads the rest of a large frame, which fills `needed` bytes with its size,
    /// within the shared budget.
    async fn read_large(&mut self, needed: usize) -> Result<Bytes, End> {
        let mut end = room_for(needed, self.buffer.len(), self.proven);
        self.pay(end).await?;
        let mut room = self.lease.room(needed, end == needed)?;
        room.rest(self.buffer.len()).copy_from_slice(&self.buffer);
        room.advance(self.buffer.len());
        self.buffer = BytesMut::new();
        let mut window = pin!(sleep(WINDOW));
        let mut window_began_at = room.len();
        let mut silent = Duration::ZERO;
        while room.len() < needed {
            if room.len() == end {
                end = room_for(needed, end, self.proven);
                if self.pay(end).await? {
                    // The time that we made it wait for is not held against it.
                    window_began_at = room.len();
                    window.set(sleep(WINDOW));
                }
            }
            tokio::select! {
                biased;
                ready = self.stream.readable() => {
                    ready?;
                    match self.stream.try_read(room.rest(end)) {
                        Ok(0) => return Err(End::PeerClosed),
                        Ok(bytes) => room.advance(bytes),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                () = &mut window => {
                    let arrived = room.len() - window_began_at;
                    if arrived < PACE && self.budget.is_short() {
                        return Err(End::TooSlow);
                    }
                    silent = if arrived == 0 { silent + WINDOW } else { Duration::ZERO };
                    if silent >= self.settings.max_idle {
                        return Err(End::Idle(silent));
                    }
                    window_began_at = room.len();
                    window.set(sleep(WINDOW));
                }
                () = stopped(&mut self.stopping) => return Err(End::Stopping),
            }
        }
        Ok(room.freeze().slice(SIZE_BYTES..))
    }

    /// Has the lease grow to what so many bytes of a frame take; true when that took
    /// a wait.
    async fn pay(&mut self, bytes: usize) -> Result<bool, End> {
        let charge = bytes.saturating_sub(FREE_ROOM);
        if self.lease.holds(charge) {
            return Ok(false);
        }
        tokio::select! {
            biased;
            waited = self.lease.grow_to(charge) => Ok(waited),
            () = stopped(&mut self.stopping) => Err(End::Stopping),
        }
    }
}

/// Reads what is there, after the socket was found readable, into a buffer that
/// has room for `room` bytes in all.
async fn read_ready(stream: &mut TcpStream, buffer: &mut BytesMut, room: usize) -> Result<(), End> {
    if buffer.capacity() - buffer.len() < READ_ROOM.min(room.saturating_sub(buffer.len())).max(1) {
        buffer.reserve(room.saturating_sub(buffer.len()).max(1));
    }
    let mut read = pin!(stream.read_buf(buffer));
    // Polled once: "readable" may have been a false alarm.
    match poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
        Poll::Ready(Ok(0)) => Err(End::PeerClosed),
        Poll::Ready(Ok(_)) | Poll::Pending => Ok(()),
        Poll::Ready(Err(error)) => Err(error.into()),
    }
}

/// Ends when the peer does. What it sends meanwhile is kept, up to the room that
/// every connection has; beyond that the peer's end goes unseen, and it is taken to be
/// gone after `max_idle`.
async fn hang_up(stream: &mut TcpStream, buffer: &mut BytesMut, max_idle: Duration) -> End {
    while buffer.len() < FREE_ROOM {
        // Else a task whose turn is over would find the socket readable again and again
        // without being let read.
        tokio::task::consume_budget().await;
        if let Err(error) = stream.readable().await {
            return error.into();
        }
        let room = buffer.len() + READ_ROOM;
        if let Err(end) = read_ready(stream, buffer, room).await {
            return end;
        }
    }
    sleep(max_idle).await;
    End::Idle(max_idle)
}
