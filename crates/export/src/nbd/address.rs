//! `nbd://host[:10809]/export` and `nbd+unix:///export?socket=/path`, both ways, as the NBD URI text has
//! them.

use std::{
    fmt::{self, Write as _},
    path::PathBuf,
    str::FromStr,
};

use thiserror::Error;

use super::{limits::STRING_BYTES_MAX, proto::codes::DEFAULT_PORT};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A socket file.
    Unix(PathBuf),
    /// A host name or IP address (IPv6 without brackets) and a port.
    Tcp {
        /// The host.
        host: String,
        /// The port; 0 lets the system choose when listening.
        port: u16,
    },
}

/// An export on a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NbdAddress {
    /// The server.
    pub endpoint: Endpoint,
    /// The export's name; empty for the default one.
    pub export: String,
}

/// Why a text is not an NBD address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Not one of the schemes.
    #[error("{0:?} is not an NBD address; write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
    Scheme(String),
    /// TLS is not supported here.
    #[error("{0}:// means NBD over TLS, which is not supported; use nbd:// through a tunnel")]
    Tls(String),
    /// No host, or an invalid one.
    #[error("{0:?} is not a host; write a name, an IPv4 address or an IPv6 address in brackets")]
    Host(String),
    /// Not a port.
    #[error("{0:?} is not a port; write a number from 0 to 65535")]
    Port(String),
    /// The unix form without its socket.
    #[error("nbd+unix addresses need ?socket=PATH with an absolute path")]
    Socket,
    /// A query parameter that we do not know.
    #[error("unknown parameter {0:?}; only nbd+unix takes one, socket=PATH")]
    Parameter(String),
    /// A percent sign without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("{0:?} has a malformed percent escape; write %25 for a percent sign")]
    Escape(String),
    /// An export's name beyond the protocol's limit.
    #[error("an export's name has at most {STRING_BYTES_MAX} bytes")]
    LongName,
}

impl FromStr for NbdAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| AddressError::Scheme(text.to_owned()))?;
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let endpoint = match scheme {
            "nbd" => tcp(authority, query)?,
            "nbd+unix" => unix(authority, query)?,
            "nbds" | "nbds+unix" => return Err(AddressError::Tls(scheme.to_owned())),
            _ => return Err(AddressError::Scheme(text.to_owned())),
        };
        let export = unescape(path)?;
        if export.len() > STRING_BYTES_MAX {
            return Err(AddressError::LongName);
        }
        Ok(Self { endpoint, export })
    }
}

fn tcp(authority: &str, query: Option<&str>) -> Result<Endpoint, AddressError> {
    if let Some(query) = query {
        return Err(AddressError::Parameter(query.to_owned()));
    }
    let (host, port) = split_port(authority)?;
    let bad = host.is_empty() || host.contains(|c: char| c.is_control() || " @[]/\\".contains(c));
    if bad {
        return Err(AddressError::Host(authority.to_owned()));
    }
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

fn split_port(authority: &str) -> Result<(&str, u16), AddressError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) =
                rest.split_once(']').ok_or_else(|| AddressError::Host(authority.to_owned()))?;
            match port.strip_prefix(':') {
                None if port.is_empty() => (host, None),
                None => return Err(AddressError::Port(port.to_owned())),
                digits => (host, digits),
            }
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let number = |port: &str| port.parse().map_err(|_| AddressError::Port(port.to_owned()));
    Ok((host, port.map_or(Ok(DEFAULT_PORT), number)?))
}

fn unix(authority: &str, query: Option<&str>) -> Result<Endpoint, AddressError> {
    if !authority.is_empty() {
        return Err(AddressError::Host(authority.to_owned()));
    }
    let query = query.ok_or(AddressError::Socket)?;
    let path = query.strip_prefix("socket=").ok_or_else(|| AddressError::Parameter(query.to_owned()))?;
    if path.contains('&') {
        return Err(AddressError::Parameter(query.to_owned()));
    }
    let path = PathBuf::from(unescape(path)?);
    if path.is_absolute() { Ok(Endpoint::Unix(path)) } else { Err(AddressError::Socket) }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let path = path.to_string_lossy();
                write!(f, "nbd+unix:///{}?socket={}", escape(&self.export), escape(&path))
            }
            Endpoint::Tcp { host, port } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "nbd://{open}{host}{close}")?;
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{}", escape(&self.export))
            }
        }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn unescape(text: &str) -> Result<String, AddressError> {
    let error = || AddressError::Escape(text.to_owned());
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).ok_or_else(error);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> NbdAddress {
        NbdAddress { endpoint: Endpoint::Tcp { host: host.to_owned(), port }, export: export.to_owned() }
    }

    #[test]
    fn addresses_as_people_write_them() {
        let unix = |path: &str, export: &str| NbdAddress {
            endpoint: Endpoint::Unix(PathBuf::from(path)),
            export: export.to_owned(),
        };
        let table = [
            ("nbd://storage", tcp("storage", 10809, "")),
            ("nbd://storage/", tcp("storage", 10809, "")),
            ("nbd://storage:1000/md0", tcp("storage", 1000, "md0")),
            ("nbd://[::1]/a%20b", tcp("::1", 10809, "a b")),
            ("nbd://[fe80::1%25eth0]:99//abs", tcp("fe80::1%25eth0", 99, "/abs")),
            ("nbd+unix:///?socket=/run/s", unix("/run/s", "")),
            ("nbd+unix:///md/0?socket=/run/a%26b", unix("/run/a&b", "md/0")),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_addresses_say_what_is_wrong() {
        let parse = |text: &str| text.parse::<NbdAddress>().unwrap_err();
        assert!(matches!(parse("/dev/sda"), AddressError::Scheme(_)));
        assert!(matches!(parse("http://x/"), AddressError::Scheme(_)));
        assert!(matches!(parse("nbds://x/"), AddressError::Tls(_)));
        assert!(matches!(parse("nbd:///x"), AddressError::Host(_)));
        assert!(matches!(parse("nbd://user@x/"), AddressError::Host(_)));
        assert!(matches!(parse("nbd://[::1/x"), AddressError::Host(_)));
        assert!(matches!(parse("nbd://x:port/"), AddressError::Port(_)));
        assert!(matches!(parse("nbd://[::1]99/"), AddressError::Port(_)));
        assert!(matches!(parse("nbd://x:70000/"), AddressError::Port(_)));
        assert!(matches!(parse("nbd://x/?tls=1"), AddressError::Parameter(_)));
        assert_eq!(parse("nbd+unix:///x"), AddressError::Socket);
        assert_eq!(parse("nbd+unix:///x?socket=relative"), AddressError::Socket);
        assert!(matches!(parse("nbd://x/%f"), AddressError::Escape(_)));
        assert!(matches!(parse("nbd://x/%ff"), AddressError::Escape(_)));
        assert_eq!(parse(&format!("nbd://x/{}", "a".repeat(5000))), AddressError::LongName);
    }

    proptest! {
        #[test]
        fn written_addresses_are_read_back(host in "[a-z0-9.-]{1,20}|[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}", port: u16, export in ".{0,40}", path in "/.{0,40}") {
            let address = tcp(&host, port, &export);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            let address = NbdAddress { endpoint: Endpoint::Unix(PathBuf::from(path)), export };
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in "(nbd(\\+unix)?://)?.{0,60}") {
            let _ = text.parse::<NbdAddress>();
        }
    }
}
