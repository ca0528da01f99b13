//! Errors of TLS: helpful texts, and their way through layers that keep only text.

use std::io;

use forebay_core::{Error, ErrorKind};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

/// Returns the error of a side that does not trust the other, or is not trusted.
pub(crate) fn untrusted(message: impl Into<String>, hint: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, message).hint(hint)
}

/// Passes an error through a layer that keeps only the text of errors.
pub(crate) fn carrying(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, error.to_json())
}

/// Returns the error that `carrying` put into a text.
pub fn carried(text: &str) -> Option<Error> {
    text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

/// Returns an error of TLS on the connecting side, with a hint.
pub(crate) fn explained(error: io::Error) -> io::Error {
    let Some(cause) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) else { return error };
    carrying(&match cause {
        rustls::Error::InvalidCertificate(wrong) => wrong_certificate(wrong),
        rustls::Error::InvalidMessage(_) => untrusted(
            "the other side does not speak TLS",
            "start it with --tls-cert and --tls-key, or leave out what turns TLS on here (tls=, FOREBAY_TLS_CA)",
        ),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => untrusted(
            "the other side requires a client certificate, and got none",
            "give a certificate that its authority has signed, and its key (--tls-cert and --tls-key, FOREBAY_TLS_CERT and \
             FOREBAY_TLS_KEY, fb.Tls(cert=, key=))",
        ),
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            untrusted("the other side speaks TLS, but not Forebay's protocol", "is it a forebay dispatcher or worker?")
        }
        rustls::Error::AlertReceived(alert) if is_about_certificates(*alert) => untrusted(
            format!("the other side refused the certificate of this side ({alert:?})"),
            "it must be signed by the authority that --tls-client-ca names there, be valid now, and allow use by clients",
        ),
        other => untrusted(format!("TLS failed: {other}"), "both sides must speak TLS 1.3"),
    })
}

fn is_about_certificates(alert: AlertDescription) -> bool {
    use AlertDescription::*;
    matches!(
        alert,
        UnknownCA
            | BadCertificate
            | CertificateUnknown
            | CertificateExpired
            | CertificateRevoked
            | DecryptError
            | UnsupportedCertificate
            | AccessDenied
    )
}

fn wrong_certificate(wrong: &CertificateError) -> Error {
    match wrong {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => untrusted(
            "the certificate of the other side is not signed by the authority that is trusted here",
            "give the certificate of the authority that signed it (--tls-ca, FOREBAY_TLS_CA, fb.Tls(ca=...))",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            untrusted("the certificate of the other side has expired", "renew it, and start that process again")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            untrusted("the certificate of the other side is not valid yet", "look at the clocks of both machines")
        }
        CertificateError::NotValidForName => other_name("another name", ""),
        CertificateError::NotValidForNameContext { expected, presented } => {
            other_name(&presented.join(", "), &expected.to_str())
        }
        other => untrusted(format!("the certificate of the other side is not accepted: {other}"), "renew it"),
    }
}

fn other_name(presented: &str, expected: &str) -> Error {
    untrusted(
        format!("the certificate of the other side is for {presented}, and not for {expected:?}"),
        "connect to it by the name in its certificate, or say which name to expect (--tls-name, FOREBAY_TLS_NAME, \
         fb.Tls(name=...))",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_go_through_layers_that_keep_only_text() {
        let error = untrusted("no \"trust\"", "trust").with("file", "a");
        assert_eq!(carried(&carrying(&error).to_string()), Some(error));
        assert_eq!(carried("{not json"), None);
        assert_eq!(carried("Connection refused"), None);
    }
}
