//! The manifests of a service: its desired objects. Pure: the same spec gives the same manifests.
//!
//! ```text
//! dispatcher   StatefulSet, claim, disruption budget      worker     a Deployment for each type, disruption budget
//! network      Services, ConfigMap, NetworkPolicies       pod_spec   the pod spec of both roles
//! manifest     one manifest, and its metadata
//! ```
//!
//! Every object has the service in a label and in an owner reference, so the garbage collector deletes it with the
//! service.

mod dispatcher;
mod manifest;
mod network;
mod pod_spec;
mod worker;

pub(crate) use dispatcher::is_rolled_out;
pub(crate) use manifest::{
    APPLIED_HASH, BUDGETS, CONFIG_MAPS, ClusterInfo, DISPATCHER_METRICS, Manifest, OLD_BUDGETS, ROLE, SERVICE,
    SERVICES, STATEFUL_SETS, WORKER_TYPE, address, dispatcher_name,
};

use crate::api::service::ForebayService;
use manifest::Owner;

/// All manifests of a service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifests {
    /// Objects that exist before the pods: Services, ConfigMap, policies, claim and budgets.
    pub(crate) first: Vec<Manifest>,
    pub(crate) dispatcher: Manifest,
    /// The Deployments, in the order of the spec's types.
    pub(crate) workers: Vec<Manifest>,
}

/// Returns all manifests of a service. The caller sets the `replicas` of existing Deployments.
pub(crate) fn manifests(service: &ForebayService, cluster: &ClusterInfo) -> Manifests {
    let meta = &service.metadata;
    let owner = Owner {
        name: meta.name.as_deref().unwrap_or_default(),
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        uid: meta.uid.as_deref().unwrap_or_default(),
        spec: &service.spec,
    };
    let mut first = network::manifests(&owner, cluster);
    first.extend(dispatcher::claim(&owner));
    first.push(dispatcher::budget(&owner, cluster));
    first.push(worker::budget(&owner, cluster));
    let workers = service.spec.workers.iter().map(|worker| worker::deployment(&owner, worker)).collect();
    Manifests { first, dispatcher: dispatcher::stateful_set(&owner), workers }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::objects::{items, text};

    const SPEC: &str = r#"{
        "image": "i:1", "dispatcher": {"volume": {}}, "env": [{"name": "A", "value": "b"}],
        "tls": {"secretName": "certs", "clientCertificates": true}, "tokens": {"secretName": "tokens"},
        "autoscale": {"objective": "cost-within:1.05", "trainerPrice": 30},
        "workers": [
            {"name": "big", "kind": "c5.2xlarge", "price": 0.38, "threads": 8, "replicas": {"min": 1, "max": 9}},
            {"name": "spot", "kind": "c5.2xlarge", "price": 0.11, "threads": 8, "spot": true,
             "resources": {"requests": {"cpu": 8}}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
        ]}"#;

    fn service(change: impl FnOnce(&mut Value)) -> ForebayService {
        let mut spec: Value = serde_json::from_str(SPEC).expect("JSON");
        change(&mut spec);
        let mut made = ForebayService::new("s", serde_json::from_value(spec).expect("a spec"));
        made.metadata.namespace = Some("ml".to_owned());
        made.metadata.uid = Some("u".to_owned());
        made
    }

    fn of(change: impl FnOnce(&mut Value)) -> Manifests {
        manifests(&service(change), &ClusterInfo { budgets: BUDGETS, operator: "forebay".to_owned() })
    }

    fn args(manifest: &Manifest) -> Vec<&str> {
        items(&manifest.body, "/spec/template/spec/containers/0/args").iter().filter_map(Value::as_str).collect()
    }

    fn follows(args: &[&str], option: &str, value: &str) -> bool {
        args.windows(2).any(|pair| pair == [option, value])
    }

    #[test]
    fn commands_follow_the_spec() {
        let found = of(|_| {});
        let dispatcher = args(&found.dispatcher);
        for (option, value) in [
            ("--state-dir", "/state"),
            ("--max-workers", "25"),
            ("--offer", "kind=c5.2xlarge,price=0.38,threads=8,max=9"),
            ("--offer", "kind=c5.2xlarge,price=0.11,threads=8,max=16,spot"),
            ("--objective", "cost-within:1.05"),
            ("--trainer-price", "30"),
            ("--tokens", "/etc/forebay/tokens/tokens.json"),
            ("--tls-client-ca", "/etc/forebay/tls/ca.crt"),
        ] {
            assert!(follows(&dispatcher, option, value), "{option} {value}: {dispatcher:?}");
        }
        let [big, spot] = &found.workers[..] else { panic!("two types") };
        assert!(follows(&args(big), "--dispatcher", "s.ml.svc:7070") && !args(big).contains(&"--spot"));
        for (option, value) in [("--kind", "c5.2xlarge"), ("--price", "0.11"), ("--tls-name", "s.ml.svc")] {
            assert!(follows(&args(spot), option, value), "{option} {value}: {:?}", args(spot));
        }
        assert!(args(spot).contains(&"--spot"));
        assert_eq!(spot.body.pointer("/spec/template/spec/containers/0/resources/requests/cpu"), Some(&json!("8")));
        assert_eq!(items(&spot.body, "/spec/template/spec/tolerations").len(), 1);
    }

    #[test]
    fn manifests_have_the_service_as_owner_and_each_role_mounts_only_its_token() {
        let found = of(|_| {});
        let all: Vec<_> = found.first.iter().chain([&found.dispatcher]).chain(&found.workers).collect();
        for manifest in &all {
            assert_eq!(text(&manifest.body, "/metadata/ownerReferences/0/uid"), "u", "{}", manifest.name);
            assert!(manifest.name == "s" || manifest.name.starts_with("s-"), "{}", manifest.name);
            assert_eq!(manifest.body.pointer("/metadata/labels").and_then(|l| l.get(SERVICE)), Some(&json!("s")));
        }
        let secret = |manifest: &Manifest| {
            let volumes = items(&manifest.body, "/spec/template/spec/volumes");
            let tokens = volumes.iter().find(|v| text(v, "/name") == "tokens").expect("a volume");
            text(tokens, "/secret/items/0/key").to_owned()
        };
        assert_eq!(
            (secret(&found.dispatcher).as_str(), secret(&found.workers[0]).as_str()),
            ("tokens.json", "worker.token")
        );
    }

    #[test]
    fn the_hash_changes_with_all_fields_but_the_replicas() {
        let (a, mut b, c) = (of(|_| {}), of(|_| {}), of(|spec| spec["image"] = json!("i:2")));
        b.workers[0].body["spec"]["replicas"] = json!(7);
        let applied_hash = |manifest: &Manifest| manifest.with_hash()["metadata"]["annotations"][APPLIED_HASH].clone();
        assert_eq!(applied_hash(&a.workers[0]), applied_hash(&b.workers[0]));
        assert_ne!(applied_hash(&a.workers[0]), applied_hash(&c.workers[0]));
        assert_eq!(applied_hash(&a.first[0]), applied_hash(&c.first[0]), "the Service does not depend on the image");
    }

    #[test]
    fn several_dispatchers_keep_their_state_in_etcd_and_advertise_their_own_names() {
        let etcd = json!({"etcd": {"endpoints": ["a:1", "b:2"], "replicas": 3}});
        let found = of(|spec| spec["dispatcher"] = etcd);
        assert!(follows(&args(&found.dispatcher), "--store", "etcd://a:1,b:2/forebay-ml-s"));
        assert!(follows(&args(&found.dispatcher), "--advertise", "$(POD_NAME).s-dispatchers.ml.svc:7070"));
        assert_eq!(found.dispatcher.body.pointer("/spec/replicas"), Some(&json!(3)));
        assert!(found.first.iter().all(|manifest| manifest.kind.kind != "PersistentVolumeClaim"));
    }
}
