//! One connection that never blocks, and requests as bytes.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use bytes::{Bytes, BytesMut};
use ottla_protocol::{Message, Reader, Writer};

/// Where the correlation id stands in a framed request.
const CORRELATION: usize = 8;

/// A request with its size in front, of correlation id 0.
pub fn framed<Q: Message>(version: i16, request: &Q) -> Result<Vec<u8>, String> {
    let mut writer = Writer::framed();
    writer.put(&Q::KEY.unwrap_or(-1).to_be_bytes());
    writer.put(&version.to_be_bytes());
    writer.put(&0_i32.to_be_bytes());
    writer.put(b"\0\x09generator");
    if Q::is_flexible(version) {
        writer.put_u8(0);
    }
    request.encode(&mut writer, version).map_err(|error| error.to_string())?;
    Ok(writer.into_bytes().to_vec())
}

/// The body of an answer (without its size).
pub fn body<R: Message>(version: i16, frame: Bytes) -> Result<R, String> {
    let mut reader = Reader::new(frame);
    let failed = |error: ottla_protocol::DecodeError| error.to_string();
    reader.i32().map_err(failed)?;
    if R::is_flexible(version) && R::KEY != Some(18) {
        reader.tagged_fields(|_, _| Ok(())).map_err(failed)?;
    }
    R::decode(&mut reader, version).map_err(failed)
}

/// Bytes that are received at once, so that who reads much on one connection still
/// looks at the others in time.
const STRIDE: usize = 128 << 10;

/// A connection: what goes out, what has come in, what is under way.
pub struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    buffer: BytesMut,
    stride: Vec<u8>,
    sequence: i32,
    /// When the requests under way were due, in nanoseconds, the oldest first.
    pub under_way: VecDeque<u64>,
}

impl Connection {
    /// Connects.
    pub fn open(broker: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(broker).map_err(|error| format!("{broker}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(Self {
            stream,
            out: Vec::new(),
            sent: 0,
            buffer: BytesMut::new(),
            stride: vec![0; STRIDE],
            sequence: 0,
            under_way: VecDeque::new(),
        })
    }

    /// Queues a framed request that was due at `due`.
    pub fn push(&mut self, request: &[u8], due: u64) {
        let at = self.out.len();
        self.out.extend_from_slice(request);
        self.sequence = self.sequence.wrapping_add(1);
        self.out[at + CORRELATION..at + CORRELATION + 4]
            .copy_from_slice(&self.sequence.to_be_bytes());
        self.under_way.push_back(due);
    }

    /// Sends what the socket takes.
    pub fn send(&mut self) -> Result<(), String> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(format!("sending: {error}")),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// The next whole answer if there is one, and when its request was due.
    pub fn receive(&mut self) -> Result<Option<(Bytes, u64)>, String> {
        if let Some(answer) = self.take() {
            return Ok(Some(answer));
        }
        if self.under_way.is_empty() {
            return Ok(None);
        }
        let needed = match self.buffer.get(0..4).and_then(|size| size.try_into().ok()) {
            Some(size) => u32::from_be_bytes(size) as usize + 4,
            None => 4,
        };
        // Room for the whole answer at once, and for the beginning of the next.
        self.buffer.reserve((needed + STRIDE).saturating_sub(self.buffer.len()));
        let read = self.stream.read(&mut self.stride);
        self.buffer.extend_from_slice(&self.stride[..*read.as_ref().unwrap_or(&0)]);
        match read {
            Ok(0) => Err("the broker closed a connection".to_owned()),
            Ok(_) => Ok(self.take()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(format!("receiving: {error}")),
        }
    }

    fn take(&mut self) -> Option<(Bytes, u64)> {
        let size = u32::from_be_bytes(self.buffer.get(0..4)?.try_into().ok()?) as usize;
        if self.buffer.len() < size + 4 {
            return None;
        }
        let mut frame = self.buffer.split_to(size + 4);
        let due = self.under_way.pop_front().unwrap_or(0);
        Some((frame.split_off(4).freeze(), due))
    }

    /// Sends one request and waits for its answer.
    pub fn call<Q: Message, R: Message>(&mut self, version: i16, request: &Q) -> Result<R, String> {
        self.push(&framed(version, request)?, 0);
        loop {
            self.send()?;
            if let Some((frame, _)) = self.receive()? {
                return body(version, frame);
            }
            std::thread::yield_now();
        }
    }
}
