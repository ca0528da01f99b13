//! The CustomResourceDefinitions, generated from the Rust types. `deploy/kubernetes/crd.yaml` and
//! `crd-rules.yaml` are this text.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::CacheBackend;
use super::service::ForebayService;

/// The rules of a cache in CEL, with the messages of the API server: faults that the operator reports, too. `kubectl` does
/// not apply definitions with rules to servers before 1.25.
const CACHE_RULES: [(&str, &str); 2] = [
    (
        "!has(oldSelf.cacheEngine) || !has(oldSelf.cacheEngine.forebay) || (has(self.cacheEngine.forebay) && \
         self.dataset == oldSelf.dataset && has(self.cacheEngine.forebay.tieredStorage) == \
         has(oldSelf.cacheEngine.forebay.tieredStorage) && (!has(self.cacheEngine.forebay.tieredStorage) || \
         self.cacheEngine.forebay.tieredStorage == oldSelf.cacheEngine.forebay.tieredStorage))",
        "a volume of the engine forebay cannot change: delete the cache and create it again",
    ),
    (
        "!has(self.cacheEngine.forebay) || self.dataset.dataSources.size() < 2 || \
         self.dataset.dataSources.all(source, has(source.subDirName))",
        "with the engine forebay each of several sources needs a subDirName",
    ),
];

/// Returns the definition of services, as JSON.
fn service() -> Value {
    let mut definition = json_of(ForebayService::crd());
    let schema = schema(&mut definition);
    let spec = schema.pointer_mut("/properties/spec").expect("a spec is described");
    require(spec, "", &["image", "dispatcher", "workers"]);
    require(spec, "/properties/workers/items", &["name"]);
    require(spec, "/properties/tls", &["secretName"]);
    require(spec, "/properties/tokens", &["secretName"]);
    require(spec, "/properties/dispatcher/properties/etcd", &["endpoints"]);
    at(spec, "/properties/dispatcher")["oneOf"] = json!([{"required": ["volume"]}, {"required": ["etcd"]}]);
    without_defaults(schema);
    definition
}

fn json_of(definition: CustomResourceDefinition) -> Value {
    serde_json::to_value(definition).expect("a definition is JSON")
}

fn schema(definition: &mut Value) -> &mut Value {
    definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").expect("a version has a schema")
}

/// Returns the definition of caches, as JSON.
///
/// The Rust types have optional fields, because old objects may lack them. The schema requires them of new objects.
/// `with_rules` adds [`CACHE_RULES`].
fn cache(with_rules: bool) -> Value {
    let mut definition = json_of(CacheBackend::crd());
    let schema = schema(&mut definition);
    let spec = schema.pointer_mut("/properties/spec").expect("a spec is described");
    require(spec, "", &["dataset", "cacheEngine"]);
    require(spec, "/properties/dataset", &["dataSources"]);
    require(spec, "/properties/dataset/properties/dataSources/items", &["location"]);
    exactly_one(spec, "/properties/cacheEngine");
    exactly_one(spec, "/properties/cacheEngine/properties/fluid");
    for engine in [
        "forebay",
        "fluid/properties/alluxioRuntime",
        "fluid/properties/juicefsRuntime",
        "fluid/properties/jindoRuntime",
    ] {
        let tiers = format!("/properties/cacheEngine/properties/{engine}/properties/tieredStorage/items");
        require(spec, &tiers, &["cachePath", "quota", "mediumType"]);
    }
    if with_rules {
        spec["x-kubernetes-validations"] =
            json!(CACHE_RULES.map(|(rule, message)| json!({"rule": rule, "message": message})));
    }
    without_defaults(schema);
    definition
}

/// Returns the definitions as YAML.
pub(crate) fn yaml() -> String {
    format!("{}---\n{}", text(&cache(false)), text(&service()))
}

/// Returns the definition of caches with rules, for servers from 1.25 on, as YAML.
pub(crate) fn yaml_with_rules() -> String {
    text(&cache(true))
}

fn text(definition: &Value) -> String {
    serde_saphyr::to_string(definition).expect("a definition is YAML")
}

fn at<'a>(spec: &'a mut Value, path: &str) -> &'a mut Value {
    spec.pointer_mut(path).unwrap_or_else(|| panic!("{path} is described"))
}

fn require(spec: &mut Value, path: &str, fields: &[&str]) {
    at(spec, path)["required"] = json!(fields);
}

fn exactly_one(spec: &mut Value, path: &str) {
    let engine = at(spec, path);
    engine["minProperties"] = json!(1);
    engine["maxProperties"] = json!(1);
}

/// Removes defaults, so that the API server adds no fields to a spec and two specs can be compared.
fn without_defaults(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("default");
            fields.values_mut().for_each(without_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(without_defaults),
        _ => {}
    }
}
