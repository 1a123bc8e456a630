//! Connections that do nothing.

use std::io::{Write as _, stdin, stdout};
use std::net::SocketAddr;

use clap::Args;
use ottla_protocol::messages::api_versions_request::ApiVersionsRequest;
use ottla_protocol::messages::api_versions_response::ApiVersionsResponse;
use serde_json::json;

use crate::Outcome;
use crate::connection::Connection;
use crate::load::Clock;

/// How many.
#[derive(Args, Debug)]
pub struct Options {
    /// Connections.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
}

/// Opens them, says so on a line of its own, and waits for the end of its input.
pub fn run(broker: SocketAddr, options: &Options) -> Outcome {
    let clock = Clock::start();
    let mut held = Vec::with_capacity(options.connections);
    for _ in 0..options.connections {
        let mut connection = Connection::open(broker)?;
        let _: ApiVersionsResponse = connection.call(2, &ApiVersionsRequest::default())?;
        held.push(connection);
    }
    let seconds = clock.now() as f64 / 1e9;
    println!("{}", json!({ "connections": held.len(), "seconds": seconds }));
    stdout().flush().map_err(|error| error.to_string())?;
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    drop(held);
    Ok(json!({ "connections": options.connections, "seconds": seconds }))
}
