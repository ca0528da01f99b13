//! The address of a service: `forebay://host:port`, with or without the scheme; for several dispatchers, their
//! addresses separated by commas.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Error, Result};

/// The port of a dispatcher, unless another is given.
pub const PORT: u16 = 7070;

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Returns the host; an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// Reads the addresses of a service's dispatchers: `forebay://a:7070,b:7070`.
///
/// # Errors
/// Invalid if one of them is not an address.
pub(crate) fn addresses(text: &str) -> Result<Vec<Address>> {
    text.split(',').map(|one| one.trim().parse()).collect()
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::with_port(text, PORT)
    }
}

impl Address {
    /// Reads an address that may lack its port.
    ///
    /// # Errors
    /// Invalid for anything but an address.
    pub fn with_port(text: &str, default: u16) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid(format!("{text:?} is no address: {what}")).hint("write forebay://host:port or host:port")
        };
        let rest = text.strip_prefix("forebay://").unwrap_or(text).trim_end_matches('/');
        if let Some((scheme, _)) = rest.split_once("://") {
            return Err(wrong(&format!("a service is not reached by {scheme}://")));
        }
        let (host, port) = match rest.rsplit_once(':') {
            // Colons inside brackets, or several without, belong to an IPv6 address.
            Some((host, port)) if !port.ends_with(']') && (host.ends_with(']') || !host.contains(':')) => {
                (host, port.parse().map_err(|_| wrong("its port is not a number from 1 to 65535"))?)
            }
            _ => (rest, default),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:%".contains(c);
        // Brackets are around a whole IPv6 address, or nowhere.
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if inner.is_empty() || inner.contains(['[', ']']) || !host.chars().all(allowed) {
            return Err(wrong("its host is not a name"));
        }
        if port == 0 {
            return Err(wrong("its port is not a number from 1 to 65535"));
        }
        let bare_v6 = host.contains(':') && !host.starts_with('[');
        Ok(Self { host: if bare_v6 { format!("[{host}]") } else { host.to_owned() }, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_scheme_port_and_brackets() {
        let read = |text: &str| text.parse::<Address>().map(|a| a.to_string());
        for (text, want) in [
            ("forebay://host:81", "host:81"),
            ("host:81", "host:81"),
            ("host", "host:7070"),
            ("forebay://10.0.0.1/", "10.0.0.1:7070"),
            ("[::1]:81", "[::1]:81"),
            ("[::1]", "[::1]:7070"),
            ("::1", "[::1]:7070"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(want));
        }
        for text in [
            "",
            ":81",
            "http://host:81",
            "host:port",
            "host:0",
            "host:70000",
            "ho st:1",
            "a/b:1",
            "[::]1:70:70",
            "[a",
            "[]",
            "[[::1]]:1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn several_dispatchers_have_commas_between_them() {
        let read = |text: &str| addresses(text).map(|all| all.iter().map(Address::to_string).collect::<Vec<_>>());
        assert_eq!(
            read("forebay://a:81, forebay://b,[::1]:82"),
            Ok(["a:81", "b:7070", "[::1]:82"].map(str::to_owned).into())
        );
        assert!(read("a:81,").is_err());
    }
}
