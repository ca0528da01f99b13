//! Validates the spec of a cache, with messages for its author. Pure.
//!
//! The schema rejects most faults already. Objects older than the schema, and specs inside jobs, reach this module.

use std::collections::BTreeSet;

use super::{CacheBackendSpec, Engine, FluidRuntime, Tier};

/// Longest name: Fluid uses it in labels.
const NAME_MAX: usize = 63;

/// Validates a cache of this name and spec.
///
/// # Errors
/// A sentence with the field, its value, and the allowed values.
pub(crate) fn validate(name: &str, spec: &CacheBackendSpec) -> Result<(), String> {
    named(name)?;
    if let Some(path) = &spec.mount_path {
        mounted(path)?;
    }
    let engine = spec.cache_engine.as_ref().ok_or("spec.cacheEngine is missing: name fluid or forebay")?;
    sources(spec)?;
    tiers(engine)?;
    if spec.options.as_ref().and_then(|o| o.idle_time).is_some_and(|seconds| seconds < 0) {
        return Err("spec.options.idleTime is negative: it is a number of seconds, 0 for never".to_owned());
    }
    Ok(())
}

/// Validates the name of a cache.
///
/// # Errors
/// As [`validate`].
pub(crate) fn named(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inner)
        && !name.ends_with('-')
        && name.len() <= NAME_MAX;
    is_label.then_some(()).ok_or_else(|| {
        format!("{name:?} is no name for a cache: at most {NAME_MAX} of a-z, 0-9 and -, and the first is a letter")
    })
}

/// Validates a mount path.
///
/// # Errors
/// As [`validate`].
pub(crate) fn mounted(path: &str) -> Result<(), String> {
    let is_path = path.starts_with('/') && path.len() > 1 && !path.contains(':') && !path.split('/').any(|p| p == "..");
    is_path
        .then_some(())
        .ok_or_else(|| format!("{path:?} is no mount path: it is absolute, not /, and has no : and no .."))
}

fn sources(spec: &CacheBackendSpec) -> Result<(), String> {
    let sources = spec.sources();
    if sources.is_empty() {
        return Err("spec.dataset.dataSources is empty: name at least one location".to_owned());
    }
    let mut folders = BTreeSet::new();
    for (i, source) in sources.iter().enumerate() {
        let at = format!("spec.dataset.dataSources[{i}]");
        if !source.location.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) {
            return Err(format!("{at}.location is {:?}: it is scheme://path, as s3://bucket/folder", source.location));
        }
        let folder = source.sub_dir_name.as_deref().unwrap_or_default();
        if folder.contains('/') || folder == "." || folder == ".." {
            return Err(format!("{at}.subDirName is {folder:?}: it is the name of one folder"));
        }
        if !folders.insert(folder) {
            let what =
                if folder.is_empty() { "no subDirName".to_owned() } else { format!("the subDirName {folder:?}") };
            return Err(format!("{at} has {what}, as a source before it: each needs a folder of its own"));
        }
    }
    Ok(())
}

fn tiers(engine: &Engine) -> Result<(), String> {
    match (&engine.fluid, &engine.forebay) {
        (Some(_), Some(_)) => Err("spec.cacheEngine names fluid and forebay: name one".to_owned()),
        (None, None) => Err("spec.cacheEngine names no engine that is known: name fluid or forebay".to_owned()),
        (None, Some(forebay)) if forebay.replicas.is_some_and(|replicas| replicas < 0) => {
            Err("spec.cacheEngine.forebay.replicas is negative".to_owned())
        }
        (None, Some(forebay)) => each_tier(&forebay.tiered_storage, "spec.cacheEngine.forebay"),
        (Some(fluid), None) => {
            let all = [
                ("alluxioRuntime", &fluid.alluxio_runtime),
                ("juicefsRuntime", &fluid.juicefs_runtime),
                ("jindoRuntime", &fluid.jindo_runtime),
            ];
            let named: Vec<(&str, &FluidRuntime)> =
                all.into_iter().filter_map(|(name, runtime)| Some((name, runtime.as_ref()?))).collect();
            let [(name, runtime)] = named[..] else {
                let names = "alluxioRuntime, juicefsRuntime or jindoRuntime";
                return Err(format!("spec.cacheEngine.fluid names {} runtimes: name one of {names}", named.len()));
            };
            if runtime.replicas.is_some_and(|replicas| replicas < 0) {
                return Err(format!("spec.cacheEngine.fluid.{name}.replicas is negative"));
            }
            each_tier(&runtime.tiered_storage, &format!("spec.cacheEngine.fluid.{name}"))
        }
    }
}

fn each_tier(tiers: &[Tier], at: &str) -> Result<(), String> {
    let mut paths = BTreeSet::new();
    for (i, tier) in tiers.iter().enumerate() {
        let at = format!("{at}.tieredStorage[{i}]");
        match bytes(&tier.quota) {
            Some(bytes) if bytes >= 1.0 => {}
            Some(_) => return Err(format!("{at}.quota is {:?}: nothing could be kept", tier.quota)),
            None => return Err(format!("{at}.quota is {:?}: it is a quantity, as 1Gi or 500M", tier.quota)),
        }
        if !tier.cache_path.starts_with('/') {
            return Err(format!("{at}.cachePath is {:?}: it is absolute", tier.cache_path));
        }
        if !paths.insert(&tier.cache_path) {
            return Err(format!("{at}.cachePath is {:?}, as that of a tier before it", tier.cache_path));
        }
    }
    Ok(())
}

/// Parses a quantity of Kubernetes in bytes.
pub(crate) fn bytes(quantity: &str) -> Option<f64> {
    let digits = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(digits);
    let number: f64 = number.parse().ok().filter(|n: &f64| n.is_finite())?;
    let powers = ["", "K", "M", "G", "T", "P", "E"];
    let power = |of: &str| powers.iter().position(|p| *p == of).and_then(|p| i32::try_from(p).ok());
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "K" | "i" => return None,
        _ => match (unit.strip_suffix('i'), unit.strip_prefix(['e', 'E']).map(str::parse::<u8>)) {
            (Some(prefix), _) => 1024_f64.powi(power(prefix)?),
            (None, Some(Ok(exponent))) => 10_f64.powi(i32::from(exponent)),
            (None, _) => 1000_f64.powi(power(unit)?),
        },
    };
    Some(number * factor).filter(|bytes| bytes.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let of = [("1Gi", 1_073_741_824.0), ("500M", 5e8), ("1.5k", 1500.0), ("2e3", 2000.0), ("7", 7.0), ("1E", 1e18)];
        for (text, expected) in of {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in ["", "Gi", "1 Gi", "-1", "1K", "1i", "1Xi", "ten", "1e", "1.2.3"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_fault_is_reported_with_its_field() {
        let spec = |text: &str| -> CacheBackendSpec { serde_json::from_str(text).expect("a spec") };
        let sources = r#""dataset":{"dataSources":[{"location":"s3://a/b"}]}"#;
        let wrong = [
            (String::from("{}"), "spec.cacheEngine is missing"),
            (format!("{{{sources},\"cacheEngine\":{{}}}}"), "names no engine that is known"),
            (format!("{{{sources},\"cacheEngine\":{{\"fluid\":{{}}}}}}"), "names 0 runtimes"),
            (format!("{{{sources},\"cacheEngine\":{{\"fluid\":{{}},\"forebay\":{{}}}}}}"), "name one"),
            (r#"{"cacheEngine":{"forebay":{}}}"#.to_owned(), "dataSources is empty"),
            (format!("{{{sources},\"mountPath\":\"data\",\"cacheEngine\":{{\"forebay\":{{}}}}}}"), "is no mount path"),
            (
                r#"{"dataset":{"dataSources":[{"location":"s3://a"},{"location":"s3://b"}]},"cacheEngine":{"forebay":{}}}"#
                    .to_owned(),
                "a folder of its own",
            ),
            (
                format!("{{{sources},\"cacheEngine\":{{\"forebay\":{{\"tieredStorage\":[{{\"cachePath\":\"/a\",\"quota\":\"much\"}}]}}}}}}"),
                "tieredStorage[0].quota is \"much\"",
            ),
        ];
        for (text, expected) in wrong {
            let fault = validate("cache", &spec(&text)).expect_err(&text);
            assert!(fault.contains(expected), "{fault}");
        }
        for name in ["", "Cache", "1st", "a.b", "a-", &"a".repeat(64)] {
            assert!(named(name).is_err(), "{name}");
        }
    }
}
