//! A client for tests: one connection, one request after another, in any version.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;

use crate::protocol::apis::Api;
use crate::protocol::{Message, Reader, Writer};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a broker.
pub struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, correlation_id: 0 }
    }

    /// Sends a request and reads its answer.
    pub fn call<Q: Message, R: Message>(&mut self, version: i16, request: &Q) -> R {
        self.send(version, request);
        self.receive(version).unwrap()
    }

    /// Sends a request only.
    pub fn send<Q: Message>(&mut self, version: i16, request: &Q) {
        self.correlation_id += 1;
        let mut writer = Writer::framed();
        writer.put(&Q::KEY.unwrap().to_be_bytes());
        writer.put(&version.to_be_bytes());
        writer.put(&self.correlation_id.to_be_bytes());
        writer.put(&[0, 4]);
        writer.put(b"test");
        if Q::is_flexible(version) {
            writer.put_u8(0);
        }
        request.encode(&mut writer, version).unwrap();
        self.send_bytes(&writer.into_bytes());
    }

    /// The number of the last request.
    #[allow(dead_code, reason = "only some of those who take this file in send ahead")]
    pub fn last_correlation(&self) -> i32 {
        self.correlation_id
    }

    /// Says which answer is the next, when bytes were sent by hand.
    pub fn expect_correlation(&mut self, id: i32) {
        self.correlation_id = id;
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads the answer to the last request; fails when the connection is closed.
    pub fn receive<R: Message>(&mut self, version: i16) -> io::Result<R> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame)?;
        let mut reader = Reader::new(Bytes::from(frame));
        assert_eq!(reader.i32().unwrap(), self.correlation_id);
        let api = Api::from_key(R::KEY.unwrap()).unwrap();
        if R::is_flexible(version) && api != Api::ApiVersions {
            reader.tagged_fields(|_, _| Ok(())).unwrap();
        }
        let response = R::decode(&mut reader, version).unwrap();
        assert_eq!(reader.remaining(), 0, "bytes after the answer to {api} {version}");
        Ok(response)
    }

    /// True when something of an answer, or the end of the connection, is there to be
    /// read within that time.
    #[allow(dead_code, reason = "only some of those who take this file in wait")]
    pub fn is_ready(&mut self, within: Duration) -> bool {
        self.stream.set_read_timeout(Some(within)).unwrap();
        let is_ready = !matches!(
            self.stream.peek(&mut [0; 1]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        );
        self.stream.set_read_timeout(None).unwrap();
        is_ready
    }

    /// True when the broker closes the connection without another byte.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}
