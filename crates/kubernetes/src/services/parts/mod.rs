//! The objects that a service consists of, described in full. Pure: the same spec describes the same objects.
//!
//! ```text
//! dispatcher   StatefulSet, claim, budget        worker    a Deployment for each type, their budget
//! reach        Services, ConfigMap, policies     pods      what pods of both have
//! part         one object, and its metadata
//! ```
//!
//! Every object names the service by label, and is owned by it, so that it goes with it.

mod dispatcher;
mod part;
mod pods;
mod reach;
mod worker;

pub(crate) use dispatcher::is_rolled_out;
pub(crate) use part::{
    BUDGETS, CONFIG_MAPS, DEPLOYMENTS, DISPATCHER_METRICS, OLD_BUDGETS, POLICIES, Part, Place, ROLE, SERVICE, SERVICES,
    STATEFUL_SETS, WORKER_TYPE, WRITTEN, address, dispatcher_name,
};

use crate::api::service::ForebayService;
use part::Of;

/// All objects of a service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts {
    /// What pods need before they start, and the way to them.
    pub(crate) first: Vec<Part>,
    pub(crate) dispatcher: Part,
    /// The Deployments, in the order of the spec's types.
    pub(crate) workers: Vec<Part>,
}

/// Describes all parts of a service. Of a Deployment, `replicas` are set by its caller.
pub(crate) fn parts(service: &ForebayService, place: &Place) -> Parts {
    let meta = &service.metadata;
    let of = Of {
        name: meta.name.as_deref().unwrap_or_default(),
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        uid: meta.uid.as_deref().unwrap_or_default(),
        spec: &service.spec,
    };
    let mut first = reach::parts(&of, place);
    first.extend(dispatcher::claim(&of));
    first.push(dispatcher::budget(&of, place));
    first.push(worker::budget(&of, place));
    let workers = service.spec.workers.iter().map(|worker| worker::deployment(&of, worker)).collect();
    Parts { first, dispatcher: dispatcher::stateful_set(&of), workers }
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

    fn of(change: impl FnOnce(&mut Value)) -> Parts {
        parts(&service(change), &Place { budgets: BUDGETS, operator: "forebay".to_owned() })
    }

    fn args(part: &Part) -> Vec<&str> {
        items(&part.body, "/spec/template/spec/containers/0/args").iter().filter_map(Value::as_str).collect()
    }

    fn follows(args: &[&str], option: &str, value: &str) -> bool {
        args.windows(2).any(|pair| pair == [option, value])
    }

    #[test]
    fn commands_have_what_the_spec_says() {
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
    fn parts_are_owned_and_named_by_the_service_and_only_a_pod_s_role_sees_its_secret() {
        let found = of(|_| {});
        let all: Vec<_> = found.first.iter().chain([&found.dispatcher]).chain(&found.workers).collect();
        for part in &all {
            assert_eq!(text(&part.body, "/metadata/ownerReferences/0/uid"), "u", "{}", part.name);
            assert!(part.name == "s" || part.name.starts_with("s-"), "{}", part.name);
            assert_eq!(part.body.pointer("/metadata/labels").and_then(|l| l.get(SERVICE)), Some(&json!("s")));
        }
        let secret = |part: &Part| {
            let volumes = items(&part.body, "/spec/template/spec/volumes");
            let tokens = volumes.iter().find(|v| text(v, "/name") == "tokens").expect("a volume");
            text(tokens, "/secret/items/0/key").to_owned()
        };
        assert_eq!(
            (secret(&found.dispatcher).as_str(), secret(&found.workers[0]).as_str()),
            ("tokens.json", "worker.token")
        );
    }

    #[test]
    fn a_mark_changes_with_all_but_the_replicas() {
        let (a, mut b, c) = (of(|_| {}), of(|_| {}), of(|spec| spec["image"] = json!("i:2")));
        b.workers[0].body["spec"]["replicas"] = json!(7);
        let mark = |part: &Part| part.marked()["metadata"]["annotations"][WRITTEN].clone();
        assert_eq!(mark(&a.workers[0]), mark(&b.workers[0]));
        assert_ne!(mark(&a.workers[0]), mark(&c.workers[0]));
        assert_eq!(mark(&a.first[0]), mark(&c.first[0]), "the image is no matter of the Service");
    }

    #[test]
    fn several_dispatchers_keep_their_state_in_etcd_and_advertise_their_own_names() {
        let etcd = json!({"etcd": {"endpoints": ["a:1", "b:2"], "replicas": 3}});
        let found = of(|spec| spec["dispatcher"] = etcd);
        assert!(follows(&args(&found.dispatcher), "--store", "etcd://a:1,b:2/forebay-ml-s"));
        assert!(follows(&args(&found.dispatcher), "--advertise", "$(POD_NAME).s-dispatchers.ml.svc:7070"));
        assert_eq!(found.dispatcher.body.pointer("/spec/replicas"), Some(&json!(3)));
        assert!(found.first.iter().all(|part| part.kind.kind != "PersistentVolumeClaim"));
    }
}
