//! A listening socket and the connections that came in through it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tracing::{debug, error, info, warn};

use super::admission::{Admission, Admissions, Slot};
use super::budget::Budget;
use super::connection::{Connection, ConnectionSettings};
use super::{ConnectionInfo, Dispatcher, ListenerInfo, stopped};
use crate::sys::clock::within;

/// Pauses between attempts to accept while descriptors or memory are used up.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How listening sockets and their connections are set up.
#[derive(Clone, Debug, Default)]
pub struct SocketSettings {
    /// `socket.listen.backlog.size`
    pub backlog: i32,
    /// `socket.send.buffer.bytes`; `None` leaves it to the kernel.
    pub send_buffer: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the kernel.
    pub receive_buffer: Option<usize>,
}

/// A listener's address could not be had.
#[derive(Debug, Error)]
#[error("Listener {name} failed to bind to {host}:{port}: {reason}")]
pub struct BindError {
    name: String,
    host: String,
    port: u16,
    reason: io::Error,
}

/// What the connections of all listeners share.
pub struct Shared {
    /// Answers frames.
    pub dispatcher: Arc<Dispatcher>,
    /// Limits of each connection.
    pub settings: Arc<ConnectionSettings>,
    /// Counts connections.
    pub admissions: Arc<Admissions>,
    /// Memory for large frames.
    pub budget: Arc<Budget>,
    /// Runtimes that connections are spread over; each stays where it is put.
    pub runtimes: Vec<Handle>,
    /// Numbers connections.
    pub next_id: AtomicU64,
}

/// A socket that listens. Clients can connect from now on, and wait in the
/// backlog until [`Listener::serve`].
#[derive(Debug)]
pub struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
    info: Arc<ListenerInfo>,
    settings: SocketSettings,
}

impl Listener {
    /// Binds to `host:port`. An empty host means every address, IPv4 and IPv6;
    /// port 0 lets the system choose.
    pub fn bind(
        info: ListenerInfo,
        host: &str,
        port: u16,
        settings: SocketSettings,
    ) -> Result<Self, BindError> {
        let failed = |reason| {
            let (name, host) = (info.name.clone(), host.to_owned());
            BindError { name, host, port, reason }
        };
        let socket = bind_first(host, port, &settings).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address, info: Arc::new(info), settings })
    }

    /// The address as bound: with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The listener's name and role.
    pub fn info(&self) -> &ListenerInfo {
        &self.info
    }

    /// Accepts connections until stopped.
    pub fn serve(self, shared: Arc<Shared>) -> io::Result<Serving> {
        let (stop, stopping) = watch::channel(false);
        let runtime = shared.runtimes.first().cloned().unwrap_or_else(Handle::current);
        let _inside = runtime.enter();
        let socket = TcpListener::from_std(self.socket)?;
        let accepting = Accepting {
            socket,
            info: self.info,
            settings: self.settings,
            shared,
            stopping,
            connections: JoinSet::new(),
            accepted: None,
            pause: FIRST_PAUSE,
        };
        let task = runtime.spawn(accepting.run());
        Ok(Serving { stop, task, address: self.address })
    }
}

/// A listener at work.
#[derive(Debug)]
pub struct Serving {
    stop: watch::Sender<bool>,
    task: JoinHandle<JoinSet<()>>,
    address: SocketAddr,
}

impl Serving {
    /// The address as bound.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, closes idle connections, and gives requests at work
    /// `grace` to be answered.
    pub async fn stop(self, grace: Duration) {
        let _ = self.stop.send(true);
        let Ok(mut connections) = self.task.await else { return };
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if within(grace, all_ended).await.is_none() {
            connections.shutdown().await;
        }
    }
}

struct Accepting {
    socket: TcpListener,
    info: Arc<ListenerInfo>,
    settings: SocketSettings,
    shared: Arc<Shared>,
    stopping: watch::Receiver<bool>,
    connections: JoinSet<()>,
    /// One that waits for room in the broker; those after it stay in the backlog.
    accepted: Option<(TcpStream, SocketAddr)>,
    pause: Duration,
}

/// What the accepting loop has waited for.
enum Next {
    Accepted(io::Result<(TcpStream, SocketAddr)>),
    Room(Slot),
}

impl Accepting {
    async fn run(mut self) -> JoinSet<()> {
        loop {
            let next = async {
                match self.accepted {
                    None => Next::Accepted(self.socket.accept().await),
                    Some(_) => Next::Room(self.shared.admissions.slot(&self.info.name).await),
                }
            };
            tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => return self.connections,
                Some(ended) = self.connections.join_next() => log_panic(&self.info, ended),
                next = next => match next {
                    Next::Accepted(Ok(connection)) => self.accepted = Some(connection),
                    Next::Accepted(Err(error)) => self.accept_failed(&error).await,
                    Next::Room(slot) => {
                        if let Some((stream, peer)) = self.accepted.take() {
                            self.admit(stream, peer, slot);
                        }
                    }
                },
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, slot: Slot) {
        self.pause = FIRST_PAUSE;
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let Some(admission) = self.shared.admissions.admit(peer.ip(), slot) else {
            let limit = self.shared.admissions.limit_for(peer.ip());
            info!("Rejected connection from {peer}: its address already has {limit} connections");
            return;
        };
        if let Err(error) = self.begin(stream, peer, admission) {
            debug!("Connection from {peer} was lost at its start: {error}");
        }
    }

    fn begin(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        admission: Admission,
    ) -> io::Result<()> {
        self.configure(&stream)?;
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let listener = self.info.clone();
        let info = ConnectionInfo { listener, peer, software: OnceLock::new() };
        // Taken off this runtime's poller; the runtime that serves it has its own.
        let stream = stream.into_std()?;
        let shared = self.shared.clone();
        let stopping = self.stopping.clone();
        let serve = async move {
            let _admission = admission;
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let (info, settings) = (Arc::new(info), shared.settings.clone());
            let (dispatcher, budget) = (shared.dispatcher.clone(), shared.budget.clone());
            Connection::new(stream, info, settings, dispatcher, budget, stopping).run().await;
        };
        let runtimes = &self.shared.runtimes;
        match usize::try_from(id).ok().and_then(|id| runtimes.get(id % runtimes.len().max(1))) {
            Some(runtime) => self.connections.spawn_on(serve, runtime),
            None => self.connections.spawn(serve),
        };
        Ok(())
    }

    fn configure(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(stream);
        socket.set_keepalive(true)?;
        if let Some(bytes) = self.settings.send_buffer {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }

    /// A connection that failed before it began is nothing; when the process is
    /// out of descriptors, those who wait in the backlog must go on waiting.
    async fn accept_failed(&mut self, error: &io::Error) {
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if !exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
            debug!("A connection to listener {} was lost: {error}", self.info.name);
            return;
        }
        if self.pause == FIRST_PAUSE {
            error!("Listener {} cannot accept: {error}; it will try again", self.info.name);
        }
        within(self.pause, stopped(&mut self.stopping)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

fn log_panic(info: &ListenerInfo, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        warn!("A request on listener {} panicked; its connection was closed", info.name);
    }
}

/// Binds to the first of the host's addresses that can be had.
fn bind_first(
    host: &str,
    port: u16,
    settings: &SocketSettings,
) -> io::Result<std::net::TcpListener> {
    let addresses: Vec<SocketAddr> = if host.is_empty() {
        vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
    } else {
        (host.trim_matches(['[', ']']), port).to_socket_addrs()?.collect()
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match bind_one(address, settings) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn bind_one(address: SocketAddr, settings: &SocketSettings) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // "Every address" includes IPv4.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    if let Some(bytes) = settings.receive_buffer {
        // Before listening, so that accepted sockets have it during the handshake.
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(settings.backlog.max(1))?;
    Ok(socket.into())
}
