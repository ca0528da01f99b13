//! Tests: the ledgers that each format wrote are read, into exactly the same state.
//!
//! `tests/golden/v<n>` has a ledger of format n as a file (its pages that are not empty, as text) and its rows;
//! `v<n>-<what>`, one of the same format whose rows have gained fields. To make a new one, name it in [`GOLDEN`]:
//! `FOREBAY_WRITE_GOLDEN=1 cargo test golden`. Existing files never change.

#![expect(clippy::disallowed_methods, reason = "a variable rewrites golden files")]

use std::path::{Path, PathBuf};

use forebay_core::{Error, Result, WorkerId};

use super::ledger::{FILE, FORMAT, FORMAT_OLDEST, LedgerStore};
use super::rows;
use super::rows::tests::every_kind;
use crate::records::{Batch, Grant, Ledger, Position, Update};

const PAGE: usize = 4096;

/// The folders and their formats. The last is of the current format.
const GOLDEN: [(&str, u64); 7] = [
    ("v2", 2),
    ("v2-tenants", 2),
    ("v2-coordinated", 2),
    ("v2-weight", 2),
    ("v3", 3),
    ("v3-priority", 3),
    ("v3-ending", 3),
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns the content of the golden files of each format.
fn batches() -> [Batch; 2] {
    let mut more = Batch::default();
    for i in 0..40 {
        let grant = Grant { token: 8 + i, worker: WorkerId(i.into()), address: "host:2".into() };
        more.add(Update::Grant(((3, 0), Position::new(1, i)), grant));
    }
    [every_kind(), more]
}

/// Writes the pages of a file that are not empty, one a line, after its length.
fn to_text(file: &[u8]) -> String {
    let pages = file.chunks(PAGE).enumerate().filter(|(_, page)| page.iter().any(|b| *b != 0));
    let hex = |page: &[u8]| page.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let lines = pages.map(|(number, page)| format!("{number} {}\n", hex(page).trim_end_matches("00")));
    format!("{}\n{}", file.len(), lines.collect::<String>())
}

fn from_text(text: &str) -> Result<Vec<u8>> {
    let wrong = || Error::internal("the golden file is none");
    let mut lines = text.lines();
    let mut file = vec![0; lines.next().and_then(|n| n.parse().ok()).ok_or_else(wrong)?];
    for line in lines {
        let (number, hex) = line.split_once(' ').ok_or_else(wrong)?;
        let start = number.parse::<usize>().map_err(|_| wrong())? * PAGE;
        for (i, pair) in hex.as_bytes().chunks(2).enumerate() {
            let byte = std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
            file[start + i] = byte.ok_or_else(wrong)?;
        }
    }
    Ok(file)
}

#[test]
fn a_ledger_of_every_format_is_read_into_the_very_state() -> Result<()> {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() {
        write()?;
    }
    assert_eq!((GOLDEN[0].1, GOLDEN[GOLDEN.len() - 1].1), (FORMAT_OLDEST, FORMAT));
    for (name, format) in GOLDEN {
        let dir = tempfile::tempdir()?;
        let golden = folder(name);
        std::fs::write(dir.path().join(FILE), from_text(&std::fs::read_to_string(golden.join("ledger.pages"))?)?)?;
        let mut expected = Ledger::default();
        expected.apply(&rows::read(&std::fs::read(golden.join("ledger.jsonl"))?)?);
        for opened in ["first", "again"] {
            assert_eq!(LedgerStore::open(dir.path())?.load()?, expected, "{name}, {opened}");
        }
        // It can be written to, and the file as it was is kept.
        LedgerStore::open(dir.path())?.commit(&Batch::default())?;
        let kept = dir.path().join(format!("ledger.redb.format-{format}"));
        assert_eq!(kept.exists(), format < FORMAT);
    }
    Ok(())
}

/// Reading a file and rows as equal would not show a field that both forget.
#[test]
fn what_is_written_today_is_written_as_before() -> Result<()> {
    let mut ledger = Ledger::default();
    batches().iter().for_each(|batch| ledger.apply(batch));
    let golden = std::fs::read(folder(GOLDEN[GOLDEN.len() - 1].0).join("ledger.jsonl"))?;
    assert_eq!(String::from_utf8_lossy(&rows::write(&ledger.to_batch())?), String::from_utf8_lossy(&golden));
    for field in [
        "\"tenant\":\"a-tenant\"",
        "\"coordinated\":true",
        "\"weight\":3",
        "\"priority\":5",
        "\"learned\":{",
        "\"read_before\":4",
        "\"epochs_read\":6.5",
        "\"step\":0.25",
        "\"ending\":\"drop\"",
        "\"ends\":[{",
    ] {
        assert!(golden.windows(field.len()).any(|w| w == field.as_bytes()), "{field}");
    }
    Ok(())
}

fn write() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut ledger = Ledger::default();
    for batch in batches() {
        LedgerStore::open(dir.path())?.commit(&batch)?;
        ledger.apply(&batch);
    }
    let golden = folder(GOLDEN[GOLDEN.len() - 1].0);
    if golden.join("ledger.pages").exists() {
        return Err(Error::internal(format!("{} was written by an earlier version: keep it", golden.display())));
    }
    std::fs::create_dir_all(&golden)?;
    std::fs::write(golden.join("ledger.pages"), to_text(&std::fs::read(dir.path().join(FILE))?))?;
    std::fs::write(golden.join("ledger.jsonl"), rows::write(&ledger.to_batch())?)?;
    Ok(())
}
