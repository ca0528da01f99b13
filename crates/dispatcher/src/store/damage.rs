//! Tests: a ledger with flipped, missing or torn bytes anywhere is read right or refused. It is never read wrong, and
//! never panics.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_core::{Error, ErrorKind, Result, WorkerId};

use super::ledger::{FILE, LedgerStore};
use super::repair::{check_ledger, dump_ledger, repair_ledger};
use super::rollback_guard::FILE as GUARD_FILE;
use super::rows::tests::{every_kind, job};
use crate::records::{Batch, Grant, Ledger, Position, Update};

/// A batch of many rows, so that the file has pages of every kind.
fn many(token: u64) -> Batch {
    let mut batch = Batch::default();
    for i in 0..120 {
        batch.add(Update::Job(job(10 + i, &format!("job {i}"))));
        batch.add(Update::Frontier((10 + i, 0), Position::new(token, i)));
        let grant = Grant { token: token + i, worker: WorkerId(u128::from(i)), address: "host:2".into() };
        batch.add(Update::Grant(((10 + i, 0), Position::new(token, i)), grant));
    }
    batch
}

/// The file and its rollback guard, while the store is open after its last commit (as a crash leaves them) and after it
/// was closed; and the ledger.
struct Images {
    crashed: (Vec<u8>, Vec<u8>),
    closed: (Vec<u8>, Vec<u8>),
    ledger: Ledger,
}

fn image(dir: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    Ok((std::fs::read(dir.join(FILE))?, std::fs::read(dir.join(GUARD_FILE))?))
}

fn images() -> Result<Images> {
    let dir = tempfile::tempdir()?;
    let mut store = LedgerStore::open(dir.path())?;
    let mut ledger = Ledger::default();
    for batch in [many(100), every_kind(), many(1000)] {
        store.commit(&batch)?;
        ledger.apply(&batch);
    }
    let crashed = image(dir.path())?;
    drop(store);
    Ok(Images { crashed, closed: image(dir.path())?, ledger })
}

fn lay(dir: &Path, (file, guard): (&[u8], &[u8])) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(FILE), file)?;
    Ok(std::fs::write(dir.join(GUARD_FILE), guard)?)
}

fn load(dir: &Path) -> Result<Ledger> {
    LedgerStore::open(dir)?.load()
}

/// Checks that the ledger is read right, or refused with an error that helps a person.
fn judge(what: &str, loaded: Result<Ledger>, right: &[&Ledger]) -> bool {
    match loaded {
        Ok(ledger) => {
            assert!(right.contains(&&ledger), "{what}: it was read wrong");
            true
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Data | ErrorKind::Version), "{what}: {error}");
            assert!(error.get("file").is_some() && error.get("hint").is_some(), "{what}: {error}");
            false
        }
    }
}

/// Places all over a file, more of them at its begin.
fn places(len: usize) -> impl Iterator<Item = usize> {
    (0..320).step_by(7).chain((320..len).step_by(len / 45 + 37))
}

/// A repair keeps only rows that the ledger had.
fn mend(what: &str, dir: &Path, whole: &Ledger) -> Result<usize> {
    let repaired = match repair_ledger(dir) {
        Ok(repaired) => repaired,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Data | ErrorKind::Version), "{what}: {error}");
            return Ok(0);
        }
    };
    let Some(kept) = &repaired.kept else { return Ok(0) };
    assert!(kept.exists(), "{what}: {repaired:?}");
    let ledger = load(dir)?;
    assert!(ledger.next_token > whole.next_token, "{what}: a token could be granted twice");
    let rows =
        |ledger: &Ledger| -> BTreeSet<String> { ledger.to_batch().rows().iter().map(|r| format!("{r:?}")).collect() };
    let (had, has) = (rows(whole), rows(&ledger));
    let made_up: Vec<_> = has.difference(&had).filter(|row| !row.starts_with("Next")).collect();
    // A file that fell back to the batch before has the rows of that. A file of which only bytes are left has rows of
    // any batch.
    let older = repaired.dropped.iter().any(|d| d.contains("batches") || d.contains("checksums"));
    assert!(older || made_up.is_empty(), "{what}: {made_up:?}");
    assert_eq!(check_ledger(dir)?, repaired.ledger);
    assert!(repair_ledger(dir)?.kept.is_none());
    Ok(has.len())
}

#[test]
fn a_flipped_bit_is_harmless_or_refused_and_what_can_be_believed_is_kept() -> Result<()> {
    let Images { crashed, closed, ledger } = images()?;
    let (mut refused, mut mended) = (0, 0);
    for (name, (file, guard)) in [("crashed", &crashed), ("closed", &closed)] {
        for place in places(file.len()) {
            let dir = tempfile::tempdir()?;
            let mut flipped = file.clone();
            flipped[place] ^= 1 << (place % 8);
            lay(dir.path(), (&flipped, guard))?;
            let what = format!("{name}, byte {place} of {}", file.len());
            if judge(&what, load(dir.path()), &[&ledger]) {
                continue;
            }
            refused += 1;
            lay(dir.path(), (&flipped, guard))?;
            mended += usize::from(mend(&what, dir.path(), &ledger)? > 0);
        }
    }
    assert!(refused > 20 && mended > refused * 9 / 10, "{mended} of {refused} were mended: nothing was tried");
    Ok(())
}

#[test]
fn a_file_that_was_cut_is_refused_or_whole() -> Result<()> {
    let Images { crashed, closed, ledger } = images()?;
    for (file, guard) in [&crashed, &closed] {
        for len in (1..16).chain((16..file.len()).step_by(file.len() / 60)) {
            let dir = tempfile::tempdir()?;
            lay(dir.path(), (&file[..len], guard))?;
            judge(&format!("cut at {len} of {}", file.len()), load(dir.path()), &[&ledger]);
        }
        // An empty file is no ledger; the guard knows that there was one.
        let dir = tempfile::tempdir()?;
        lay(dir.path(), (&[], guard))?;
        assert!(!judge("empty", load(dir.path()), &[]));
    }
    Ok(())
}

#[test]
fn a_torn_write_is_the_state_before_or_after_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut store = LedgerStore::open(dir.path())?;
    let mut before = Ledger::default();
    for batch in [many(100), every_kind()] {
        store.commit(&batch)?;
        before.apply(&batch);
    }
    let (old, guard) = image(dir.path())?;
    let mut after = before.clone();
    store.commit(&many(1000))?;
    after.apply(&many(1000));
    let (new, _) = image(dir.path())?;
    let (mut went_back, mut rng) = (0, 1u64);
    for torn in 0..120 {
        // Some of the sectors that the write changed have reached the disk.
        let mut file = new.clone();
        for (sector, bytes) in file.chunks_mut(512).enumerate() {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = sector * 512;
            if rng >> 33 & 1 == 0 && start + bytes.len() <= old.len() {
                bytes.copy_from_slice(&old[start..start + bytes.len()]);
            }
        }
        let here = tempfile::tempdir()?;
        lay(here.path(), (&file, &guard))?;
        let loaded = load(here.path());
        went_back += usize::from(loaded.as_ref().is_ok_and(|l| *l == before));
        judge(&format!("torn {torn}"), loaded, &[&before, &after]);
    }
    assert!(went_back > 10, "{went_back}: nothing was torn");
    Ok(())
}

#[test]
fn a_ledger_that_went_back_in_time_is_refused_until_it_is_accepted() -> Result<()> {
    let dir = tempfile::tempdir()?;
    LedgerStore::open(dir.path())?.commit(&every_kind())?;
    let copy = std::fs::read(dir.path().join(FILE))?;
    LedgerStore::open(dir.path())?.commit(&many(100))?;
    std::fs::write(dir.path().join(FILE), copy)?;
    let error = load(dir.path()).expect_err("an older copy");
    assert!(error.kind() == ErrorKind::Data && error.message().contains("batch 2 was written"), "{error}");
    let repaired = repair_ledger(dir.path())?;
    assert_eq!((repaired.ledger.grants, repaired.dropped.len()), (1, 1));
    // Token 219 was granted in the batch that is lost.
    assert!(load(dir.path())?.next_token > 219);
    Ok(())
}

#[test]
fn a_ledger_is_looked_at_without_being_changed_and_not_while_it_is_used() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut store = LedgerStore::open(dir.path())?;
    store.commit(&every_kind())?;
    let kind = |e: Error| e.kind();
    assert_eq!(check_ledger(dir.path()).map_err(kind).err(), Some(ErrorKind::Conflict));
    let ledger = store.load()?;
    drop(store);
    let before = image(dir.path())?;
    let report = check_ledger(&dir.path().join(FILE))?;
    let has = (report.jobs, report.frontiers, report.grants, report.lost, report.learned, report.next_token);
    assert_eq!(has, (1, 1, 1, 1, 1, 8));
    let mut read = Ledger::default();
    read.apply(&super::rows::read(dump_ledger(dir.path())?.as_bytes())?);
    assert_eq!(read, ledger);
    assert_eq!(repair_ledger(dir.path())?.kept, None);
    assert!(image(dir.path())? == before, "looking changes nothing");
    assert_eq!(check_ledger(&dir.path().join("none")).map_err(kind).err(), Some(ErrorKind::NotFound));
    Ok(())
}
