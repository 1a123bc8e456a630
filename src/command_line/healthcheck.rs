//! `ottla healthcheck`: asks the broker of this machine whether it serves.
//!
//! For containers and supervisors: needs neither a shell nor another program, and
//! sees what a client sees. The broker is well when it answers on its first
//! client listener and stands in the cluster that it describes.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{CommandError, Settings};
use crate::config::listeners::parse_address;
use crate::config::{Config, Node};
use crate::protocol::apis::Api;
use crate::protocol::messages::api_versions_request::ApiVersionsRequest;
use crate::protocol::messages::api_versions_response::ApiVersionsResponse;
use crate::protocol::messages::metadata_request::MetadataRequest;
use crate::protocol::messages::metadata_response::MetadataResponse;
use crate::protocol::{DecodeError, EncodeError, Message, Reader, Writer};
use crate::sys::clock::within;

/// Versions that every broker since Kafka 2.8 serves.
const API_VERSIONS: i16 = 0;
const METADATA: i16 = 11;

/// Who asks, in the broker's log.
const CLIENT_ID: &[u8; 17] = b"ottla-healthcheck";
const CLIENT_ID_LENGTH: i16 = 17;

/// No answer to these two questions is longer.
const LONGEST_ANSWER: usize = 1 << 20;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Asks here instead of at the first listener of the settings.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    bootstrap_server: Option<Address>,
    /// Seconds until a broker that has not answered counts as not serving.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    timeout: u16,
    #[command(flatten)]
    settings: Settings,
}

/// A host, or an address without brackets, and a port.
type Address = (String, u16);

fn host_and_port(text: &str) -> Result<Address, String> {
    match parse_address(text) {
        Some((host, port)) if !host.is_empty() && port != 0 => Ok((host.to_owned(), port)),
        _ => Err("not of the form HOST:PORT".into()),
    }
}

/// 0 and a line to `out` when the broker serves; otherwise why it does not.
pub fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, CommandError> {
    let (address, node) = match arguments.bootstrap_server {
        Some(address) => (address, None),
        None => {
            let config: Config = arguments.settings.load()?;
            (first_listener(config.node())?, Some(config.node().id))
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let timeout = Duration::from_secs(arguments.timeout.into());
    let answer = runtime.block_on(within(timeout, ask(&address, node)));
    // A look-up of the host may still hang; it is not waited for.
    runtime.shutdown_background();
    let failure = match answer {
        Some(Ok(served)) => {
            writeln!(out, "{served}")?;
            return Ok(0);
        }
        Some(Err(failure)) => failure.to_string(),
        None => format!("no answer within {} s", arguments.timeout),
    };
    Err(CommandError::Refused(format!("not serving at {}:{}: {failure}", address.0, address.1)))
}

/// Where a client on this machine finds the first listener.
fn first_listener(node: &Node) -> Result<Address, CommandError> {
    let refused = |reason: &str| CommandError::Refused(reason.to_owned());
    let Some(listener) = node.listeners.first() else {
        return Err(refused("the settings have no listener for clients"));
    };
    if listener.port == 0 {
        return Err(refused("the system chose the port: say where with --bootstrap-server"));
    }
    let host = match listener.host.as_deref() {
        None | Some("0.0.0.0") => "127.0.0.1",
        Some("::") => "::1",
        Some(host) => host,
    };
    Ok((host.to_owned(), listener.port))
}

/// Why a broker that was reached is not well.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("a request that cannot be written: {0}")]
    Request(#[from] EncodeError),
    #[error("an answer that cannot be read: {0}")]
    Answer(#[from] DecodeError),
    #[error("an answer of {0} bytes, or to another request: no Kafka broker")]
    NotKafka(usize),
    #[error("ApiVersions is answered with error {0}")]
    Refused(i16),
    #[error("Metadata is not served in version {METADATA}")]
    NoMetadata,
    #[error("node {0} is not in the cluster (yet)")]
    Absent(i32),
    #[error("there is no broker in the cluster (yet)")]
    Empty,
}

/// What the broker says of itself, if it is well.
async fn ask(address: &Address, node: Option<i32>) -> Result<String, Failure> {
    let mut stream = TcpStream::connect((address.0.as_str(), address.1)).await?;
    let versions: ApiVersionsResponse =
        call(&mut stream, API_VERSIONS, &ApiVersionsRequest::default()).await?;
    if versions.error_code != 0 {
        return Err(Failure::Refused(versions.error_code));
    }
    let serves = versions.api_keys.iter().any(|api| {
        api.api_key == Api::Metadata.key()
            && (api.min_version..=api.max_version).contains(&METADATA)
    });
    if !serves {
        return Err(Failure::NoMetadata);
    }
    let no_topics = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    let metadata: MetadataResponse = call(&mut stream, METADATA, &no_topics).await?;
    let known = |id| metadata.brokers.iter().any(|broker| broker.node_id == id);
    match node {
        Some(id) if !known(id) => return Err(Failure::Absent(id)),
        None if metadata.brokers.is_empty() => return Err(Failure::Empty),
        _ => {}
    }
    let cluster = metadata.cluster_id.as_deref().unwrap_or("unknown");
    Ok(format!("serving at {}:{} in cluster {cluster}", address.0, address.1))
}

/// Sends a request and reads its answer.
async fn call<Q: Message, R: Message>(
    stream: &mut TcpStream,
    version: i16,
    request: &Q,
) -> Result<R, Failure> {
    let key = Q::KEY.unwrap_or_default();
    stream.write_all(&framed(key, version, request)?).await?;
    let mut size = [0; 4];
    stream.read_exact(&mut size).await?;
    let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > LONGEST_ANSWER {
        return Err(Failure::NotKafka(size));
    }
    let mut frame = vec![0; size];
    stream.read_exact(&mut frame).await?;
    let mut reader = Reader::new(Bytes::from(frame));
    if reader.i32()? != i32::from(key) {
        return Err(Failure::NotKafka(size));
    }
    // ApiVersions has no tags in its header, for clients that know nothing yet.
    if R::is_flexible(version) && key != Api::ApiVersions.key() {
        reader.tagged_fields(|_, _| Ok(()))?;
    }
    Ok(R::decode(&mut reader, version)?)
}

/// A request with its header; the API's number is the correlation id, too.
fn framed<Q: Message>(key: i16, version: i16, request: &Q) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::framed();
    writer.put(&key.to_be_bytes());
    writer.put(&version.to_be_bytes());
    writer.put(&i32::from(key).to_be_bytes());
    writer.put(&CLIENT_ID_LENGTH.to_be_bytes());
    writer.put(CLIENT_ID);
    if Q::is_flexible(version) {
        writer.put_u8(0);
    }
    request.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::super::{Action, run};
    use crate::testing::node::Node;

    /// Exit code, and what was written to either stream.
    fn check(arguments: &[&str]) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let all = ["ottla", "healthcheck"].iter().chain(arguments).map(Into::into);
        let Action::Exit(code) = run(all, &mut out, &mut err) else { panic!("a broker starts") };
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn silent_listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }

    fn listener_setting(listener: &TcpListener) -> String {
        let port = listener.local_addr().unwrap().port();
        format!("listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://:1")
    }

    #[test]
    fn a_broker_that_serves_is_well() {
        let node = Node::start(&[]);
        let address = node.address().to_string();
        let (code, out, err) = check(&["--bootstrap-server", &address]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.starts_with(&format!("serving at {address} in cluster ")), "{out}");

        let setting = format!("listeners=PLAINTEXT://:{},CONTROLLER://:1", node.address().port());
        let (code, out, _) = check(&["--override", &setting]);
        assert_eq!(code, 0);
        assert!(out.starts_with(&format!("serving at {address} in cluster ")), "{out}");
        let (code, _, err) = check(&["--override", &setting, "--override", "node.id=7"]);
        assert_eq!(code, 1);
        assert_eq!(err, format!("not serving at {address}: node 7 is not in the cluster (yet)\n"));
    }

    #[test]
    fn nobody_there_and_nobody_answering_are_told_apart() {
        let listener = silent_listener();
        let setting = listener_setting(&listener);
        let (code, _, err) = check(&["--timeout", "0", "--override", &setting]);
        assert_eq!(code, 1);
        assert!(err.ends_with(": no answer within 0 s\n"), "{err}");
        drop(listener);
        let (code, out, err) = check(&["--override", &setting]);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains("refused"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }

    #[test]
    fn another_protocol_is_not_taken_for_a_broker() {
        let listener = silent_listener();
        let setting = listener_setting(&listener);
        let web_server = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 4]).unwrap();
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            });
            check(&["--override", &setting])
        });
        assert_eq!(web_server.0, 1);
        assert!(web_server.2.contains("no Kafka broker"), "{}", web_server.2);
    }

    #[test]
    fn settings_that_do_not_say_where_are_refused() {
        let (code, _, err) = check(&["--override", "listeners=PLAINTEXT://:0,CONTROLLER://:0"]);
        assert_eq!(code, 1);
        assert!(err.contains("--bootstrap-server"), "{err}");
        let (code, _, err) = check(&["--override", "listeners=PLAINTEXT://:x"]);
        assert_eq!(code, 1);
        assert!(err.contains("listeners"), "{err}");
        for wrong in [&["--bootstrap-server", "localhost"][..], &["--timeout", "soon"]] {
            assert_eq!(check(wrong).0, 2, "{wrong:?}");
        }
    }
}
