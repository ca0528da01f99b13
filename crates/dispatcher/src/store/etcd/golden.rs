//! Tests: the ledgers that each format wrote to etcd are read, into exactly the same state; and errors name missing
//! keys.
//!
//! A file of `tests/golden` has keys and values as they were in etcd, and their rows. To make a new one, name it in
//! [`GOLDEN`]: `FOREBAY_WRITE_GOLDEN=1`, with an etcd. Existing files never change.

#![expect(clippy::disallowed_methods, reason = "a variable rewrites golden files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::replay::{FORMAT, Meta, check_format, replay};
use super::tests::{World, frontier, patient, server, written};
use super::{KeyValue, Keys};
use crate::records::Ledger;
use crate::store::rows;
use crate::store::rows::tests::every_kind;

/// The output of a version: its keys, and their rows.
#[derive(Serialize, Deserialize)]
struct Golden {
    keys: BTreeMap<String, String>,
    rows: Vec<String>,
}

/// The files and their formats; of the same format, one whose rows have gained fields. The last is of the current
/// format.
const GOLDEN: [(&str, u64); 6] = [
    ("etcd-v1", 1),
    ("etcd-v1-tenants", 1),
    ("etcd-v1-coordinated", 1),
    ("etcd-v1-weight", 1),
    ("etcd-v2", 2),
    ("etcd-v2-priority", 2),
];
const NEWEST: &str = GOLDEN[GOLDEN.len() - 1].0;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"))
}

fn read_golden(keys: &BTreeMap<String, String>) -> Result<Ledger> {
    let kvs = |prefix: &str| -> Vec<KeyValue> {
        let found = keys.iter().filter(|(key, _)| key.starts_with(prefix));
        let kv = |(key, value): (&String, &String)| KeyValue {
            key: key.clone().into_bytes(),
            value: value.clone().into_bytes(),
            ..KeyValue::default()
        };
        found.map(kv).collect()
    };
    let meta: Meta = serde_json::from_str(&keys["forebay/meta"]).map_err(|e| Error::data(e.to_string()))?;
    replay(&meta, &Keys::new("forebay"), &kvs("forebay/state/"), &kvs("forebay/log/"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_format_ever_wrote_is_read_and_what_is_missing_is_named() -> Result<()> {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() && !golden(NEWEST).exists() {
        write_golden().await?;
    }
    assert_eq!(GOLDEN[GOLDEN.len() - 1].1, FORMAT);
    for (age, (name, format)) in GOLDEN.into_iter().enumerate() {
        let text = std::fs::read_to_string(golden(name))?;
        let Golden { keys, rows } = serde_json::from_str(&text).map_err(|e| Error::data(e.to_string()))?;
        let mut expected = Ledger::default();
        expected.apply(&rows::read((rows.join("\n") + "\n").as_bytes())?);
        assert_eq!(read_golden(&keys)?, expected, "{name}");
        let meta: Meta = serde_json::from_str(&keys["forebay/meta"]).map_err(|e| Error::data(e.to_string()))?;
        let job = expected.jobs.values().next().ok_or_else(|| Error::data("no job"))?;
        assert_eq!((meta.format, job.tenant == "a-tenant", job.key.is_none()), (format, age >= 1, age < 1), "{name}");
        assert_eq!((job.coordinated, job.weight), (age >= 2, if age >= 3 { 3 } else { 1 }), "{name}");
        assert_eq!(
            (expected.profiles.len(), job.priority),
            (usize::from(age >= 4), if age >= 5 { 5 } else { 0 }),
            "{name}"
        );
        let read = expected.profiles.values().next().map_or(0.0, |profile| profile.epochs_read);
        assert_eq!((job.read_before, read), if age >= 5 { (4, 6.5) } else { (0, 0.0) }, "{name}");
        for gone in keys.keys().filter(|key| *key != "forebay/meta") {
            let mut rest = keys.clone();
            rest.remove(gone);
            let error = read_golden(&rest).expect_err("a part is missing");
            assert!(error.kind() == ErrorKind::Data && error.get("key") == Some(gone.as_str()), "{gone}: {error}");
            let cut = keys[gone].len() / 2;
            let mut cut_short = keys.clone();
            cut_short.entry(gone.clone()).and_modify(|value| value.truncate(cut));
            assert_eq!(read_golden(&cut_short).err().map(|e| e.kind()), Some(ErrorKind::Data), "{gone}");
        }
    }
    for format in [0, FORMAT + 1] {
        let refused = check_format(format, &Keys::new("forebay")).expect_err("another format");
        assert!(refused.kind() == ErrorKind::Version && refused.get("hint").is_some(), "{refused}");
    }
    Ok(())
}

async fn write_golden() -> Result<()> {
    let Some(server) = server().await? else { return Ok(()) };
    let world = World::new(&server)?;
    let mut store = world.open(&world.elect(&world.candidate("a:1")).await?).await?;
    written(&mut store, &every_kind()).await?;
    store.write_state().await.map_err(|refusal| Error::internal(format!("{refusal:?}")))?;
    for batch in [frontier(1), frontier(2)] {
        written(&mut store, &batch).await?;
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|e| Error::internal(e.to_string()));
    let mut keys = BTreeMap::new();
    for kv in patient(async || world.etcd.all(b"forebay/").await).await? {
        keys.insert(text(kv.key)?, text(kv.value)?);
    }
    keys.remove("forebay/leader");
    let rows = text(rows::write(&store.ledger().to_batch())?)?;
    let golden_file = Golden { keys, rows: rows.lines().map(str::to_owned).collect() };
    let json = serde_json::to_string_pretty(&golden_file).map_err(|e| Error::internal(e.to_string()))?;
    std::fs::create_dir_all(golden(NEWEST).with_file_name(""))?;
    Ok(std::fs::write(golden(NEWEST), json + "\n")?)
}
