//! Reads the cache that a workload declares in labels and annotations: a name, a spec, or both. Pure.
//!
//! The pods of a workload inherit its cache. A pod, or a pod template, may declare a cache itself. The cache of a
//! workload's spec without a name is owned by the workload. The cache of a pod's spec without a name is shared by all
//! pods with the same spec, and is deleted after [`IDLE_SECONDS`] without a user.

use serde_json::Value;

use super::uses::{CACHE, annotation, own_name};
use crate::api::cache_backend::Options;
use crate::api::validate::validate;
use crate::api::{CacheBackend, CacheBackendSpec};
use crate::cluster::objects::text;
use crate::engines::engine_of;

/// Annotation: the spec of a CacheBackend, as YAML or JSON.
pub(crate) const SPEC: &str = "forebay.dev/cache-spec";
/// Default idle time, in seconds, of a cache that pods define.
const IDLE_SECONDS: i64 = 600;

/// The cache that an object declares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declaration {
    /// Name of the cache.
    pub(crate) name: String,
    /// The spec in the annotation, or its fault; `None` without the annotation.
    pub(crate) spec: Option<Result<CacheBackendSpec, String>>,
    /// The object owns the cache.
    pub(crate) is_own: bool,
}

/// Reads the declaration of a workload.
pub(crate) fn of_job(job: &Value) -> Option<Declaration> {
    let own = || own_name(text(job, "/metadata/name"), text(job, "/metadata/uid"));
    read(job).map(|(name, spec)| {
        let is_own = name.is_none();
        Declaration { name: name.unwrap_or_else(own), spec, is_own }
    })
}

/// Reads the declaration of a pod or a pod template.
pub(crate) fn of_pod(pod: &Value) -> Option<Declaration> {
    read(pod).map(|(name, spec)| {
        let of_spec = format!("cache-{:012x}", hash(annotation(pod, SPEC).unwrap_or_default()));
        // The webhook writes this name into a pod without one.
        let is_shared = name.as_ref().is_none_or(|name| *name == of_spec);
        let spec = spec.map(|spec| spec.map(|spec| if is_shared { with_idle_time(spec) } else { spec }));
        Declaration { name: name.unwrap_or(of_spec), spec, is_own: false }
    })
}

type Named = (Option<String>, Option<Result<CacheBackendSpec, String>>);

fn read(object: &Value) -> Option<Named> {
    let label = || object.pointer("/metadata/labels").and_then(|all| all.get(CACHE)).and_then(Value::as_str);
    let name = annotation(object, CACHE).or_else(label).filter(|name| !name.is_empty()).map(str::to_owned);
    let spec = annotation(object, SPEC).map(spec_of);
    (name.is_some() || spec.is_some()).then_some((name, spec))
}

/// Parses a spec. An unknown field is an error, because it would have no effect.
fn spec_of(written: &str) -> Result<CacheBackendSpec, String> {
    let fault = |what: String| format!("the annotation {SPEC} {what}");
    let given: Value = serde_saphyr::from_str(written).map_err(|e| fault(format!("is no YAML: {e}")))?;
    let spec: CacheBackendSpec =
        serde_json::from_value(given.clone()).map_err(|e| fault(format!("is no spec of a CacheBackend: {e}")))?;
    let known = serde_json::to_value(&spec).map_err(|e| fault(e.to_string()))?;
    if let Some(field) = unknown(&given, &known, "") {
        return Err(fault(format!("has the field {field}, which a CacheBackend has not")));
    }
    if spec.name.is_some() {
        return Err(fault(format!("has a name: write it in the annotation {CACHE}")));
    }
    let engine = |()| {
        let cache = CacheBackend::new("cache", spec.clone());
        engine_of(&spec).map_or(Ok(()), |engine| engine.validate(&cache))
    };
    validate("cache", &spec).and_then(engine).map_err(|what| fault(format!("is wrong: {what}")))?;
    Ok(spec)
}

/// Returns the path of the first unknown field.
fn unknown(given: &Value, known: &Value, at: &str) -> Option<String> {
    match (given, known) {
        (Value::Object(given), _) => given.iter().find_map(|(field, value)| {
            let at = if at.is_empty() { field.clone() } else { format!("{at}.{field}") };
            match known.get(field) {
                Some(known) => unknown(value, known, &at),
                // `known` is serialized without null and empty fields, so these are not unknown.
                None if value.is_null() || value.as_array().is_some_and(Vec::is_empty) => None,
                None => Some(at),
            }
        }),
        (Value::Array(given), Value::Array(known)) => {
            given.iter().zip(known).enumerate().find_map(|(i, (g, k))| unknown(g, k, &format!("{at}[{i}]")))
        }
        _ => None,
    }
}

fn with_idle_time(mut spec: CacheBackendSpec) -> CacheBackendSpec {
    let options = spec.options.get_or_insert_with(Options::default);
    options.idle_time.get_or_insert(IDLE_SECONDS);
    spec
}

/// 48 bits of FNV-1a. The names of caches must be the same in each version of the operator.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step) & 0xffff_ffff_ffff
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const YAML: &str = "dataset: {dataSources: [{location: \"s3://a/b\"}]}\ncacheEngine: {forebay: {}}\n";

    fn with(annotations: Value) -> Value {
        json!({"metadata": {"name": "j", "uid": "12-345-678", "annotations": annotations}})
    }

    #[test]
    fn workloads_and_pods_refer_to_caches_and_define_them() {
        let both = with(json!({CACHE: "c", SPEC: YAML}));
        let (job, pod) = (of_job(&both).expect("it is written"), of_pod(&both).expect("it is written"));
        assert_eq!((job.name.as_str(), job.is_own, job.spec.clone()), ("c", false, pod.spec.clone()));
        assert!(job.spec.is_some_and(|spec| spec.is_ok_and(|spec| spec.is_definition())));
        let own = with(json!({SPEC: YAML}));
        let job = of_job(&own).expect("it is written");
        assert_eq!((job.name.as_str(), job.is_own), ("cache-j-12345", true));
        let pod = of_pod(&own).expect("it is written");
        assert_eq!((pod.name.as_str(), pod.is_own), ("cache-8d25c961ee36", false), "a name stays what it is");
        let idle = pod.spec.and_then(Result::ok).and_then(|spec| spec.idle_seconds());
        assert_eq!(idle, Some(IDLE_SECONDS));
        let other = of_pod(&with(json!({SPEC: YAML.replace("s3://a/b", "s3://a/c")}))).expect("it is written");
        assert_ne!(other.name, pod.name);
        assert_eq!(of_job(&with(json!({}))), None);
    }

    #[test]
    fn a_wrong_spec_is_reported() {
        for (written, expected) in [
            ("{", "is no YAML"),
            ("dataset: 5", "is no spec of a CacheBackend"),
            ("datasets: {}", "has the field datasets,"),
            (&YAML.replace("location", "url"), "has the field dataset.dataSources[0].url"),
            ("cacheEngine: {forebay: {}}", "spec.dataset.dataSources is empty"),
            (&YAML.replace("forebay: {}", "fluid: {alluxioRuntime: {}}"), "needs tieredStorage"),
            (&format!("name: c\n{YAML}"), "has a name"),
        ] {
            let fault =
                of_job(&with(json!({SPEC: written}))).and_then(|it| it.spec).expect("a spec").expect_err(written);
            assert!(fault.contains(expected), "{written}: {fault}");
        }
    }
}
