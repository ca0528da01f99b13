//! The url of an etcd cluster and a prefix in it: `etcd://a:2379,b:2379/prefix`.

use std::str::FromStr;

use forebay_core::{Error, Result};
use forebay_proto::Address;

const PORT: u16 = 2379;
const PREFIX: &str = "forebay";

/// The members of an etcd cluster, and the prefix of all keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdUrl {
    pub(crate) members: Vec<Address>,
    /// Without leading and trailing slashes. Default: `forebay`.
    pub(crate) prefix: String,
}

impl FromStr for EtcdUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::invalid(format!("{text:?} is no store: {what}")).hint("write etcd://host:2379,host:2379/prefix")
        };
        let rest = text.strip_prefix("etcd://").ok_or_else(|| wrong("it does not begin with etcd://"))?;
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let members = members.split(',').map(|m| Address::with_port(m.trim(), PORT));
        let members = members.collect::<Result<_>>().map_err(|e| wrong(e.message()))?;
        let prefix = prefix.trim_matches('/');
        if !prefix.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c)) {
            return Err(wrong("a prefix has letters, digits and -._/ only"));
        }
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        Ok(Self { members, prefix: prefix.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_ports_and_the_prefix_a_default() -> Result<()> {
        let url: EtcdUrl = "etcd://a:1,b/x/y/".parse()?;
        let members: Vec<_> = url.members.iter().map(Address::to_string).collect();
        assert_eq!((members, url.prefix.as_str()), (vec!["a:1".to_owned(), "b:2379".to_owned()], "x/y"));
        assert_eq!("etcd://a".parse::<EtcdUrl>()?.prefix, "forebay");
        for wrong in ["redis://a", "etcd://", "etcd://a:b", "etcd://a/ü", "etcd://a,,b"] {
            assert!(wrong.parse::<EtcdUrl>().is_err(), "{wrong}");
        }
        Ok(())
    }
}
