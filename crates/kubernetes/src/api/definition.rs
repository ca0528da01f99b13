//! The CustomResourceDefinition, made of the Rust types. `deploy/kubernetes/crd.yaml` is this text.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::CacheBackend;

/// Returns the definition, as JSON.
///
/// The types have optional fields where old objects may lack them; here are those that a new object must have.
pub(crate) fn definition() -> Value {
    let definition: CustomResourceDefinition = CacheBackend::crd();
    let mut definition = serde_json::to_value(definition).expect("a definition is JSON");
    let schema = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").expect("a version has a schema");
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
    without_defaults(schema);
    definition
}

/// Returns the definition as YAML.
pub(crate) fn yaml() -> String {
    serde_saphyr::to_string(&definition()).expect("a definition is YAML")
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

/// Removes defaults: an empty object stays what its user wrote, so that two specs can be compared.
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
