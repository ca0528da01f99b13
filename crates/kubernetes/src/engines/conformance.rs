//! Properties that every engine has.

use serde_json::json;

use super::prefetch_progress::CacheNodes;
use super::{ENGINES, EngineSettings, engine_of};
use crate::api::CacheBackend;

fn cache(engine: &str) -> CacheBackend {
    let tiers = r#""tieredStorage":[{"cachePath":"/ssd","quota":"2Gi","mediumType":"SSD"},{"cachePath":"/dev/shm","quota":"1Gi","mediumType":"MEM"}]"#;
    let engine = match engine {
        "fluid" => format!(r#"{{"fluid":{{"alluxioRuntime":{{"replicas":2,{tiers}}}}}}}"#),
        engine => format!(r#"{{"{engine}":{{{tiers}}}}}"#),
    };
    let sources = r#"[{"location":"s3://a/b","subDirName":"b"},{"location":"local:///c","subDirName":"c"}]"#;
    let spec = format!(r#"{{"dataset":{{"dataSources":{sources}}},"cacheEngine":{engine}}}"#);
    let mut cache = CacheBackend::new("mnist", serde_json::from_str(&spec).expect("a spec"));
    cache.metadata.namespace = Some("ml".to_owned());
    cache.metadata.uid = Some("1-2".to_owned());
    cache
}

#[test]
fn each_engine_is_found_by_its_name_and_takes_a_cache_of_it() {
    for engine in ENGINES {
        let cache = cache(engine.name());
        assert_eq!(engine_of(&cache.spec).map(super::Engine::name), Some(engine.name()));
        assert_eq!(crate::api::validate::validate("mnist", &cache.spec).and_then(|()| engine.validate(&cache)), Ok(()));
    }
}

#[test]
fn children_depend_on_the_cache_alone_and_name_all_of_its_sources() {
    let settings = EngineSettings::default();
    for engine in ENGINES {
        let cache = cache(engine.name());
        let children = engine.children(&cache, &settings);
        assert_eq!(children, engine.children(&cache, &settings));
        assert!(!children.is_empty());
        let text: String = children.iter().map(|child| child.spec.to_string()).collect();
        for wanted in ["s3://a/b", "local:///c", "/dev/shm", "/ssd"] {
            assert!(text.contains(wanted), "{} makes nothing of {wanted}: {text}", engine.name());
        }
        let mut other = cache.clone();
        other.metadata.name = Some("other".to_owned());
        let names = |children: &[super::Child]| children.iter().map(super::Child::path).collect::<Vec<_>>();
        assert!(names(&engine.children(&other, &settings)).iter().all(|path| !names(&children).contains(path)));
        assert!(children.iter().all(|child| child.namespace.is_none() || child.namespace.as_deref() == Some("ml")));
    }
}

#[test]
fn a_claim_of_another_owner_is_not_taken() {
    for engine in ENGINES {
        let others = [
            json!({"metadata": {"name": "mnist"}, "spec": {"storageClassName": "standard"}}),
            json!({"metadata": {"name": "mnist", "labels": {super::CACHE_UID: "another"}}}),
        ];
        assert!(others.iter().all(|claim| !engine.is_claim("1-2", claim)), "{}", engine.name());
        let nothing = engine.progress(&cache(engine.name()), &[json!({})], &CacheNodes::default());
        assert!(nothing.cached_percentage.is_none());
    }
}
