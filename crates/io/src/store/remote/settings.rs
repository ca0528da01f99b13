//! The settings of a store: its credentials, its endpoint and its region.
//!
//! They come from the environment of this process: the variables and the profile of the store's own tools, and
//! `FOREBAY_STORES`, which has settings by address for processes that use several stores. Invariant: no setting is part
//! of a pipeline, of the id of a dataset, of an index or of an error.

#![expect(clippy::disallowed_methods, reason = "the settings of stores come from the environment")]

use std::collections::BTreeMap;

use forebay_core::{Error, Result};
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use serde_json::Value;
use url::Url;

use super::hub;
use super::profile;

/// The names and values of settings, sorted.
pub(super) type Settings = Vec<(String, String)>;

/// The variable that has settings by address: as JSON, or the path of a file with it.
const BY_ADDRESS: &str = "FOREBAY_STORES";
/// The setting that names a profile of AWS's tools.
pub(super) const PROFILE: &str = "profile";

/// Parts of the names of settings that are credentials, or disable them.
const SECRETS: [&str; 9] = [
    "access_key",
    "account_key",
    "token",
    "credentials",
    "service_account",
    "skip_signature",
    "sas",
    "client_secret",
    "azure_cli",
];

/// Says whether a setting is a credential, or disables credentials.
pub(super) fn is_secret(name: &str) -> bool {
    SECRETS.iter().any(|part| name.contains(part))
}

/// Returns the settings of the store of `uri`.
///
/// # Errors
/// Invalid when `FOREBAY_STORES`, the profile that is named or the endpoint cannot be used.
pub(super) fn settings(url: &Url, uri: &str) -> Result<Settings> {
    let prefix = match url.scheme() {
        "s3" | "s3a" | "r2" => "AWS_",
        "gs" => "GOOGLE_",
        "http" => return Ok(vec![("allow_http".into(), "true".into())]),
        "https" => return Ok(Vec::new()),
        "hf" => {
            let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            let named = [hub::ENDPOINT.0, hub::TOKEN].map(|name| Some((name.to_owned(), set(name)?)));
            return Ok(named.into_iter().flatten().collect());
        }
        _ => "AZURE_",
    };
    let named = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let wanted = named
        .filter(|(k, v)| !v.is_empty() && (k.starts_with(prefix) || (prefix == "GOOGLE_" && k == "SERVICE_ACCOUNT")));
    let mut settings: BTreeMap<String, String> = wanted.map(|(k, v)| (k.to_ascii_lowercase(), v)).collect();
    if let Some(own) = of_address(uri, url.scheme())? {
        override_with(&mut settings, own);
    }
    if prefix == "AWS_" {
        profile::complete(&mut settings)?;
        if url.scheme() == "r2" && !settings.keys().any(|name| is_endpoint(name)) {
            return Err(Error::invalid("the account of this bucket is not known").with("file", uri).hint(
                "set AWS_ENDPOINT_URL=https://ACCOUNT.r2.cloudflarestorage.com, or endpoint_url with fb.storage_options; also \
                 where the workers run",
            ));
        }
    }
    for (name, value) in settings.iter().filter(|(name, _)| is_endpoint(name)) {
        if !is_server(value) {
            return Err(Error::invalid(format!("the setting {name} is no address of a server"))
                .with("file", uri)
                .hint("write https://HOST, or http://HOST:PORT"));
        }
    }
    let mut settings: Settings = settings.into_iter().collect();
    // A user who names a server without TLS wants that, as in the store's own tools.
    if settings.iter().any(|(k, v)| k.contains("endpoint") && v.starts_with("http://")) {
        settings.push(("allow_http".into(), "true".into()));
    }
    Ok(settings)
}

/// Says whether a setting is the address of the store itself.
pub(super) fn is_endpoint(name: &str) -> bool {
    matches!(name.strip_prefix("aws_").unwrap_or(name), "endpoint" | "endpoint_url" | "endpoint_url_s3")
}

fn is_server(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Puts the settings of an address in place of those of the environment. Credentials are a whole: with one that the
/// address has, none of the environment is used.
fn override_with(settings: &mut BTreeMap<String, String>, own: BTreeMap<String, String>) {
    let has_credentials = own.keys().any(|name| is_secret(name) || name == PROFILE);
    let has_endpoint = own.keys().any(|name| is_endpoint(name));
    let bare =
        |name: &str| ["aws_", "google_", "azure_"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name).to_owned();
    let names: Vec<String> = own.keys().map(|name| bare(name)).collect();
    let is_profile = |name: &str| matches!(name, "aws_profile" | "aws_default_profile");
    settings.retain(|name, _| {
        let is_replaced = names.contains(&bare(name)) || (has_endpoint && is_endpoint(name));
        !is_replaced && !(has_credentials && (is_secret(name) || is_profile(name)))
    });
    settings.extend(own);
}

/// Returns the settings of the longest address that `uri` is at or below.
fn of_address(uri: &str, scheme: &str) -> Result<Option<BTreeMap<String, String>>> {
    let Some(text) = std::env::var(BY_ADDRESS).ok().filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let unusable = |what: String| Error::invalid(format!("{BY_ADDRESS} cannot be used: {what}"));
    let wrong = |what: String| {
        unusable(what).hint(
            "it is the path of a file, or JSON: {\"s3://bucket\": {\"endpoint_url\": \"https://...\", \"profile\": \"...\"}}",
        )
    };
    // An error of the parser could show a value, which may be a secret: only its place is told.
    let at = |e: &serde_json::Error| wrong(format!("it is not JSON at line {} column {}", e.line(), e.column()));
    let text = match text.trim_start().starts_with('{') {
        true => text,
        // JSON in quotes, as in a file of variables, has secrets, too: only a text that can be no JSON is told.
        false if text.contains(['{', '"']) => return Err(wrong("it is JSON in quotes, or in a list".to_owned())),
        false => std::fs::read_to_string(&text).map_err(|e| wrong(format!("{text}: {e}")))?,
    };
    let all: BTreeMap<String, Value> = serde_json::from_str(&text).map_err(|e| at(&e))?;
    let is_below = |address: &str| {
        let address = address.trim_end_matches('/');
        uri.strip_prefix(address).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let Some((address, own)) =
        all.iter().filter(|(at, _)| is_below(at)).max_by_key(|(at, _)| at.trim_end_matches('/').len())
    else {
        return Ok(None);
    };
    let own = own.as_object().ok_or_else(|| wrong(format!("the settings of {address:?} are no object")))?;
    let mut settings = BTreeMap::new();
    for (name, value) in own {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Bool(is_set) => is_set.to_string(),
            Value::Null => continue,
            _ => return Err(wrong(format!("{name:?} of {address:?} is no text"))),
        };
        let name = name.to_ascii_lowercase();
        if !is_known(scheme, &name) {
            return Err(unusable(format!("{address:?} has no setting {name:?}")).hint(NAMES));
        }
        settings.insert(name, value);
    }
    Ok(Some(settings))
}

/// The settings that are used most, for errors.
const NAMES: &str = "s3:// has access_key_id, secret_access_key, session_token, region, endpoint_url, skip_signature and profile; gs:// has \
                     service_account and skip_signature; az:// has account_name, account_key and sas_token";

fn is_known(scheme: &str, name: &str) -> bool {
    match scheme {
        "gs" => name.parse::<GoogleConfigKey>().is_ok(),
        "az" | "adl" | "azure" | "abfs" | "abfss" => name.parse::<AzureConfigKey>().is_ok(),
        _ => name == PROFILE || name.parse::<AmazonS3ConfigKey>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn credentials_of_an_address_replace_all_of_the_environment() {
        let environment = map(&[
            ("aws_access_key_id", "a"),
            ("aws_secret_access_key", "b"),
            ("aws_session_token", "c"),
            ("aws_profile", "d"),
            ("aws_region", "e"),
            ("aws_endpoint_url_s3", "f"),
        ]);
        let after = |own: &[(&str, &str)]| {
            let mut settings = environment.clone();
            override_with(&mut settings, map(own));
            settings
        };
        let own = [("access_key_id", "x"), ("secret_access_key", "y")];
        let rest = [("aws_region", "e"), ("aws_endpoint_url_s3", "f")];
        assert_eq!(after(&own), map(&[own, rest].concat()));
        assert_eq!(after(&[("region", "z")]).get("aws_region"), None);
        assert_eq!(after(&[("endpoint_url", "z")]).get("aws_endpoint_url_s3"), None);
        assert_eq!(after(&[("profile", "z")]), map(&[&[("profile", "z")][..], &rest[..]].concat()));
    }
}
