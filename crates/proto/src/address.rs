//! Where a service is: `forebay://host:port`, or the same without the scheme.

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

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
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
            _ => (rest, PORT),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:%".contains(c);
        if host.is_empty() || !host.chars().all(allowed) {
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
        for text in ["", ":81", "http://host:81", "host:port", "host:0", "host:70000", "ho st:1", "a/b:1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
