//! TLS, the same for every connection: the identity of this side, the authorities it trusts, and helpful errors.
//!
//! rustls over ring, which the object stores use too: one library and one provider of ciphers in the process. Only TLS
//! 1.3: both sides have the same version, and every Arrow Flight client speaks it. ALPN negotiates the protocol of a
//! connection ([`Protocol`]). Certificates and keys are read once, at the start; a restart loads renewed ones.
//!
//! Invariant: a connection over TLS is used only if the peer's certificate was verified. No option turns this off.

mod errors;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::net::address::Address;
use crate::net::validity::Validity;
pub use errors::carried;
pub(crate) use errors::{carrying, explained, untrusted};

/// The time for a refused peer to read the reason.
const LAST_WORD_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// The protocol of a connection, as ALPN names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2: the dispatcher's service, or Arrow Flight.
    Http2,
    /// The transfer protocol (see `transfer`).
    Transfer,
}

impl Protocol {
    fn alpn(self) -> Vec<u8> {
        match self {
            Protocol::Http2 => b"h2".to_vec(),
            Protocol::Transfer => b"forebay/1".to_vec(),
        }
    }
}

/// The files of a process's certificates, all PEM. Plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that this side trusts when it connects. None: it connects in the clear.
    pub ca: Option<PathBuf>,
    /// The certificate of this side, with its chain to the authority. A process that listens speaks TLS if it has one;
    /// a process that connects shows it on request.
    pub cert: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
    /// The authorities that must have signed the certificates of clients. None: clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// The name that a server's certificate must have. None: the host of its address.
    pub name: Option<String>,
}

impl TlsFiles {
    /// Reads the files for connecting; `None` is in the clear.
    ///
    /// # Errors
    /// Invalid when one file of a pair is missing, or a file is not PEM; NotFound and PermissionDenied for a file.
    pub fn client(&self) -> Result<Option<ClientTls>> {
        let identity = self.identity()?;
        let Some(ca) = &self.ca else {
            if identity.is_some() || self.name.is_some() {
                return Err(Error::invalid("a certificate is given, and no authority to trust")
                    .hint("give the authority's certificate too (--tls-ca, FOREBAY_TLS_CA, fb.Tls(ca=...))"));
            }
            return Ok(None);
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(ca)?, provider());
        let verifier = verifier.build().map_err(|e| unusable(ca, &e.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(|e| Error::internal(e.to_string()))?.with_webpki_verifier(verifier);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certs, key, file }) => {
                builder.with_client_auth_cert(certs, key).map_err(|e| unusable(file, &e.to_string()))?
            }
        };
        let name = self.name.clone().map(server_name).transpose()?;
        let config = |protocol: Protocol| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.alpn()];
            Arc::new(config)
        };
        Ok(Some(ClientTls(Arc::new(Client {
            http2: config(Protocol::Http2),
            transfer: config(Protocol::Transfer),
            name,
        }))))
    }

    /// Reads the files for listening; `None` is in the clear.
    ///
    /// # Errors
    /// Errors of [`TlsFiles::client`].
    pub fn server(&self) -> Result<Option<ServerTls>> {
        let Some(Identity { certs, key, file }) = self.identity()? else {
            if self.client_ca.is_some() {
                return Err(Error::invalid(
                    "clients must show certificates, but this process has no certificate itself",
                )
                .hint("give --tls-cert and --tls-key too"));
            }
            return Ok(None);
        };
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(|e| Error::internal(e.to_string()))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(|e| unusable(ca, &e.to_string()))?)
            }
        };
        let config = builder.with_single_cert(certs, key).map_err(|e| unusable(file, &e.to_string()))?;
        Ok(Some(ServerTls(Arc::new(config))))
    }

    /// Returns the validity of this side's certificate with its chain; `None` if it has none.
    ///
    /// # Errors
    /// Errors of [`TlsFiles::client`], and Invalid for a file that is not a certificate.
    pub fn validity(&self) -> Result<Option<Validity>> {
        let Some(file) = &self.cert else { return Ok(None) };
        let certs = certificates(file)?;
        let validities =
            certs.iter().map(|cert| Validity::of(cert).ok_or_else(|| unusable(file, "it is no certificate")));
        let all = validities.reduce(|all, one| Ok(all?.and(one?))).transpose()?;
        Ok(all)
    }

    fn identity(&self) -> Result<Option<Identity<'_>>> {
        match (&self.cert, &self.key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => {
                let certs = certificates(cert)?;
                let key_der = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable(key, "a private key", e))?;
                Ok(Some(Identity { certs, key: key_der, file: cert }))
            }
            _ => Err(Error::invalid("a certificate and its key go together, and one of them is missing").hint(
                "give both (--tls-cert and --tls-key, FOREBAY_TLS_CERT and FOREBAY_TLS_KEY, fb.Tls(cert=, key=))",
            )),
        }
    }
}

struct Identity<'a> {
    certs: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    file: &'a Path,
}

/// The TLS settings of this side when it connects. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls(Arc<Client>);

struct Client {
    http2: Arc<ClientConfig>,
    transfer: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Performs the handshake. Errors carry an [`Error`], see [`carried`].
    pub(crate) async fn connect(
        &self,
        socket: TcpStream,
        to: &Address,
        protocol: Protocol,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let config = match protocol {
            Protocol::Http2 => &self.0.http2,
            Protocol::Transfer => &self.0.transfer,
        };
        let name = match &self.0.name {
            Some(name) => name.clone(),
            None => server_name(to.host().to_owned()).map_err(|e| carrying(&e))?,
        };
        let connected = TlsConnector::from(config.clone()).connect(name, socket).await;
        connected.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::new(
                e.kind(),
                "the other side closed the connection instead of shaking hands; it may not speak TLS",
            ),
            _ => explained(e),
        })
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// The TLS settings of this side when it listens. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Returns an acceptor for these protocols.
    pub(crate) fn acceptor(&self, protocols: &[Protocol]) -> TlsAcceptor {
        let mut config = (*self.0).clone();
        config.alpn_protocols = protocols.iter().map(|s| s.alpn()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}

/// Performs the handshake with a client. A refused client gets the reason.
pub(crate) async fn accept(
    acceptor: &TlsAcceptor,
    socket: TcpStream,
) -> io::Result<(server::TlsStream<TcpStream>, Protocol)> {
    match acceptor.accept(socket).into_fallible().await {
        Ok(stream) => {
            // A client that names no protocol is not Forebay's, and speaks HTTP/2.
            let is_ours = stream.get_ref().1.alpn_protocol() == Some(&Protocol::Transfer.alpn());
            Ok((stream, if is_ours { Protocol::Transfer } else { Protocol::Http2 }))
        }
        Err((error, socket)) => {
            // The alert is on its way already.
            last_word(socket, &[]).await;
            Err(error)
        }
    }
}

/// Sends a last message and lets the peer read it. Closing at once would discard it, because unread input causes a
/// reset.
pub(crate) async fn last_word(mut socket: TcpStream, word: &[u8]) {
    let say = async {
        socket.write_all(word).await?;
        socket.shutdown().await?;
        let mut heard = [0; 4096];
        while socket.read(&mut heard).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // The peer may have left.
    let _ = tokio::time::timeout(LAST_WORD_MAX, say).await;
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server_name(name: String) -> Result<ServerName<'static>> {
    ServerName::try_from(name.clone())
        .map_err(|_| Error::invalid(format!("{name:?} is no name that a certificate can have")))
}

fn roots(file: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(file)? {
        roots.add(cert).map_err(|e| unusable(file, &e.to_string()))?;
    }
    Ok(Arc::new(roots))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    match read() {
        Ok(certs) if certs.is_empty() => Err(unreadable(file, "a certificate", PemError::NoItemsFound)),
        Ok(certs) => Ok(certs),
        Err(error) => Err(unreadable(file, "a certificate", error)),
    }
}

fn unreadable(file: &Path, what: &str, error: PemError) -> Error {
    let error = match error {
        PemError::Io(e) => Error::from(e).hint(format!("it should hold {what}; docs/security.md says how to make one")),
        PemError::NoItemsFound => Error::invalid(format!("there is no PEM of {what} in the file")),
        other => Error::invalid(format!("the file is no PEM of {what}: {other}")),
    };
    error.with("file", file.display())
}

fn unusable(file: &Path, why: &str) -> Error {
    Error::invalid(format!("the certificate cannot be used: {why}")).with("file", file.display())
}

#[cfg(test)]
mod tests {
    use forebay_core::ErrorKind;

    use super::*;

    #[test]
    fn files_that_do_not_fit_together_are_refused_by_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("written");
            Some(path)
        };
        let (empty, broken) = (file("empty.pem", ""), file("broken.pem", "-----BEGIN CERTIFICATE-----\n!\n"));
        let none = TlsFiles::default();
        assert!(none.client().is_ok_and(|c| c.is_none()) && none.server().is_ok_and(|s| s.is_none()));
        let missing = Some(dir.path().join("missing.pem"));
        for (files, kind, says) in [
            (TlsFiles { ca: empty.clone(), ..none.clone() }, ErrorKind::Invalid, "empty.pem"),
            (TlsFiles { ca: broken, ..none.clone() }, ErrorKind::Invalid, "broken.pem"),
            (TlsFiles { ca: missing, ..none.clone() }, ErrorKind::NotFound, "missing.pem"),
            (TlsFiles { cert: empty.clone(), ..none.clone() }, ErrorKind::Invalid, "go together"),
            (TlsFiles { name: Some("x".to_owned()), ..none.clone() }, ErrorKind::Invalid, "no authority"),
        ] {
            let error = files.client().expect_err(says);
            assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
        }
        let error = TlsFiles { client_ca: empty, ..none }.server().expect_err("no certificate");
        assert!(error.to_string().contains("--tls-cert"), "{error}");
    }
}
