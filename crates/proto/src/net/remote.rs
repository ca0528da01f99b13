//! A service as seen by a client: the addresses of its dispatchers, and the credentials for them.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use forebay_core::{Error, Result};
use hyper_util::rt::TokioIo;
use tonic::codegen::{InterceptedService, Service, http::Uri};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::net::address::{Address, addresses};
use crate::net::http2::endpoint;
use crate::net::tls::{ClientTls, Protocol, TlsFiles};
use crate::net::wire::Wire;

/// The most bytes of a token, which has to fit a header.
const TOKEN_BYTES_MAX: usize = 1024;
const SCHEME: &str = "Bearer ";

/// A secret that identifies the caller to the dispatcher. Never shown, not even by `Debug`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<str>);

impl Token {
    /// Reads a token from a file, without the white space around it.
    ///
    /// # Errors
    /// The system's error, with the file; Invalid when the file holds no token.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(Error::from);
        text.and_then(|text| text.parse()).map_err(|e| e.with("file", file.display()))
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || text.len() > TOKEN_BYTES_MAX || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Error::invalid("this is no token: a token is one word of ASCII letters, digits and signs")
                .hint("make one with `forebay token new`"));
        }
        Ok(Self(text.into()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The credentials of this side. Default: in the clear, without a token.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Its certificates and authorities; `None` is in the clear.
    pub tls: Option<ClientTls>,
    /// Its token for the dispatcher.
    pub token: Option<Token>,
}

impl Credentials {
    /// Reads them from the options of a command: a token itself, or else the file that holds it.
    ///
    /// # Errors
    /// Errors of [`TlsFiles::client`] and [`Token::read`].
    pub fn load(files: &TlsFiles, token: Option<&str>, token_file: Option<&Path>) -> Result<Self> {
        let token = match (token, token_file) {
            (Some(token), _) => Some(token.parse()?),
            (None, Some(file)) => Some(Token::read(file)?),
            (None, None) => None,
        };
        Ok(Self { tls: files.client()?, token })
    }
}

/// A dispatcher, or several of which one leads, and the credentials for them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote {
    /// `forebay://host:port` or `host:port`; several dispatchers of one service are separated by commas.
    pub address: String,
    /// The credentials for them and their workers.
    pub credentials: Credentials,
}

impl Remote {
    /// Makes a remote for a dispatcher that needs no token, in the clear.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), credentials: Credentials::default() }
    }

    /// Returns the addresses of the dispatchers; at least one.
    ///
    /// # Errors
    /// Invalid for anything but an address.
    pub fn addresses(&self) -> Result<Vec<Address>> {
        addresses(&self.address)
    }

    /// Returns the parts of a connection to the dispatcher at an address.
    pub(crate) fn parts(&self, address: &Address) -> Result<(tonic::transport::Endpoint, Connector)> {
        let (address, tls) = (address.clone(), self.credentials.tls.clone());
        Ok((endpoint(&address, tls.is_some())?, Connector { address, tls }))
    }

    /// Wraps a channel to a dispatcher so that its calls carry the token. Makes no call.
    pub fn link(&self, channel: Channel) -> Link {
        InterceptedService::new(channel, Bearer::new(self.credentials.token.as_ref()))
    }
}

/// A connection to a dispatcher, over which every call carries the token.
pub type Link = InterceptedService<Channel, Bearer>;

/// Puts the token on each call.
#[derive(Debug, Clone, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(token: Option<&Token>) -> Self {
        Self(token.and_then(|token| {
            let mut value = MetadataValue::try_from(format!("{SCHEME}{}", token.0)).ok()?;
            value.set_sensitive(true);
            Some(value)
        }))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Returns a call that carries a token.
pub fn with_token<T>(message: T, token: Option<&Token>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(value) = Bearer::new(token).0 {
        request.metadata_mut().insert("authorization", value);
    }
    request
}

/// Returns the token that a call carries.
pub fn bearer(call: &MetadataMap) -> Option<&str> {
    call.get("authorization")?.to_str().ok()?.strip_prefix(SCHEME)
}

/// Makes the connections of a channel.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    address: Address,
    tls: Option<ClientTls>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Wire>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { address, tls } = self.clone();
        Box::pin(async move { Wire::connect(&address, tls.as_ref(), Protocol::Http2).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_travels_whole_and_is_never_shown() {
        let token: Token = " fbt_abc \n".parse().expect("a token");
        assert_eq!(format!("{token:?}"), "Token(…)");
        let mut bearer_of = Bearer::new(Some(&token));
        let request = bearer_of.call(Request::new(())).expect("passes");
        assert_eq!(bearer(request.metadata()), Some("fbt_abc"));
        assert!(!format!("{bearer_of:?}").contains("abc"));
        for text in ["", " ", "two words", "line\nbreak", "é", &"x".repeat(2000)] {
            assert!(text.parse::<Token>().is_err(), "{text:?}");
        }
        assert_eq!(bearer(&MetadataMap::new()), None);
    }
}
