//! Connections over real sockets, answered by a dispatcher that repeats frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::*;
use crate::protocol::{Region, RegionFile};
use crate::sys::cold;
use crate::sys::disk::{Disk, DiskFile, Open};
use crate::sys::memory_disk::MemoryDisk;
use crate::sys::real_disk::RealDisk;
use crate::sys::thread::{self, Priority};

/// Sixty-four megabytes are enough for one promised frame of ninety.
const BUDGET: usize = 64 << 20;
const MAX_FRAME: usize = 100 << 20;
const IDLE: Duration = Duration::from_secs(600);

/// A listener whose dispatcher does what the first byte of a frame says.
struct Server {
    address: SocketAddr,
    serving: Serving,
    budget: Arc<Budget>,
    begun: Arc<AtomicUsize>,
    dropped: Arc<Semaphore>,
    gate: Arc<Semaphore>,
    files: Arc<Files>,
}

fn start() -> Server {
    start_with("127.0.0.1", ConnectionLimits::default())
}

fn start_with(host: &str, limits: ConnectionLimits) -> Server {
    let begun = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let dropped = Arc::new(Semaphore::new(0));
    let files = Files::new();
    let budget = Budget::new(BUDGET, 1000);
    let shared = Shared {
        dispatcher: dispatcher(begun.clone(), gate.clone(), dropped.clone(), files.clone()),
        settings: Arc::new(ConnectionSettings { max_frame: MAX_FRAME, max_idle: IDLE }),
        admissions: Admissions::new(limits),
        budget: budget.clone(),
        runtimes: vec![Handle::current()],
        next_id: 0.into(),
    };
    let info = ListenerInfo { name: "PLAINTEXT".to_owned(), kind: ListenerKind::Broker };
    let settings = SocketSettings { backlog: 500, ..Default::default() };
    let listener = Listener::bind(info, host, 0, settings).unwrap();
    let address = listener.local_address();
    let serving = listener.serve(Arc::new(shared)).unwrap();
    Server { address, serving, budget, begun, dropped, gate, files }
}

struct NotesItsDrop(Arc<Semaphore>);

impl Drop for NotesItsDrop {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

fn dispatcher(
    begun: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    dropped: Arc<Semaphore>,
    files: Arc<Files>,
) -> Arc<Dispatcher> {
    Arc::new(move |_, frame| {
        begun.fetch_add(1, Ordering::SeqCst);
        let (gate, files) = (gate.clone(), files.clone());
        let note = NotesItsDrop(dropped.clone());
        Box::pin(async move {
            match frame.first() {
                Some(b'W') => {
                    let _note = note;
                    gate.acquire().await.unwrap().forget();
                    answer(&frame)
                }
                Some(b'S') => Reply::Silence,
                Some(b'C') => Reply::Close,
                Some(b'P') => panic!("as the test wants it"),
                Some(b'M') => answer(&[0; 1 << 20]),
                Some(b'F') => Reply::Answer(files.answer(frame)),
                _ => answer(&frame),
            }
        })
    })
}

fn answer(body: &[u8]) -> Reply {
    Reply::Answer(vec![Chunk::Bytes(framed(body).into())])
}

#[derive(Debug)]
struct Stored(Arc<dyn DiskFile>);

impl RegionFile for Stored {
    fn read_at(&self, into: &mut [u8], position: u64) -> std::io::Result<usize> {
        self.0.read_at(into, position)
    }
    fn try_read_at(&self, into: &mut [u8], position: u64) -> std::io::Result<usize> {
        self.0.try_read_at(into, position)
    }
    fn is_in_memory(&self, position: u64, len: usize) -> bool {
        cold::is_in_memory(&*self.0, position, len)
    }
    fn bring_in(&self, position: u64, len: usize) -> std::io::Result<()> {
        cold::bring_in(&*self.0, position, len)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

/// Byte `i` of the test's files.
fn pattern(i: usize) -> u8 {
    (i % 251) as u8
}

const FILE: usize = 300_000;

/// The test's file, on a real disk and on one in memory.
struct Files {
    disk: MemoryDisk,
    real: Arc<dyn RegionFile>,
    memory: Arc<dyn RegionFile>,
    _directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Arc<Self> {
        let contents: Vec<u8> = (0..FILE).map(pattern).collect();
        let stored = |disk: &dyn Disk, path: &Path| {
            let file = disk.open(path, Open::CreateNew).unwrap();
            file.write_at(&contents, 0).unwrap();
            Arc::new(Stored(file))
        };
        let directory = tempfile::tempdir().unwrap();
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        Arc::new(Self {
            real: stored(&RealDisk, &directory.path().join("f")),
            memory: stored(&disk, Path::new("/d/f")),
            disk,
            _directory: directory,
        })
    }

    /// Ranges of both files, large and small, between bytes.
    fn answer(&self, frame: Bytes) -> Vec<Chunk> {
        let region = |file: &Arc<dyn RegionFile>, position, len| {
            Chunk::Region(Region { file: file.clone(), position, len })
        };
        let len = frame.len() + (FILE - 1) + (FILE - 7) + 50 + 70 + 3;
        vec![
            Chunk::Bytes(u32::try_from(len).unwrap().to_be_bytes().to_vec().into()),
            Chunk::Bytes(frame),
            region(&self.memory, 200, 70),
            region(&self.real, 1, FILE - 1),
            Chunk::Bytes(Bytes::new()),
            region(&self.memory, 7, FILE - 7),
            region(&self.real, 100, 50),
            Chunk::Bytes(Bytes::from_static(b"end")),
        ]
    }

    fn expected(frame: &[u8]) -> Vec<u8> {
        let ranges = (200..270).chain(1..FILE).chain(7..FILE).chain(100..150);
        let mut expected = frame.to_vec();
        expected.extend(ranges.map(pattern));
        expected.extend_from_slice(b"end");
        expected
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

async fn send(stream: &mut TcpStream, body: &[u8]) {
    stream.write_all(&framed(body)).await.unwrap();
}

async fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let len = stream.read_u32().await.unwrap();
    let mut body = vec![0; len as usize];
    stream.read_exact(&mut body).await.unwrap();
    body
}

async fn is_answered(stream: &mut TcpStream, body: &[u8]) {
    send(stream, body).await;
    assert_eq!(receive(stream).await, body);
}

/// Nothing more comes, and the connection is over.
async fn is_closed(mut stream: TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.map_or(true, |count| count == 0)
}

/// A file of zeros without a descriptor, that notes how much is read of it at a stretch.
#[derive(Debug, Default)]
struct Stretches {
    now: AtomicUsize,
    longest: AtomicUsize,
}

impl RegionFile for Stretches {
    fn read_at(&self, into: &mut [u8], _: u64) -> std::io::Result<usize> {
        let stretch = self.now.fetch_add(into.len(), Ordering::SeqCst) + into.len();
        self.longest.fetch_max(stretch, Ordering::SeqCst);
        Ok(into.len())
    }
    fn try_read_at(&self, into: &mut [u8], position: u64) -> std::io::Result<usize> {
        self.read_at(into, position)
    }
    fn is_in_memory(&self, _: u64, _: usize) -> bool {
        true
    }
    fn bring_in(&self, _: u64, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[tokio::test]
async fn others_have_their_turns_while_a_large_answer_goes_out() {
    const LEN: usize = 16 << 20;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let (done, taken) = std::sync::mpsc::channel();
    let take = move || done.send(std::io::copy(&mut peer, &mut std::io::sink()).unwrap()).unwrap();
    let reader = thread::spawn("peer", Priority::Normal, take).unwrap();
    let file = Arc::new(Stretches::default());
    let mut outgoing = outgoing::Outgoing::default();
    outgoing.push(vec![Chunk::Region(Region { file: file.clone(), position: 0, len: LEN })]);
    let others = async {
        loop {
            file.now.store(0, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        sent = outgoing.flush(&stream, IDLE) => sent.unwrap(),
        () = others => {}
    }
    drop(stream);
    reader.join().unwrap();
    assert_eq!(taken.recv().unwrap(), LEN as u64);
    let longest = file.longest.load(Ordering::SeqCst);
    assert!(longest <= outgoing::STRIDE + (64 << 10), "{longest}");
}

#[tokio::test]
async fn large_frames_of_a_connection_follow_each_other_in_one_room() {
    let server = start();
    let mut stream = connect(&server).await;
    for len in [300_000, 310_000, 290_000] {
        is_answered(&mut stream, &vec![7; len]).await;
        while server.budget.rooms_kept() == 0 {
            tokio::task::yield_now().await;
        }
    }
    // It is read when the answer before has been let go.
    is_answered(&mut stream, b"small one").await;
    assert_eq!(server.budget.rooms_kept(), 1);
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    let server = start();
    let mut stream = connect(&server).await;
    send(&mut stream, b"early: 1").await;
    send(&mut stream, b"Waiting: 2").await;
    send(&mut stream, b"Silent: 3").await;
    send(&mut stream, b"later: 4").await;
    assert_eq!(receive(&mut stream).await, b"early: 1");
    assert_eq!(server.begun.load(Ordering::SeqCst), 2, "the third waits for the second");
    server.gate.add_permits(1);
    assert_eq!(receive(&mut stream).await, b"Waiting: 2");
    assert_eq!(receive(&mut stream).await, b"later: 4");
}

#[tokio::test]
async fn frames_may_come_in_any_pieces() {
    let server = start();
    let mut stream = connect(&server).await;
    stream.set_nodelay(true).unwrap();
    for byte in framed(b"byte by byte") {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(receive(&mut stream).await, b"byte by byte");
    let many: Vec<u8> = (0..1000).flat_map(|i| framed(format!("many {i:04}").as_bytes())).collect();
    stream.write_all(&many).await.unwrap();
    for i in 0..1000 {
        assert_eq!(receive(&mut stream).await, format!("many {i:04}").as_bytes());
    }
    let large = vec![7; 3 << 20];
    send(&mut stream, &large).await;
    assert_eq!(receive(&mut stream).await, large);
    is_answered(&mut stream, b"and a small one").await;
    assert_eq!(server.budget.used(), 0);
}

#[tokio::test]
async fn a_bad_frame_ends_its_own_connection_only() {
    let server = start();
    let mut good = connect(&server).await;
    let bad: [&[u8]; 7] = [
        &0_i32.to_be_bytes(),
        &(-1_i32).to_be_bytes(),
        &i32::MAX.to_be_bytes(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc],
        &[0xff; 64],
        &framed(b"Close me"),
    ];
    for bytes in bad {
        let mut stream = connect(&server).await;
        stream.write_all(bytes).await.unwrap();
        assert!(is_closed(stream).await, "after {bytes:?}");
        is_answered(&mut good, b"still here").await;
    }
}

#[tokio::test]
async fn what_was_answered_before_a_bad_frame_is_still_sent() {
    let server = start();
    let mut stream = connect(&server).await;
    let bytes = [framed(b"good one"), framed(b""), framed(b"never read")].concat();
    stream.write_all(&bytes).await.unwrap();
    assert_eq!(receive(&mut stream).await, b"good one");
    assert!(is_closed(stream).await);
}

#[tokio::test]
async fn a_panic_ends_its_own_connection_only() {
    let server = start();
    let mut good = connect(&server).await;
    let mut stream = connect(&server).await;
    send(&mut stream, b"Panic, please").await;
    assert!(is_closed(stream).await);
    is_answered(&mut good, b"still here").await;
}

#[tokio::test]
async fn regions_are_sent_from_disk_and_from_memory() {
    let server = start();
    let mut stream = connect(&server).await;
    for _ in 0..2 {
        send(&mut stream, b"File answer").await;
        assert!(receive(&mut stream).await == Files::expected(b"File answer"));
    }
}

#[tokio::test]
async fn a_file_that_is_not_in_memory_keeps_nobody_else_waiting() {
    let server = start();
    let (mut cold, mut hot) = (connect(&server).await, connect(&server).await);
    server.files.disk.evict(Path::new("/d/f"));
    server.files.disk.stall();
    send(&mut cold, b"File answer").await;
    while server.files.disk.waits() == 0 {
        is_answered(&mut hot, b"before and").await;
    }
    is_answered(&mut hot, b"while the disk is waited for").await;
    server.files.disk.resume();
    assert!(receive(&mut cold).await == Files::expected(b"File answer"));
}

#[tokio::test]
async fn a_file_that_is_evicted_as_soon_as_it_is_read_is_sent_all_the_same() {
    let server = start();
    server.files.disk.evict(Path::new("/d/f"));
    server.files.disk.forget_at_once();
    let mut stream = connect(&server).await;
    send(&mut stream, b"File answer").await;
    assert!(receive(&mut stream).await == Files::expected(b"File answer"));
}

#[tokio::test]
async fn a_reader_that_does_not_drain_its_answers_is_not_read_from() {
    let server = start();
    let mut slow = connect(&server).await;
    let requests = framed(b"Megabyte");
    // A thousand answers of a megabyte fit in no socket buffer.
    let sent = crate::sys::clock::within(Duration::from_secs(5), async {
        for _ in 0..1000 {
            slow.write_all(&requests).await.unwrap();
        }
    });
    let _ = sent.await;
    let mut good = connect(&server).await;
    is_answered(&mut good, b"still here").await;
    assert!(server.begun.load(Ordering::SeqCst) < 100);
    drop(slow);
    is_answered(&mut good, b"still here").await;
}

#[tokio::test]
async fn promised_frames_that_do_not_come_cost_nothing() {
    let server = start();
    let mut promises = Vec::new();
    for _ in 0..300 {
        let mut stream = connect(&server).await;
        stream.write_all(&90_000_000_u32.to_be_bytes()).await.unwrap();
        stream.write_all(&[0; 1024]).await.unwrap();
        promises.push(stream);
    }
    let mut good = connect(&server).await;
    is_answered(&mut good, b"small and good").await;
    let large = vec![9; 8 << 20];
    is_answered(&mut good, &large).await;
    assert_eq!(server.budget.used(), 0);
}

#[tokio::test]
async fn half_sent_frames_that_use_up_the_memory_do_not_lock_out_a_good_client() {
    let server = start();
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&server).await;
        stream.write_all(&90_000_000_u32.to_be_bytes()).await.unwrap();
        // Ends when the broker has seen these bytes or refuses to read on.
        let half = crate::sys::clock::within(Duration::from_millis(50), async {
            stream.write_all(&vec![0; 5 << 20]).await
        });
        let _ = half.await;
        halves.push(stream);
    }
    assert!(server.budget.is_short());
    assert!(server.budget.used() <= BUDGET + MAX_FRAME);
    let mut good = connect(&server).await;
    is_answered(&mut good, b"small and good").await;
    tokio::time::pause();
    is_answered(&mut good, &vec![9; 8 << 20]).await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the runtime's clock is the one that is paused")]
async fn idle_connections_are_closed() {
    let server = start();
    let mut stream = connect(&server).await;
    is_answered(&mut stream, b"not idle").await;
    let mut half = connect(&server).await;
    half.write_all(&[0, 0, 0, 100, 1, 2]).await.unwrap();
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    assert!(is_closed(stream).await);
    assert!(is_closed(half).await);
    assert!(before.elapsed() >= IDLE);
}

#[tokio::test]
async fn a_waiting_request_is_not_idle_and_is_dropped_when_its_client_hangs_up() {
    let server = start();
    let mut stream = connect(&server).await;
    send(&mut stream, b"Wait for it").await;
    while server.begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    server.dropped.acquire().await.unwrap().forget();
}

#[tokio::test]
async fn an_address_has_its_limit() {
    let limits = ConnectionLimits { per_ip: 2, ..Default::default() };
    let server = start_with("127.0.0.1", limits);
    let (mut one, mut two) = (connect(&server).await, connect(&server).await);
    is_answered(&mut one, b"let me in").await;
    is_answered(&mut two, b"let me in").await;
    assert!(is_closed(connect(&server).await).await);
    drop(one);
    loop {
        let mut again = connect(&server).await;
        again.write_all(&framed(b"let me in")).await.unwrap();
        if again.read_u32().await.is_ok() {
            break;
        }
    }
    is_answered(&mut two, b"still here").await;
}

#[tokio::test]
async fn at_the_brokers_limit_clients_wait_in_the_backlog() {
    let limits = ConnectionLimits { total: 1, ..Default::default() };
    let server = start_with("127.0.0.1", limits);
    let mut one = connect(&server).await;
    is_answered(&mut one, b"let me in").await;
    let mut two = connect(&server).await;
    send(&mut two, b"me too...").await;
    is_answered(&mut one, b"still here").await;
    assert_eq!(server.begun.load(Ordering::SeqCst), 2);
    drop(one);
    assert_eq!(receive(&mut two).await, b"me too...");
}

#[tokio::test]
async fn thousands_of_connections_opened_and_dropped_leave_nothing() {
    let server = start();
    for i in 0..3000 {
        let mut stream = connect(&server).await;
        if i % 3 == 0 {
            stream.write_all(&[0, 1, 2]).await.unwrap();
        }
    }
    let mut good = connect(&server).await;
    is_answered(&mut good, b"still here").await;
    assert_eq!(server.budget.used(), 0);
}

#[tokio::test]
async fn stopping_answers_requests_at_work_and_closes_the_rest() {
    let server = start();
    let mut idle = connect(&server).await;
    is_answered(&mut idle, b"not idle").await;
    let mut working = connect(&server).await;
    send(&mut working, b"Wait for it").await;
    let mut endless = connect(&server).await;
    send(&mut endless, b"Wait for ever").await;
    while server.begun.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    let stop = tokio::spawn(server.serving.stop(Duration::from_millis(100)));
    assert!(is_closed(idle).await);
    server.gate.add_permits(1);
    assert_eq!(receive(&mut working).await, b"Wait for it");
    assert!(is_closed(working).await);
    assert!(is_closed(endless).await, "its time is up");
    stop.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn an_empty_host_listens_on_both_families() {
    let server = start_with("", ConnectionLimits::default());
    let port = server.address.port();
    let mut families: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into()];
    if server.address.is_ipv6() {
        families.push(Ipv6Addr::LOCALHOST.into());
    }
    for ip in families {
        let mut stream = TcpStream::connect((ip, port)).await.unwrap();
        is_answered(&mut stream, b"which family").await;
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported_with_its_listener() {
    let server = start();
    let info = ListenerInfo { name: "SECOND".to_owned(), kind: ListenerKind::Broker };
    let port = server.address.port();
    let error = Listener::bind(info, "127.0.0.1", port, SocketSettings::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("SECOND") && text.contains(&port.to_string()), "{text}");
}
