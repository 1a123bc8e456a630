//! Addresses: listeners, their protocols, the voters of the quorum. `[P]`

use std::collections::BTreeMap;
use std::fmt;

/// How a listener is protected. The numbers are those of broker registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL within TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// The protocol of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => Self::Plaintext,
            "SSL" => Self::Ssl,
            "SASL_PLAINTEXT" => Self::SaslPlaintext,
            "SASL_SSL" => Self::SaslSsl,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// Its number in registrations.
    pub fn id(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }
}

/// An address to bind to or to tell clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name, in capitals.
    pub listener: String,
    /// Host name or address; none for every address of the machine.
    pub host: Option<String>,
    /// Port; 0 lets the system choose.
    pub port: u16,
    /// How it is protected.
    pub protocol: SecurityProtocol,
}

/// `LISTENER://host:port`.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("");
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{host}{close}:{}", self.listener, self.port)
    }
}

/// A voter of `controller.quorum.voters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Its node id.
    pub id: i32,
    /// Where it listens for controllers.
    pub host: String,
    /// The port there.
    pub port: u16,
}

/// Listener names and how each is protected.
pub type ProtocolMap = BTreeMap<String, SecurityProtocol>;

/// Reads `listener.security.protocol.map`.
pub fn parse_protocol_map(text: &str) -> Result<ProtocolMap, String> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (listener, protocol) = entry
                .rsplit_once(':')
                .ok_or_else(|| format!("{entry} is not of the form LISTENER:PROTOCOL"))?;
            let protocol = SecurityProtocol::from_name(protocol.trim())
                .ok_or_else(|| format!("Invalid security protocol `{}`", protocol.trim()))?;
            Ok((listener.trim().to_uppercase(), protocol))
        })
        .collect()
}

/// Reads `listeners` or `advertised.listeners`. Empty entries (a comma too much)
/// are passed over.
pub fn parse_endpoints(
    entries: &[String],
    protocols: &ProtocolMap,
) -> Result<Vec<Endpoint>, String> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        let endpoint = parse_endpoint(entry, protocols)?;
        if endpoints.iter().any(|other| other.listener == endpoint.listener) {
            return Err(format!(
                "Each listener must have a different name, listeners: {}",
                entries.join(",")
            ));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn parse_endpoint(entry: &str, protocols: &ProtocolMap) -> Result<Endpoint, String> {
    let unreadable = || format!("Unable to parse {entry} to a broker endpoint");
    let (name, address) = entry.split_once("://").ok_or_else(unreadable)?;
    let (host, port) = parse_address(address).ok_or_else(unreadable)?;
    let listener = name.to_uppercase();
    let protocol = *protocols
        .get(&listener)
        .ok_or_else(|| format!("No security protocol defined for listener {listener}"))?;
    Ok(Endpoint { listener, host: (!host.is_empty()).then(|| host.to_owned()), port, protocol })
}

/// `host:port`, `[v6]:port` or `v6:port`; the host may be empty.
pub fn parse_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-%._:".contains(c);
    if !host.chars().all(is_host) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((host, port.parse().ok()?))
}

/// Two listeners may share a port only as one IPv4 and one IPv6 address.
pub fn check_ports(endpoints: &[Endpoint]) -> Result<(), String> {
    for (index, one) in endpoints.iter().enumerate().filter(|(_, one)| one.port != 0) {
        let sharing =
            || endpoints.iter().enumerate().filter(|(i, e)| *i != index && e.port == one.port);
        if sharing().count() > 1 || sharing().any(|(_, other)| !are_both_families(one, other)) {
            return Err(format!(
                "Each listener must have a different port unless exactly one listener has an IPv4 \
                 address and the other IPv6 address, port: {}",
                one.port
            ));
        }
    }
    Ok(())
}

fn are_both_families(one: &Endpoint, other: &Endpoint) -> bool {
    let family = |endpoint: &Endpoint| {
        let address = endpoint.host.as_ref()?.parse::<core::net::IpAddr>().ok()?;
        Some(address.is_ipv4())
    };
    matches!((family(one), family(other)), (Some(a), Some(b)) if a != b)
}

/// Reads `controller.quorum.voters`: `id@host:port,…`.
pub fn parse_voters(entries: &[String]) -> Result<Vec<Voter>, String> {
    let mut voters: Vec<Voter> = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        let bad = || format!("{entry} is not of the form id@host:port");
        let (id, address) = entry.split_once('@').ok_or_else(bad)?;
        let id = id.parse().ok().filter(|id| *id >= 0).ok_or_else(bad)?;
        let (host, port) =
            parse_address(address).filter(|(host, _)| !host.is_empty()).ok_or_else(bad)?;
        if voters.iter().any(|voter| voter.id == id) {
            return Err(format!("voter {id} is listed twice"));
        }
        voters.push(Voter { id, host: host.to_owned(), port });
    }
    Ok(voters)
}

/// Reads `controller.quorum.bootstrap.servers`: `host:port,…`.
pub fn parse_servers(entries: &[String]) -> Result<Vec<(String, u16)>, String> {
    let servers = entries.iter().filter(|entry| !entry.is_empty());
    servers
        .map(|entry| {
            parse_address(entry)
                .filter(|(host, _)| !host.is_empty())
                .map(|(host, port)| (host.to_owned(), port))
                .ok_or_else(|| {
                    format!("Invalid url in controller.quorum.bootstrap.servers: {entry}")
                })
        })
        .collect()
}

/// Reads `max.connections.per.ip.overrides`: `host:count,…`.
pub fn parse_ip_overrides(text: &str) -> Result<Vec<(String, i32)>, String> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (host, count) =
                entry.rsplit_once(':').ok_or("entries are of the form host:count")?;
            let count = count.trim().parse().map_err(|_| format!("{count} is not a number"))?;
            Ok((host.trim().to_owned(), count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(text: &str) -> Result<Vec<Endpoint>, String> {
        let protocols =
            parse_protocol_map("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TC-0:PLAINTEXT,TLS:SSL")
                .unwrap();
        let entries: Vec<String> = text.split(',').map(str::to_owned).collect();
        let endpoints = parse_endpoints(&entries, &protocols)?;
        check_ports(&endpoints)?;
        Ok(endpoints)
    }

    #[test]
    fn hosts_ports_and_names() {
        let read = endpoints("plaintext://:9092,TLS://[::1]:9094,TC-0://kafka:19092,").unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].listener, "PLAINTEXT");
        assert_eq!(read[0].host, None);
        assert_eq!(read[1].host.as_deref(), Some("::1"));
        assert_eq!(read[1].protocol, SecurityProtocol::Ssl);
        assert_eq!(read[1].to_string(), "TLS://[::1]:9094");
        assert_eq!(read[2].to_string(), "TC-0://kafka:19092");
    }

    #[test]
    fn bad_addresses_are_refused() {
        for (text, reason) in [
            ("PLAINTEXT", "Unable to parse"),
            ("PLAINTEXT://host", "Unable to parse"),
            ("PLAINTEXT://host:99999", "Unable to parse"),
            ("PLAINTEXT://ho st:1", "Unable to parse"),
            ("OTHER://:1", "No security protocol"),
            ("PLAINTEXT://:1,PLAINTEXT://:2", "different name"),
            ("PLAINTEXT://:1,TLS://:1", "different port"),
        ] {
            let error = endpoints(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(endpoints("PLAINTEXT://127.0.0.1:1,TLS://[::1]:1").is_ok());
        assert!(endpoints("PLAINTEXT://:0,TLS://:0").is_ok());
    }

    #[test]
    fn voters_and_servers() {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let voters = parse_voters(&list("1@localhost:9093,2@[::1]:9093")).unwrap();
        assert_eq!(voters[1], Voter { id: 2, host: "::1".into(), port: 9093 });
        for bad in ["localhost:9093", "x@h:1", "-1@h:1", "1@h", "1@:1", "1@a:1,1@b:2"] {
            assert!(parse_voters(&list(bad)).is_err(), "{bad}");
        }
        assert_eq!(parse_servers(&list("a:1,b:2")).unwrap()[1], ("b".into(), 2));
        assert!(parse_servers(&list("a")).is_err());
    }

    #[test]
    fn maps_and_overrides() {
        assert!(parse_protocol_map("A:NONE").is_err());
        assert!(parse_protocol_map("A").is_err());
        assert_eq!(parse_ip_overrides("127.0.0.1:3, host:0").unwrap()[1], ("host".into(), 0));
        assert!(parse_ip_overrides("127.0.0.1").is_err());
    }
}
