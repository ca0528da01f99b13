//! The manifests agree with the table of allowed edges in ARCHITECTURE.md, and every module has a doc comment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[path = "architecture/imports.rs"]
mod imports;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the table "Who may know whom".
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("there is an ARCHITECTURE.md");
    let (_, table) = text.split_once("## Who may know whom").expect("the section is there");
    let (table, _) = table.split_once("\n## ").expect("a section follows");
    let rows = table.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| crate"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let uses = cells[2].split(", ").filter(|c| *c != "–").map(str::to_owned).collect();
        (cells[1].to_owned(), uses)
    })
    .collect()
}

/// Returns Forebay's crates that a manifest depends on, without tests.
fn used(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).expect("the manifest reads");
    let (_, rest) = text.split_once("[dependencies]").unwrap_or(("", ""));
    let own = rest.split("\n[").next().unwrap_or_default();
    let names = own.lines().filter_map(|l| l.strip_prefix("forebay-"));
    names.map(|l| l.split(['.', ' ', '=']).next().unwrap_or("").to_owned()).collect()
}

fn manifests() -> Vec<(String, PathBuf)> {
    let crates = fs::read_dir(root().join("crates")).expect("there are crates");
    let mut all: Vec<_> = crates
        .filter_map(Result::ok)
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path().join("Cargo.toml")))
        .filter(|(_, m)| m.exists())
        .collect();
    all.push(("python".to_owned(), root().join("python/Cargo.toml")));
    all
}

#[test]
fn edges_are_those_of_the_table() {
    let allowed = allowed();
    let crates: BTreeMap<_, _> = manifests().into_iter().collect();
    let unknown: Vec<_> = allowed.keys().filter(|name| !crates.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "the table names {unknown:?}, which are no crates");
    for (name, manifest) in crates {
        let mut uses = used(&manifest);
        uses.remove("core");
        let may = if name == "core" { BTreeSet::new() } else { allowed.get(&name).cloned().unwrap_or_default() };
        let more: Vec<_> = uses.difference(&may).collect();
        assert!(more.is_empty(), "{name} uses {more:?}, which ARCHITECTURE.md does not allow");
    }
}

#[test]
fn outside_libraries_stay_where_they_belong() {
    for (name, manifest) in manifests() {
        let text = fs::read_to_string(&manifest).expect("the manifest reads");
        let starts = |l: &str, krate: &str| l.strip_prefix(krate).is_some_and(|rest| rest.starts_with(['.', ' ']));
        let has = |krate: &str| text.lines().any(|l| starts(l, krate));
        assert!(!has("pyo3") || name == "python", "{name} knows pyo3");
        assert!(
            !has("tonic") || !["core", "data", "plan", "io", "exec"].contains(&name.as_str()),
            "{name} knows tonic"
        );
        assert!(!has("tokio") || !["core", "data", "plan"].contains(&name.as_str()), "{name} knows tokio");
    }
}

/// Crates without clocks, sleeps, threads, randomness and environment except at named seams; see ARCHITECTURE.md.
const SEAMED: [&str; 16] = [
    "core",
    "data",
    "plan",
    "policy",
    "policy-lab",
    "exec",
    "proto",
    "client",
    "dispatcher",
    "sim",
    "cli",
    "cache",
    "io",
    "worker",
    "server",
    "dashboard",
];

#[test]
fn crates_with_seams_ban_the_same_methods() {
    let of = |name: &str| root().join("crates").join(name).join("clippy.toml");
    let core = fs::read_to_string(of("core")).expect("core has a clippy.toml");
    for (name, _) in manifests() {
        let found = fs::read_to_string(of(&name)).ok();
        assert_eq!(found.as_ref(), SEAMED.contains(&name.as_str()).then_some(&core), "clippy.toml of {name}");
    }
}

#[test]
fn the_newest_version_in_the_changelog_is_that_of_the_package() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).expect("there is a CHANGELOG.md");
    let mut versions = text.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(versions.next(), Some("Unreleased"));
    let newest = versions.next().and_then(|title| title.split(' ').next());
    assert_eq!(newest, Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_module_says_why_it_exists() {
    fn walk(dir: &Path, see: &mut impl FnMut(&Path)) {
        for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, see);
            } else if path.extension().is_some_and(|e| e == "rs") {
                see(&path);
            }
        }
    }
    for (_, manifest) in manifests() {
        walk(&manifest.with_file_name("src"), &mut |path| {
            let text = fs::read_to_string(path).expect("the file reads");
            let generated = path.components().any(|c| c.as_os_str() == "generated") || path.ends_with("tests.rs");
            assert!(generated || text.starts_with("//!"), "{} has no module documentation", path.display());
        });
    }
}

/// Type names that explain nothing to a new reader. ARCHITECTURE.md's glossary has the words to use instead.
const RETIRED: &[&str] = &[
    "Asked",
    "Beside",
    "Bill",
    "Brought",
    "Crew",
    "Deal",
    "Given",
    "Ground",
    "Held",
    "Homes",
    "Landing",
    "Meeting",
    "Nearby",
    "Once",
    "Pace",
    "Passing",
    "Seam",
    "Seat",
    "Seen",
    "Shelf",
    "Shown",
    "Spared",
    "Spot",
    "Talk",
    "Told",
    "ToSay",
    "Trial",
    "Turns",
    "Twice",
    "Twins",
    "Way",
    "Whereabouts",
    "Witness",
];

/// The most Rust files in one folder, without its own `mod.rs` and tests.
const FOLDER_FILES_MAX: usize = 15;

fn sources() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    manifests().iter().for_each(|(_, manifest)| walk(&manifest.with_file_name("src"), &mut found));
    assert!(found.len() > 500, "{} files", found.len());
    found
}

#[test]
fn no_type_has_a_retired_name() {
    let kinds = ["struct ", "enum ", "trait ", "type "];
    for path in sources() {
        let text = fs::read_to_string(&path).expect("the file reads");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let declared = kinds.iter().find_map(|kind| Some(line.split_once(kind)?.1));
            let name = declared.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
            let is_retired = name.is_some_and(|name| RETIRED.contains(&name));
            assert!(!is_retired, "{}: {line}", path.display());
        }
    }
}

#[test]
fn folders_can_be_looked_over() {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let is_counted = |path: &&PathBuf| !["mod.rs", "lib.rs", "tests.rs"].iter().any(|name| path.ends_with(name));
    for path in sources().iter().filter(is_counted) {
        *folders.entry(path.parent().expect("it lies in a folder").to_owned()).or_default() += 1;
    }
    for (folder, files) in &folders {
        assert!(*files <= FOLDER_FILES_MAX, "{} has {files} files: group them in folders", folder.display());
    }
}

/// The most files that may import each other in a circle. Two files may be two halves of one thing.
const CIRCLE_FILES_MAX: usize = 2;

#[test]
fn files_do_not_import_each_other_in_circles() {
    for (name, manifest) in manifests() {
        let mut circles = imports::circles(&manifest.with_file_name("src"));
        circles.retain(|circle| circle.len() > CIRCLE_FILES_MAX);
        assert!(
            circles.is_empty(),
            "{name}: these files import each other, so that none can be read alone: {circles:?}"
        );
    }
}

#[test]
fn circles_are_found_through_groups_and_reexports_and_not_in_tests() {
    let src = std::env::temp_dir().join(format!("forebay-circles-{}", std::process::id()));
    let files = [
        ("lib.rs", "mod a;\npub mod b;\nmod c;\nmod d;\npub use a::One;\n"),
        ("a.rs", "use crate::b::{self, inner::{Two, Three as Third}};\npub struct One;\n"),
        ("b/mod.rs", "//! A doc: crate::d::Five.\npub(crate) mod inner;\npub use inner::Two;\n"),
        ("b/inner.rs", "use super::super::c;\npub struct Two;\npub struct Three;\n"),
        ("c.rs", "pub(in crate::d) fn f() -> crate::One { crate::One }\n"),
        ("d.rs", "use crate::a::One;\npub struct Five;\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n"),
    ];
    for (name, text) in files {
        let path = src.join(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }
    let found = imports::circles(&src);
    fs::remove_dir_all(&src).expect("removed");
    assert_eq!(found, [["a.rs", "b/inner.rs", "c.rs"].map(str::to_owned).into()]);
}
