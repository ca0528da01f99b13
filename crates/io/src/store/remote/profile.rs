//! The profiles of AWS's tools: `~/.aws/credentials` and `~/.aws/config`.
//!
//! A profile gives what the environment lacks: keys, the region, the endpoint and a role for a web identity. Profiles that
//! start a program or a sign-in (`sso_*`, `credential_process`, `source_profile`) are refused where the user names one:
//! AWS's tools turn their credentials into variables. Bound: a file has a mebibyte.

#![expect(clippy::disallowed_methods, reason = "the settings of stores come from the environment")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};

use super::settings::{PROFILE, is_endpoint, is_secret};

const FILE_BYTES_MAX: u64 = 1 << 20;
/// The settings of a profile that are used as they are.
const KEYS: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
/// The settings of a profile that need more than the file.
const STEPS: [&str; 5] = ["sso_session", "sso_start_url", "credential_process", "source_profile", "credential_source"];

type Section = BTreeMap<String, String>;

/// Adds the settings of the profile that is named, or of the profile `default`, which may be absent.
///
/// # Errors
/// NotFound when a profile that is named is in neither file; Invalid when its credentials need another program.
pub(super) fn complete(settings: &mut BTreeMap<String, String>) -> Result<()> {
    // The names of the files are no settings of the store, and the second looks like a credential.
    settings.retain(|name, _| !matches!(name.as_str(), "aws_config_file" | "aws_shared_credentials_file"));
    let own = settings.remove(PROFILE);
    let given = settings.remove("aws_profile").or_else(|| settings.remove("aws_default_profile"));
    let named = own.or(given);
    let name = named.as_deref().unwrap_or("default");
    let files = [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")];
    let [config, credentials] = files.each_ref().map(|path| path.as_deref().and_then(read).unwrap_or_default());
    let plain = || section(&config, name).filter(|_| name == "default");
    let found = [section(&config, &format!("profile {name}")).or_else(plain), section(&credentials, name)];
    if named.is_some() && found.iter().all(Option::is_none) {
        let at = files.iter().flatten().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
        return Err(Error::new(ErrorKind::NotFound, format!("there is no AWS profile {name:?}"))
            .with("files", at)
            .hint("`aws configure list-profiles` prints the names; also where the workers run"));
    }
    // The file of credentials comes second, because it wins.
    let profile: Section = found.into_iter().flatten().flatten().collect();
    let get = |name: &str| profile.get(name).filter(|value| !value.is_empty()).cloned();
    if !settings.keys().any(|name| is_secret(name)) {
        let keys = KEYS.iter().filter_map(|key| Some(((*key).to_owned(), get(key)?)));
        let role = ["role_arn", "web_identity_token_file", "role_session_name"];
        let role = role.iter().filter_map(|key| Some((format!("aws_{key}"), get(key)?)));
        let is_web = get("web_identity_token_file").is_some();
        match (get(KEYS[0]), STEPS.iter().find(|step| profile.contains_key(**step))) {
            (Some(_), _) => settings.extend(keys),
            (None, _) if is_web => settings.extend(role),
            (None, Some(step)) if named.is_some() => {
                return Err(Error::invalid(format!("the AWS profile {name:?} has no keys, but {step}, which Forebay does not run")).hint(
                    format!("`aws configure export-credentials --profile {name} --format env` prints variables with its credentials"),
                ));
            }
            (None, _) => {}
        }
    }
    if !settings.keys().any(|name| name.ends_with("region"))
        && let Some(region) = get("region")
    {
        settings.insert("aws_region".to_owned(), region);
    }
    if !settings.keys().any(|name| is_endpoint(name))
        && let Some(endpoint) = get("endpoint_url")
    {
        settings.insert("aws_endpoint_url".to_owned(), endpoint);
    }
    Ok(())
}

/// Returns the path of a file of AWS's tools.
fn file(variable: &str, name: &str) -> Option<PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(".aws").join(name));
    let set = std::env::var_os(variable).filter(|path| !path.is_empty());
    let Some(set) = set else { return home() };
    match set.to_str().and_then(|path| path.strip_prefix("~/")) {
        Some(below) => Some(std::env::home_dir()?.join(below)),
        None => Some(set.into()),
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the settings of a section. Lines that are indented belong to the setting before them, and are not used.
fn section(text: &str, name: &str) -> Option<Section> {
    let mut found: Option<Section> = None;
    let mut is_inside = false;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').filter(|_| !is_nested) {
            let header = header.split(']').next().unwrap_or_default();
            let words = header.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
            is_inside = words.eq(name.split_whitespace());
            if is_inside {
                found.get_or_insert_default();
            }
        } else if is_inside
            && !is_nested
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            let value = value.split(" #").next().unwrap_or_default().split(" ;").next().unwrap_or_default();
            found.get_or_insert_default().insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_own_settings_alone() {
        let text = "# of all\n[default]\nregion = eu-west-1\n\n[profile \"a b\"]\nAWS_ACCESS_KEY_ID=AK ; the key\n\
                    aws_secret_access_key = x=y#z\ns3 =\n  endpoint_url = nested\n[profile c]\nregion=us-east-2\n";
        let get = |name: &str| section(text, name).map(|found| found.into_iter().collect::<Vec<_>>());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(get("default"), Some(vec![pair("region", "eu-west-1")]));
        let own = vec![pair("aws_access_key_id", "AK"), pair("aws_secret_access_key", "x=y#z"), pair("s3", "")];
        assert_eq!(get("profile a b"), Some(own));
        assert_eq!(get("c"), None);
    }
}
