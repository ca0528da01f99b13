//! Validates the spec of a service, with messages for its author. Pure.
//!
//! The schema rejects some faults already. Faults that need two fields, and objects older than the schema, reach this
//! module.

use std::collections::BTreeSet;

use super::service::{Dispatcher, ForebayServiceSpec, Worker};
use super::validate::bytes;

/// Longest names of a service and of a worker type. Names and labels of at most 63 characters contain both.
const NAME_MAX: usize = 30;
const TYPE_MAX: usize = 20;
/// Options that only the operator writes.
const DISPATCHERS_OWN: [&str; 14] = [
    "--listen",
    "--metrics",
    "--state-dir",
    "--store",
    "--advertise",
    "--max-workers",
    "--offer",
    "--objective",
    "--trainer-price",
    "--worker-price",
    "--tokens",
    "--tls-cert",
    "--tls-key",
    "--tls-client-ca",
];
const WORKERS_OWN: [&str; 13] = [
    "--dispatcher",
    "--listen",
    "--metrics",
    "--advertise",
    "--threads",
    "--kind",
    "--price",
    "--spot",
    "--token-file",
    "--tls-ca",
    "--tls-cert",
    "--tls-key",
    "--tls-client-ca",
];

/// Validates a service of this name and spec.
///
/// # Errors
/// A sentence that names the field, its value, and what to write.
pub(crate) fn validate(name: &str, spec: &ForebayServiceSpec) -> Result<(), String> {
    if !is_name(name, NAME_MAX) {
        let allowed = format!("at most {NAME_MAX} of a-z, 0-9 and -, and the first is a letter");
        return Err(format!("{name:?} is no name for a service: write {allowed}"));
    }
    if spec.image.trim().is_empty() {
        return Err("spec.image is missing: write the image that has forebay".to_owned());
    }
    dispatcher(&spec.dispatcher)?;
    workers(spec)?;
    for (at, secret) in [
        ("spec.tls", spec.tls.as_ref().map(|it| &it.secret_name)),
        ("spec.tokens", spec.tokens.as_ref().map(|it| &it.secret_name)),
    ] {
        if secret.is_some_and(|name| name.trim().is_empty()) {
            return Err(format!("{at}.secretName is missing: write the name of a Secret of this namespace"));
        }
    }
    objective(spec)
}

fn is_name(name: &str, longest: usize) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inner)
        && !name.ends_with('-')
        && name.len() <= longest
}

fn dispatcher(of: &Dispatcher) -> Result<(), String> {
    match (&of.volume, &of.etcd) {
        (None, None) => {
            return Err("spec.dispatcher says not where its state is: write volume (one dispatcher) or etcd".to_owned());
        }
        (Some(_), Some(_)) => return Err("spec.dispatcher has volume and etcd: write one of them".to_owned()),
        (Some(volume), None) => {
            if volume.claim_name.is_some() && (volume.size.is_some() || volume.storage_class_name.is_some()) {
                let at = "spec.dispatcher.volume";
                return Err(format!("{at} has claimName, and size or storageClassName: the claim has both already"));
            }
            let is_size = |size: &String| bytes(size).is_some_and(|bytes| bytes >= 1.0);
            if let Some(size) = volume.size.as_ref().filter(|size| !is_size(size)) {
                return Err(format!("spec.dispatcher.volume.size is {size:?}: write a quantity, as 10Gi"));
            }
        }
        (None, Some(etcd)) => {
            let is_address = |address: &String| {
                let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
                port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
            };
            if etcd.endpoints.is_empty() {
                return Err("spec.dispatcher.etcd.endpoints is empty: write host:port of each member".to_owned());
            }
            if let Some(wrong) = etcd.endpoints.iter().find(|address| !is_address(address)) {
                return Err(format!("spec.dispatcher.etcd.endpoints has {wrong:?}: write host:port"));
            }
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if let Some(prefix) = etcd.prefix.as_ref().filter(|p| p.is_empty() || !p.chars().all(is_plain)) {
                return Err(format!("spec.dispatcher.etcd.prefix is {prefix:?}: write letters, digits, ., _ and -"));
            }
        }
    }
    arguments("spec.dispatcher.args", &of.args, &DISPATCHERS_OWN)
}

fn workers(spec: &ForebayServiceSpec) -> Result<(), String> {
    if spec.workers.is_empty() {
        return Err("spec.workers is empty: write at least one worker type".to_owned());
    }
    let (mut names, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for (i, worker) in spec.workers.iter().enumerate() {
        let at = format!("spec.workers[{i}]");
        one(spec, &at, worker)?;
        if !names.insert(&worker.name) {
            return Err(format!("{at}.name is {:?}, as that of a type before it", worker.name));
        }
        if let Some(kind) = spec.kind(worker)
            && !kinds.insert((kind, worker.spot))
        {
            let spot = if worker.spot { " (spot)" } else { "" };
            return Err(format!("{at} is of kind {kind}{spot}, as a type before it: give each another kind"));
        }
        if spec.workers.len() > 1 && (worker.price.is_none() || worker.threads.is_none()) {
            let why = "with several types, the dispatcher compares what their threads cost";
            return Err(format!("{at} has no price, or no threads: write both, because {why}"));
        }
    }
    Ok(())
}

fn one(spec: &ForebayServiceSpec, at: &str, worker: &Worker) -> Result<(), String> {
    if !is_name(&worker.name, TYPE_MAX) {
        let allowed = format!("at most {TYPE_MAX} of a-z, 0-9 and -, and the first is a letter");
        return Err(format!("{at}.name is {:?}: write {allowed}", worker.name));
    }
    let is_plain =
        |kind: &str| !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if let Some(kind) = worker.kind.as_ref().filter(|kind| !is_plain(kind)) {
        return Err(format!("{at}.kind is {kind:?}: write letters, digits, ., _ and -"));
    }
    if worker.price.is_some_and(|price| !(0.0..=1e6).contains(&price)) {
        return Err(format!("{at}.price is not from 0 to 1000000 for an hour"));
    }
    if worker.spot && worker.price.is_none() {
        return Err(format!("{at} is spot without a price: write what a worker costs for an hour"));
    }
    if worker.threads.is_some_and(|threads| !(1..=4096).contains(&threads)) {
        return Err(format!("{at}.threads is not from 1 to 4096"));
    }
    let (min, max) = spec.bounds(worker);
    if max == 0 || max > 100_000 || min > max {
        return Err(format!("{at}.replicas is from {min} to {max}: write a max from 1 to 100000, and a min up to it"));
    }
    arguments(&format!("{at}.args"), &worker.args, &WORKERS_OWN)
}

fn arguments(at: &str, args: &[String], own: &[&str]) -> Result<(), String> {
    let option = |arg: &String| arg.split('=').next().unwrap_or_default().to_owned();
    match args.iter().map(option).find(|option| own.contains(&option.as_str())) {
        Some(option) => Err(format!("{at} has {option}, which the operator writes: use the field of the spec")),
        None => Ok(()),
    }
}

fn objective(spec: &ForebayServiceSpec) -> Result<(), String> {
    let Some(autoscale) = &spec.autoscale else { return Ok(()) };
    let objective = autoscale.objective.as_deref().unwrap_or("time");
    let within = objective.strip_prefix("cost-within:").map(str::parse::<f64>);
    match (objective, within) {
        ("time", _) if autoscale.trainer_price.is_some() => {
            return Err(
                "spec.autoscale.trainerPrice is for the objectives cost and cost-within: leave it out".to_owned()
            );
        }
        ("time", _) => return Ok(()),
        ("cost", _) => {}
        (_, Some(Ok(factor))) if factor >= 1.0 && factor.is_finite() => {}
        _ => {
            let may = "write time, cost, or cost-within:1.05 (a number of at least 1)";
            return Err(format!("spec.autoscale.objective is {objective:?}: {may}"));
        }
    }
    if autoscale.trainer_price.is_none_or(|price| !(0.0..=1e6).contains(&price)) {
        return Err(format!("spec.autoscale.trainerPrice is missing, or no price: {objective} needs it"));
    }
    if spec.workers.iter().any(|worker| worker.price.is_none()) {
        return Err(format!("a worker type has no price: {objective} needs one for each"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_reported_with_its_field_and_the_correction() {
        let worker = r#"{"name":"cpu"}"#;
        let with = |dispatcher: &str, rest: &str| format!(r#"{{"image":"i","dispatcher":{dispatcher},{rest}}}"#);
        let volume = |rest: &str| with(r#"{"volume":{}}"#, rest);
        let two = |a: &str, b: &str| volume(&format!(r#""workers":[{a},{b}]"#));
        let wrong = [
            ("{}".to_owned(), "spec.image is missing"),
            (with("{}", "\"workers\":[]"), "write volume (one dispatcher) or etcd"),
            (with(r#"{"volume":{},"etcd":{"endpoints":["e:1"]}}"#, "\"workers\":[]"), "write one of them"),
            (with(r#"{"volume":{"size":"much"}}"#, "\"workers\":[]"), "volume.size is \"much\""),
            (with(r#"{"volume":{"size":"1Gi","claimName":"c"}}"#, "\"workers\":[]"), "has both already"),
            (with(r#"{"etcd":{"endpoints":["http://e"]}}"#, "\"workers\":[]"), "write host:port"),
            (with(r#"{"volume":{},"args":["--listen=:1"]}"#, "\"workers\":[]"), "use the field of the spec"),
            (volume("\"workers\":[]"), "at least one worker type"),
            (two(worker, worker), "spec.workers[0] has no price"),
            (
                two(r#"{"name":"a","price":1,"threads":1}"#, r#"{"name":"a","price":1,"threads":1}"#),
                "[1].name is \"a\"",
            ),
            (
                two(
                    r#"{"name":"a","kind":"k","price":1,"threads":1}"#,
                    r#"{"name":"b","kind":"k","price":1,"threads":1}"#,
                ),
                "is of kind k",
            ),
            (volume(r#""workers":[{"name":"a","replicas":{"min":5,"max":2}}]"#), "from 5 to 2"),
            (volume(r#""workers":[{"name":"A"}]"#), "[0].name is \"A\""),
            (volume(r#""workers":[{"name":"a","spot":true}]"#), "spot without a price"),
            (volume(&format!(r#""workers":[{worker}],"tls":{{}}"#)), "spec.tls.secretName is missing"),
            (volume(&format!(r#""workers":[{worker}],"autoscale":{{"objective":"speed"}}"#)), "write time, cost"),
            (volume(&format!(r#""workers":[{worker}],"autoscale":{{"objective":"cost"}}"#)), "trainerPrice is missing"),
        ];
        for (text, expected) in wrong {
            let spec: ForebayServiceSpec = serde_json::from_str(&text).expect(&text);
            let fault = validate("s", &spec).expect_err(&text);
            assert!(fault.contains(expected), "{text}: {fault}");
        }
        let spec: ForebayServiceSpec =
            serde_json::from_str(&volume(&format!(r#""workers":[{worker}]"#))).expect("a spec");
        assert_eq!(validate("s", &spec), Ok(()));
        for name in ["", "S", "1", "a.b", &"a".repeat(31)] {
            assert!(validate(name, &spec).is_err(), "{name}");
        }
    }
}
