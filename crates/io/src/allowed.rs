//! The files and addresses that the pipelines of a job may read: the sources that its tenant was given. An address of
//! this machine or of its link needs a rule that names it.
//!
//! A rule is the beginning of an address (`s3://bucket/`, `https://host/data/`) or a folder (`/data/`). A path is
//! compared after the system resolves it, so no link and no `..` leads out of a folder; an address is compared as a
//! parsed url, so no spelling does. Invariants: the error of a refused file is the same whether the file exists or not;
//! a file is checked again after it is opened, so a file that was exchanged meanwhile is not read.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use url::Url;

use crate::store::{is_remote, local_path};

/// The files and addresses that a job may read. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowed {
    /// Each list must allow a file.
    lists: Arc<[Vec<Rule>]>,
    guarded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Folder(PathBuf),
    /// The beginning of a url.
    Url(Url),
}

impl Allowed {
    /// Allows everything that this process can read: for pipelines of its own user.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Allows the files that all of these lists allow; a list without a rule allows everything. A job of a tenant is
    /// `guarded`: it reaches the addresses of the machine itself only where a rule names the host, and follows a
    /// redirect to another host only where a rule names that host.
    ///
    /// # Errors
    /// Invalid when a rule is neither a whole path nor the beginning of a url.
    pub fn of<S: AsRef<str>>(lists: &[&[S]], guarded: bool) -> Result<Self> {
        let rules = |list: &[S]| list.iter().map(|rule| Rule::parse(rule.as_ref())).collect::<Result<Vec<_>>>();
        let lists = lists.iter().filter(|list| !list.is_empty()).map(|list| rules(list)).collect::<Result<_>>()?;
        Ok(Self { lists, guarded })
    }

    /// Whether no list restricts anything.
    fn is_everything(&self) -> bool {
        self.lists.is_empty()
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Refuses a pattern that leads outside of the allowed files, before anything is listed.
    pub(crate) fn check_pattern(&self, pattern: &str) -> Result<()> {
        if self.is_everything() {
            return Ok(());
        }
        crate::store::expand(pattern)?
            .iter()
            .try_for_each(|path| self.check_glob(path))
            .map_err(|e| e.replace("file", pattern))
    }

    /// Does the same as [`Allowed::check_pattern`] for a pattern without braces.
    fn check_glob(&self, pattern: &str) -> Result<()> {
        let (literal, rest) = pattern.split_at(pattern.find(['*', '?', '[']).unwrap_or(pattern.len()));
        // A part such as `[.][.]` matches one name only, `..`.
        let from = literal.rfind('/').map_or(0, |at| at + 1);
        if !rest.is_empty()
            && pattern[from..].split('/').any(|part| crate::store::only_name(part).as_deref() == Some(".."))
        {
            return Err(refused(pattern));
        }
        let folder = if rest.is_empty() { literal } else { &literal[..literal.rfind('/').map_or(0, |at| at + 1)] };
        self.check(folder)
    }

    /// Refuses a file that is not allowed.
    pub(crate) fn check(&self, uri: &str) -> Result<()> {
        if self.is_everything() {
            return Ok(());
        }
        let allows: Box<dyn Fn(&Rule) -> bool> = if is_remote(uri) {
            let url = Url::parse(uri).map_err(|_| refused(uri))?;
            Box::new(move |rule| rule.has_url(&url))
        } else {
            let path = resolved(Path::new(local_path(uri)));
            Box::new(move |rule| rule.has_path(&path))
        };
        match self.lists.iter().all(|list| list.iter().any(&allows)) {
            true => Ok(()),
            false => Err(refused(uri)),
        }
    }

    /// Refuses an open file that is not at the allowed place that its name said.
    pub(crate) fn check_open(&self, uri: &str, file: &std::fs::File) -> Result<()> {
        use std::os::fd::AsRawFd;
        if self.is_everything() {
            return Ok(());
        }
        // Where the system does not report the path of the open file, the name is checked again.
        let at = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        match at.ok().as_deref().and_then(Path::to_str) {
            Some(path) => self.check(path).map_err(|e| e.replace("file", uri)),
            None => self.check(uri),
        }
    }

    /// Says whether a rule of each list names this host: then it may be reached at any address.
    pub(crate) fn names_host(&self, host: &str) -> bool {
        let names = |rule: &Rule| matches!(rule, Rule::Url(url) if url.host_str() == Some(host));
        !self.lists.is_empty() && self.lists.iter().all(|list| list.iter().any(names))
    }

    /// Says whether a server may redirect a request for `from` to `to`.
    pub(crate) fn may_follow(&self, from: &Url, to: &Url) -> bool {
        matches!(to.scheme(), "http" | "https")
            && self.check(to.as_str()).is_ok()
            && (from.origin() == to.origin() || to.host_str().is_some_and(|host| self.names_host(host)))
    }
}

/// Tells two sets of rules apart: part of the name of a store that was opened with them.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lists)
    }
}

impl Rule {
    fn parse(rule: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!("{rule:?} names no sources"))
                .hint("write a whole path (/data/), or the beginning of an address (s3://bucket/, https://host/data/)")
        };
        if is_remote(rule) {
            return Ok(Self::Url(Url::parse(rule).ok().filter(has_host).ok_or_else(wrong)?));
        }
        let path = Path::new(local_path(rule));
        if path.is_absolute() { Ok(Self::Folder(resolved(path))) } else { Err(wrong()) }
    }

    fn has_path(&self, path: &Path) -> bool {
        // Names compare whole: /data is not the beginning of /data2.
        matches!(self, Self::Folder(folder) if path.starts_with(folder))
    }

    fn has_url(&self, url: &Url) -> bool {
        let Self::Url(rule) = self else { return false };
        let scheme = |url: &Url| if url.scheme() == "s3a" { "s3".to_owned() } else { url.scheme().to_owned() };
        let same = scheme(rule) == scheme(url)
            && (rule.host_str(), rule.port_or_known_default()) == (url.host_str(), url.port_or_known_default())
            && (rule.username(), rule.password()) == (url.username(), url.password());
        // A path is parsed once, as its reader parses it.
        let (begins, path) = (rule.path().trim_end_matches('/'), url.path());
        let rest = path.strip_prefix(begins);
        let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        same && is_below && !has_encoded_parent(path)
    }
}

fn has_host(url: &Url) -> bool {
    url.host_str().is_some_and(|host| !host.is_empty())
}

/// Says whether a path has an encoded `..` that only a server would decode.
fn has_encoded_parent(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    path.split(['/', '\\']).any(|part| part == "..")
}

/// Returns the path with links resolved as far as it exists, and without `..` in the rest.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    let mut whole = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => _ = whole.pop(),
            Component::Normal(name) => {
                whole.push(name);
                whole = std::fs::canonicalize(&whole).unwrap_or(whole);
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    whole
}

fn refused(uri: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, "jobs of this tenant may not read this source").with("file", uri).hint(
        "have it allowed: --allow-source of the dispatcher and of the workers, or `sources` of the tenant in the token file",
    )
}

/// Says whether an address is this machine itself, or is reachable only on its own link: clouds serve credentials
/// there.
pub(crate) fn is_own(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_own_v4(v4),
        IpAddr::V6(v6) => is_own_v6(v6),
    }
}

fn is_own_v4(v4: Ipv4Addr) -> bool {
    // The metadata addresses of two clouds that do not use the usual one.
    const METADATA: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
    let is_this_network = v4.octets()[0] == 0;
    v4.is_loopback() || v4.is_link_local() || is_this_network || v4.is_broadcast() || METADATA.contains(&v4)
}

fn is_own_v6(v6: Ipv6Addr) -> bool {
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let segments = v6.segments();
    // IPv6 addresses that stand for an IPv4 one: mapped, translated (64:ff9b::/96), and tunnelled (2002::/16).
    let low = Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    let tunnelled = Ipv4Addr::from((u32::from(segments[1]) << 16) | u32::from(segments[2]));
    let is_translated = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || segments[..6] == [0; 6];
    v6.is_loopback()
        || v6.is_unspecified()
        || v6.is_unicast_link_local()
        || v6 == METADATA
        || v6.to_ipv4_mapped().is_some_and(is_own_v4)
        || is_translated && is_own_v4(low)
        || segments[0] == 0x2002 && is_own_v4(tunnelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rules: &[&str]) -> Allowed {
        Allowed::of(&[rules], true).expect("rules")
    }

    #[test]
    fn addresses_are_compared_part_by_part_however_they_are_written() {
        let may = allowed(&["s3://bucket/train", "https://data.example/sets/", "http://127.0.0.1:9000/"]);
        for uri in [
            "s3://bucket/train",
            "s3://bucket/train/x.tar",
            "s3a://bucket/train/x",
            "https://DATA.example:443/sets/x",
            "https://data.example/sets/../sets/x",
            "http://127.0.0.1:9000/x",
        ] {
            assert_eq!(may.check(uri), Ok(()), "{uri}");
        }
        for uri in [
            "s3://bucket/",
            "s3://bucket/training/x",
            "s3://bucket2/train/x",
            "gs://bucket/train/x",
            "s3://bucket/train/../x",
            "https://data.example.evil/sets/x",
            "https://data.example@evil/sets/x",
            "https://evil#data.example/sets/",
            "https://data.example/sets/%2e%2e/x",
            "https://data.example/sets/..%2fx",
            "http://data.example/sets/x",
            "http://127.0.0.1:9001/x",
            "http://127.0.0.1/x",
            "/data/x",
            "s3:bucket/train/x",
        ] {
            assert_eq!(may.check(uri).map_err(|e| e.kind()), Err(ErrorKind::PermissionDenied), "{uri}");
        }
    }

    #[test]
    fn no_link_and_no_dots_lead_out_of_a_folder() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name).display().to_string();
        for folder in ["data", "data2", "secret"] {
            std::fs::create_dir(at(folder))?;
            std::fs::write(at(&format!("{folder}/x")), folder)?;
        }
        std::os::unix::fs::symlink(at("secret"), at("data/link"))?;
        std::os::unix::fs::symlink(at("data"), at("alias"))?;
        let may = allowed(&[&at("data")]);
        for path in ["data/x", "data/./x", "data/new", "data/../data/x", "alias/x"] {
            assert_eq!(may.check(&at(path)), Ok(()), "{path}");
            assert_eq!(may.check(&format!("file://{}", at(path))), Ok(()), "{path}");
        }
        for path in
            ["data2/x", "secret/x", "data/link/x", "data/link/none", "data/../secret/x", "data/none/../../secret/x", ""]
        {
            assert!(may.check(&at(path)).is_err(), "{path}");
        }
        for pattern in ["data/*", "data/**/*.x", "data/{a,b}/x", "data/{0000..0009}"] {
            assert_eq!(may.check_pattern(&at(pattern)), Ok(()), "{pattern}");
        }
        for pattern in [
            "*",
            "da*/x",
            "data/*/../../secret/*",
            "data/{..,a}/secret/x",
            "data/{.,x}{.,y}/secret/*",
            "data/[.][.]/secret/*",
            "data/x/[.]./../secret/*",
            "secret/*",
        ] {
            assert!(may.check_pattern(&at(pattern)).is_err(), "{pattern}");
        }
        let there = may.check(&at("secret/x")).expect_err("there").to_json().replace("secret/x", "secret/none");
        assert_eq!(may.check(&at("secret/none")).expect_err("not there").to_json(), there);
        // A file that was exchanged after its name was checked.
        let file = std::fs::File::open(at("data/link/x"))?;
        assert!(may.check_open(&at("data/x"), &file).is_err());
        Ok(())
    }

    #[test]
    fn all_lists_must_allow_and_none_is_everything() -> Result<()> {
        let both = Allowed::of(&[&["/data", "s3://a/"][..], &["/data/own", "s3://b/"]], true)?;
        assert_eq!(both.check("/data/own/x"), Ok(()));
        assert!(both.check("/data/x").is_err() && both.check("s3://a/x").is_err());
        assert_eq!(Allowed::of::<&str>(&[&[], &[]], false)?, Allowed::everything());
        assert_eq!(Allowed::everything().check("/etc/passwd"), Ok(()));
        for wrong in ["data", "", "s3://", "../x", "https://"] {
            assert!(Allowed::of(&[&[wrong]], true).is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn addresses_of_this_machine_and_of_its_link_are_known_in_all_their_forms() {
        let is = |text: &str| is_own(text.parse().expect(text));
        for own in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.100.100.200",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fd00:ec2::254",
            "::127.0.0.1",
        ] {
            assert!(is(own), "{own}");
        }
        for other in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1", "::ffff:8.8.8.8"] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn a_server_leads_to_no_other_host_that_no_rule_names() -> Result<()> {
        let url = |text: &str| Url::parse(text).expect(text);
        let from = url("https://a.example/x");
        let (free, listed) =
            (Allowed::of::<&str>(&[], true)?, allowed(&["https://a.example/", "https://cdn.example/sets/"]));
        assert!(
            free.may_follow(&from, &url("https://a.example/y"))
                && listed.may_follow(&from, &url("https://a.example/y"))
        );
        assert!(listed.may_follow(&from, &url("https://cdn.example/sets/y")));
        for to in [
            "https://b.example/",
            "http://a.example/y",
            "https://a.example:8443/",
            "file:///etc/passwd",
            "https://cdn.example/y",
        ] {
            assert!(!listed.may_follow(&from, &url(to)) && !free.may_follow(&from, &url(to)), "{to}");
        }
        Ok(())
    }
}
