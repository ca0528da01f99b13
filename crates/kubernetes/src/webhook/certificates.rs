//! The webhook's certificates. The operator creates them, and shares them between replicas in a Secret.
//!
//! A CA of ten years signs a certificate of one year. The operator replaces the certificate when less than 30 days are
//! left. The CA stays, so the API server trusts both the old and the new certificate.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::caches::uses::annotation;
use crate::cluster::objects::{ApiClient, SECRETS, text};

/// Name of the Secret.
const NAME: &str = "forebay-operator-webhook";
/// Annotations of the Secret: the time of the renewal, and the DNS names of the certificate.
const RENEW_AT: &str = "forebay.dev/renew-at";
const DNS_NAMES: &str = "forebay.dev/names";
const YEARS_OF_AUTHORITY: i64 = 10;
const DAYS: i64 = 365;
const RENEW_DAYS: i64 = 30;
/// Attempts to read or write the Secret while other replicas write it.
const TRIES: usize = 5;

/// The namespace of the Secret, and the DNS names of the certificate.
pub(crate) struct Names {
    pub(crate) namespace: String,
    pub(crate) names: Vec<String>,
}

/// The certificate that the server presents.
#[derive(Debug, Default)]
pub(super) struct Identity {
    current: Mutex<Option<(String, Arc<CertifiedKey>)>>,
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, key)| key.clone())
    }
}

/// Loads the certificate from the Secret, and creates or renews it if it must; returns the CA as PEM.
///
/// # Errors
/// When the Secret cannot be read or written, or holds no certificate.
pub(super) async fn renew(api: &ApiClient, names: &Names, identity: &Identity) -> Result<String, String> {
    let secret = shared(api, names).await?;
    let field = |name: &str| decoded(&secret, name).ok_or_else(|| format!("Secret {NAME} has no {name}: delete it"));
    let (authority, chain, key) = (field("ca.crt")?, field("tls.crt")?, field("tls.key")?);
    let mut current = identity.current.lock().unwrap_or_else(PoisonError::into_inner);
    if current.as_ref().is_none_or(|(pem, _)| *pem != chain) {
        let certified = certified(&chain, &key).map_err(|e| format!("Secret {NAME} holds no certificate: {e}"))?;
        *current = Some((chain, Arc::new(certified)));
    }
    Ok(authority)
}

async fn shared(api: &ApiClient, names: &Names) -> Result<Value, String> {
    let path = SECRETS.object_path(Some(&names.namespace), NAME);
    for _ in 0..TRIES {
        let found = api.find(&path).await.map_err(|error| error.to_string())?;
        let now = Timestamp::now();
        if let Some(secret) = &found
            && annotation(secret, DNS_NAMES) == Some(names.names.join(",").as_str())
            && annotation(secret, RENEW_AT).and_then(|at| at.parse::<Timestamp>().ok()).is_some_and(|at| at > now)
        {
            return Ok(secret.clone());
        }
        let secret =
            with_new_certificate(names, found.as_ref(), now).map_err(|e| format!("no certificate can be made: {e}"))?;
        let written = match &found {
            Some(_) => api.replace(&path, &secret).await,
            None => api.create(&SECRETS.collection_path(Some(&names.namespace)), &secret).await,
        };
        match written {
            Err(error) if !error.is_conflict() => return Err(error.to_string()),
            // On a conflict, the next attempt reads the Secret of the other replica.
            _ => {}
        }
    }
    Err(format!("Secret {NAME} changes all the time"))
}

/// Returns the Secret with a new certificate, signed by its CA or by a new one.
fn with_new_certificate(names: &Names, found: Option<&Value>, now: Timestamp) -> Result<Value, rcgen::Error> {
    let old = found.and_then(|secret| KeyPair::from_pem(&decoded(secret, "ca.key")?).ok());
    let authority_pem = found.and_then(|secret| decoded(secret, "ca.crt")).filter(|_| old.is_some());
    let authority_key = old.map_or_else(KeyPair::generate, Ok)?;
    let on = |(year, month, day)| rcgen::date_time_ymd(year, month, day);
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "forebay-operator");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (authority.not_before, authority.not_after) = (on(day(now, -1)), on(day(now, DAYS * YEARS_OF_AUTHORITY)));
    let authority_pem = authority_pem.map_or_else(|| authority.self_signed(&authority_key).map(|c| c.pem()), Ok)?;
    let (authority_key_pem, issuer) = (authority_key.serialize_pem(), Issuer::new(authority, authority_key));
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(names.names.clone())?;
    leaf.distinguished_name.push(DnType::CommonName, "forebay-operator webhook");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (leaf.not_before, leaf.not_after) = (on(day(now, -1)), on(day(now, DAYS)));
    let chain = leaf.signed_by(&key, &issuer)?.pem();
    let renew_at = (now + ((DAYS - RENEW_DAYS) * 24).hours()).to_string();
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {
            "name": NAME, "namespace": names.namespace,
            "annotations": {RENEW_AT: renew_at, DNS_NAMES: names.names.join(",")},
        },
        "stringData": {"ca.crt": authority_pem, "ca.key": authority_key_pem, "tls.crt": chain, "tls.key": key.serialize_pem()},
    });
    if let Some(found) = found {
        secret["metadata"]["resourceVersion"] = json!(text(found, "/metadata/resourceVersion"));
    }
    Ok(secret)
}

/// Year, month and day of the date that is `after` days after `now`.
fn day(now: Timestamp, after: i64) -> (i32, u8, u8) {
    let date = (now + (after * 24).hours()).to_zoned(TimeZone::UTC).date();
    let part = |n: i8| u8::try_from(n).unwrap_or(1);
    (i32::from(date.year()), part(date.month()), part(date.day()))
}

fn certified(chain: &str, key: &str) -> Result<CertifiedKey, String> {
    let chain =
        CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| e.to_string())?;
    let key = any_supported_type(&key).map_err(|e| e.to_string())?;
    Ok(CertifiedKey::new(chain, key))
}

fn decoded(secret: &Value, field: &str) -> Option<String> {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(secret.get("data")?.get(field)?.clone()).ok()?;
    String::from_utf8(bytes.0).ok()
}
