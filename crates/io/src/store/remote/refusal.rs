//! Translates a store's error for the user who named the file: the bucket, and the setting to change.
//!
//! Stores answer in XML, and `object_store` passes it on as text. The error has its code and its message.

use forebay_core::{Error, ErrorKind};
use object_store::ObjectStoreScheme;

use super::fetch::cause;
use super::settings::is_secret;
use crate::fail;

/// The settings of the credentials of each store, by the scheme of its urls.
const CREDENTIALS: [(&str, &str); 4] = [
    (
        "s3",
        "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, where there is one), or \
         AWS_SKIP_SIGNATURE=true for a public bucket, also where the workers run; a profile with a sign-in (sso) has no keys: \
         `aws configure export-credentials --format env` prints them",
    ),
    (
        "gs",
        "set GOOGLE_APPLICATION_CREDENTIALS to the path of a key, or run `gcloud auth application-default login`; or set \
         GOOGLE_SKIP_SIGNATURE=true for a public bucket; also where the workers run",
    ),
    (
        "az",
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN, or \
         AZURE_SKIP_SIGNATURE=true for a public container, also where the workers run",
    ),
    (
        "hf",
        "check the name; for a private or gated data set, set HF_TOKEN to a token that may read it, also where the workers \
         run",
    ),
];

/// Returns the hint about the settings of a url's store.
fn hint(uri: &str) -> &'static str {
    let scheme = if uri.starts_with("s3") || uri.starts_with("r2") {
        "s3"
    } else if uri.starts_with("gs") {
        "gs"
    } else if uri.starts_with("hf") {
        "hf"
    } else {
        "az"
    };
    CREDENTIALS.iter().find(|(of, _)| *of == scheme).map_or("", |(_, hint)| hint)
}

/// Says whether no setting of a store is a credential, so that only the machine itself could have one.
pub(super) fn are_missing(scheme: &ObjectStoreScheme, settings: &[(String, String)]) -> bool {
    !matches!(scheme, ObjectStoreScheme::Http) && !settings.iter().any(|(name, _)| is_secret(name))
}

/// No credentials are set, and the machine has none either.
pub(super) fn no_credentials(uri: &str, seen: &Error) -> Error {
    Error::new(
        ErrorKind::PermissionDenied,
        "no credentials are set for this store, and this machine has none of its own",
    )
    .with("file", uri)
    .with("seen", seen.message())
    .hint(hint(uri))
}

/// The least bytes of a secret that is taken out of a message. Shorter ones are parts of words.
const SECRET_BYTES_MIN: usize = 8;

/// Returns the error for settings of which no store can be made. It shows no credential.
pub(super) fn unusable(uri: &str, settings: &[(String, String)], e: &object_store::Error) -> Error {
    if uri.starts_with("http") || uri.starts_with("hf") {
        return refused(uri, e);
    }
    let secrets = settings.iter().filter(|(name, value)| is_secret(name) && value.len() >= SECRET_BYTES_MIN);
    let said = secrets.fold(e.to_string(), |said, (_, value)| said.replace(value, "…"));
    Error::invalid(format!("the settings of this store cannot be used: {said}")).with("file", uri).hint(hint(uri))
}

/// Returns the error for an answer that a retry would not change.
pub(in crate::store) fn refused(uri: &str, e: &object_store::Error) -> Error {
    use object_store::Error as Store;
    match e {
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => denied(uri, &e.to_string()),
        Store::NotSupported { .. } | Store::NotImplemented { .. } | Store::InvalidPath { .. } => {
            Error::invalid(format!("the store cannot do this: {e}")).with("file", uri)
        }
        e => match of_file_system(e) {
            Some(e) => fail::io(uri, std::io::Error::new(e.kind(), e.to_string())),
            None => answered(uri, &e.to_string()),
        },
    }
}

/// There is no such bucket.
pub(super) fn no_bucket(uri: &str) -> Error {
    let below = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let bucket = below.split('/').next().unwrap_or_default();
    Error::new(ErrorKind::NotFound, format!("there is no bucket {bucket:?}"))
        .with("file", uri)
        .hint("check the name; and that the account, endpoint and region in the environment are those of the bucket")
}

/// The store does not allow this user to write, or cannot be written to.
pub(in crate::store) fn unwritten(uri: &str, e: Error) -> Error {
    match e.kind() {
        ErrorKind::PermissionDenied if e.message().starts_with("not allowed") => {
            let error = Error::new(ErrorKind::PermissionDenied, "not allowed to write this file").with("file", uri);
            let error = e.get("answer").into_iter().fold(error, |error, answer| error.with("answer", answer));
            error.hint(format!("use credentials that may write there: {}", hint(uri)))
        }
        ErrorKind::NotFound => no_bucket(uri),
        ErrorKind::Exhausted => e.hint("make room and save again: it goes on behind the last file"),
        _ => e,
    }
}

fn denied(uri: &str, answer: &str) -> Error {
    let error = fail::denied(uri, hint(uri));
    match tag(answer, "Code") {
        Some(code) => error.with("answer", code),
        None => error,
    }
}

/// Returns the error for an answer without an error kind of its own.
fn answered(uri: &str, answer: &str) -> Error {
    let below = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let (bucket, object) = below.split_once('/').unwrap_or((below, ""));
    let code = tag(answer, "Code").unwrap_or_default();
    let words = without_names(answer, object);
    let has = |part: &str| words.contains(part);
    if matches!(code, "NoSuchBucket" | "ContainerNotFound") || has("bucket does not exist") {
        return no_bucket(uri);
    }
    if ["://169.254.169.254/", "://metadata.google.internal/"].iter().any(|host| answer.contains(host)) {
        // The machine's metadata service answered that it has no credentials.
        return no_credentials(uri, &Error::unavailable("the machine gives no credentials"));
    }
    if has(" 403 ") || has(" 401 ") || matches!(code, "AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch") {
        return denied(uri, answer);
    }
    let full = ["XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage"];
    if has(" 507 ") || full.contains(&code) {
        return Error::new(ErrorKind::Exhausted, "the store has no room for this").with("file", uri);
    }
    if has("edirect") {
        return Error::invalid(format!("bucket {bucket:?} is not in the region that was asked"))
            .with("file", uri)
            .hint("set AWS_REGION to the region of the bucket, also where the workers run");
    }
    if has("ccount must be specified") || has("ccount name") {
        return Error::invalid("the account of this container is not known").with("file", uri).hint(hint(uri));
    }
    let said = match (tag(answer, "Message"), code) {
        (Some(message), _) => message,
        (None, "") => answer.split('<').next().unwrap_or_default().trim(),
        (None, code) => code,
    };
    Error::unavailable(format!("the store refuses: {said}")).with("file", uri)
}

/// Returns an answer without urls and without the object's name, whose words may be arbitrary.
fn without_names(answer: &str, object: &str) -> String {
    let words = answer.split(' ').filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" ");
    if object.is_empty() { words } else { words.replace(object, "") }
}

/// Returns the content of an XML tag.
fn tag<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.trim()).filter(|text| !text.is_empty())
}

/// Returns the operating system's error, where the store is a file system.
fn of_file_system(e: &object_store::Error) -> Option<&std::io::Error> {
    match e {
        object_store::Error::Generic { store: "LocalFileSystem", .. } => cause(e),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_sentences_without_their_xml() {
        let xml = |code: &str| {
            format!(
                "Generic S3 error: Error performing list request: Error performing GET http://h/b?list-type=2 in 1ms - \
                 Server returned non-2xx status code: 404 Not Found: <?xml version=\"1.0\"?><Error><Code>{code}</Code>\
                 <Message>It is so.</Message></Error>"
            )
        };
        let of = |uri: &str, answer: &str| {
            let e = answered(uri, answer);
            let whole = e.to_string();
            assert!(!whole.contains('<') && !whole.contains("non-2xx"), "{whole}");
            (e.kind(), e.message().to_owned(), e.get("hint").unwrap_or_default().to_owned())
        };
        let no_bucket = of("s3://photos/train/", &xml("NoSuchBucket"));
        assert_eq!((no_bucket.0, &*no_bucket.1), (ErrorKind::NotFound, "there is no bucket \"photos\""));
        assert_eq!(of("az://photos/train/", &xml("ContainerNotFound")).0, ErrorKind::NotFound);
        let denied = of("gs://photos/train/", &xml("AccessDenied"));
        assert!(denied.0 == ErrorKind::PermissionDenied && denied.2.contains("GOOGLE_APPLICATION_CREDENTIALS"));
        assert!(of("s3://b/x", "Received redirect without LOCATION").2.contains("AWS_REGION"));
        assert!(
            of("az://b/x", "Generic MicrosoftAzure error: Account must be specified")
                .2
                .contains("AZURE_STORAGE_ACCOUNT_NAME")
        );
        assert_eq!(of("s3://b/x", &xml("SlowDown")).1, "the store refuses: It is so.");
        let named = xml("SlowDown").replace("/b?", "/b/Redirected%20403%20account%20name/169.254.169.254?");
        let object = "Redirected 403 account name/169.254.169.254";
        assert_eq!(of(&format!("s3://b/{object}"), &format!("{object}: {named}")).0, ErrorKind::Unavailable);
    }
}
