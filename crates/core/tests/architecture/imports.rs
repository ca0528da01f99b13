//! The graph of imports between the files of one crate, and its circles.
//!
//! An edge leads from a file to the file that defines a name which the first uses by a path from `crate::`, `super::`
//! or `self::`, or by a `use` of one of its child modules. Re-exports are followed. A file that only declares and
//! re-exports its children is no node. Comments, tests and the scopes of visibilities are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Re-exports that are followed one after the other.
const REEXPORTS_MAX: usize = 8;

/// A module path from the root of the crate; empty for the root.
type Module = Vec<String>;

/// One file.
struct File {
    path: PathBuf,
    /// The paths that it uses, from the root of the crate.
    named: Vec<Module>,
    /// Its re-exports and imports, by name. The name `*` stands for all of a module.
    imports: Vec<(String, Module)>,
    only_declares: bool,
}

/// Finds the circles of imports between the files of a crate. Files are named by their paths in `src`.
pub(crate) fn circles(src: &Path) -> Vec<BTreeSet<String>> {
    let mut files = BTreeMap::new();
    read(src, &Module::new(), src, &mut files);
    let name = |file: &File| {
        let path = file.path.strip_prefix(src).expect("it lies in src");
        path.to_string_lossy().replace('\\', "/")
    };
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.values().filter(|file| !file.only_declares) {
        let mut to = BTreeSet::new();
        file.named.iter().for_each(|path| define(&files, path, 0, &mut to));
        let to = to.iter().map(|module| &files[module]).filter(|to| !to.only_declares && to.path != file.path);
        graph.insert(name(file), to.map(name).collect());
    }
    components(&graph)
}

/// Reads the files of a folder whose module has this path.
fn read(folder: &Path, module: &Module, src: &Path, files: &mut BTreeMap<Module, File>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if ["tests", "bin", "generated"].contains(&stem.as_str()) {
            continue;
        }
        if path.is_dir() {
            read(&path, &[module.clone(), vec![stem]].concat(), src, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let is_root = stem == "mod" || (folder == src && (stem == "lib" || stem == "main"));
            if stem == "main" && src.join("lib.rs").exists() {
                continue;
            }
            let own = if is_root { module.clone() } else { [module.clone(), vec![stem]].concat() };
            let text = code(&fs::read_to_string(&path).expect("the file reads"));
            files.insert(own.clone(), file(path, &own, &text));
        }
    }
}

/// Returns the code of a file without comments, its own tests and the scopes of visibilities.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut parts = text.split("pub(in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + "pub" + part.split_once(')').map_or("", |(_, rest)| rest))
}

fn file(path: PathBuf, module: &Module, text: &str) -> File {
    let children: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';')).collect();
    let (mut named, mut imports) = (Vec::new(), Vec::new());
    let bytes = text.as_bytes();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            // `super::super::` is found at its first part.
            let before = bytes[..at].last().copied().unwrap_or(b' ');
            if !before.is_ascii_alphanumeric() && before != b'_' && before != b':' && before != b'"' {
                named.extend(paths(&text[at..]).into_iter().filter_map(|(path, _)| absolute(module, &path)));
            }
        }
    }
    for (at, _) in text.match_indices("use ") {
        let is_statement =
            text[..at].lines().last().is_none_or(|line| matches!(line.trim(), "" | "pub" | "pub(crate)"));
        for (path, alias) in paths(&text[at + 4..]).into_iter().filter(|_| is_statement) {
            let is_child = path.first().is_some_and(|first| children.contains(first.as_str()));
            let path = if is_child { Some([module.clone(), path].concat()) } else { absolute(module, &path) };
            let Some(path) = path else { continue };
            let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
            named.push(path.clone());
            imports.push((name, path));
        }
    }
    File { path, named, imports, only_declares: only_declares(text) }
}

/// Returns whether a file has no item besides `mod` and `use`.
fn only_declares(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.starts_with("#") {
            rest = rest.split_once(']').map_or("", |(_, rest)| rest);
            continue;
        }
        let item = ["pub(crate) ", "pub(super) ", "pub "].iter().fold(rest, |item, word| item.trim_start_matches(word));
        if item.is_empty() {
            return true;
        }
        match item.split_once(';') {
            Some((item, after)) if item.starts_with("mod ") || item.starts_with("use ") => rest = after,
            _ => return false,
        }
    }
}

/// Returns the paths at the start of a text, with their aliases: several if it ends in braces.
fn paths(text: &str) -> Vec<(Module, Option<String>)> {
    let mut found = Vec::new();
    path(text, &Module::new(), &mut found);
    found
}

/// Reads one path, and returns the text behind it.
fn path<'a>(text: &'a str, prefix: &Module, found: &mut Vec<(Module, Option<String>)>) -> &'a str {
    let mut path = prefix.clone();
    let mut rest = text.trim_start();
    loop {
        if let Some(mut group) = rest.strip_prefix('{') {
            while !group.trim_start().starts_with('}') && !group.trim_start().is_empty() {
                group = self::path(group, &path, found).trim_start();
                group = group.strip_prefix(',').unwrap_or(group);
            }
            return group.trim_start().strip_prefix('}').unwrap_or_default();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(rest.len());
        let (segment, after) = rest.split_at(end.max(usize::from(rest.starts_with('*'))));
        if segment.is_empty() {
            // The text is no path: the caller goes on behind this character.
            return rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
        }
        if segment != "self" || path.is_empty() {
            path.push(segment.to_owned());
        }
        match after.strip_prefix("::") {
            Some(more) if more.starts_with(|c: char| c.is_alphabetic() || "_{*".contains(c)) => rest = more,
            _ => {
                let alias = after.trim_start().strip_prefix("as ").map(str::trim_start);
                let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
                found.push((path, alias.map(|alias| alias[..end(alias)].to_owned())));
                return alias.map_or(after, |alias| &alias[end(alias)..]);
            }
        }
    }
}

/// Returns a path from the root of the crate; `None` for a path into another crate.
fn absolute(module: &Module, path: &[String]) -> Option<Module> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    match path.first().map(String::as_str)? {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat()),
        _ => None,
    }
}

/// Finds the modules that define the name of a path.
fn define(files: &BTreeMap<Module, File>, path: &[String], depth: usize, found: &mut BTreeSet<Module>) {
    let Some(length) = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length])) else { return };
    let (module, names) = path.split_at(length);
    let Some(name) = names.first() else {
        found.insert(module.to_vec());
        return;
    };
    let File { imports, only_declares, .. } = &files[module];
    let named: Vec<_> = imports.iter().filter(|(import, to)| import == name && !to.starts_with(path)).collect();
    if depth < REEXPORTS_MAX && !named.is_empty() {
        named.iter().for_each(|(_, to)| define(files, to, depth + 1, found));
    } else if depth < REEXPORTS_MAX && *only_declares {
        let all = imports.iter().filter(|(import, _)| import == "*");
        all.for_each(|(_, to)| define(files, &to[..to.len() - 1], depth + 1, found));
    } else {
        found.insert(module.to_vec());
    }
}

/// Returns the strongly connected components of more than one node.
fn components(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(next) = todo.pop() {
            todo.extend(graph.get(next).into_iter().flatten().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|node| (node, reach(node))).collect();
    let circle = |node: &String| -> BTreeSet<String> {
        reached[node].iter().filter(|other| reached.get(other).is_some_and(|of| of.contains(node))).cloned().collect()
    };
    let found: BTreeSet<_> = graph.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    found.into_iter().collect()
}
