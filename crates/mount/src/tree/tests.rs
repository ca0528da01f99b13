use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lists::LOOKS_MAX;
use super::*;

/// A store of names: how often it was listed, and what is in it now.
#[derive(Default)]
struct Store {
    lists: AtomicUsize,
    /// Names that were asked for by themselves; whether that is possible.
    looks: AtomicUsize,
    is_looked_at: bool,
    entries: Mutex<Vec<TreeEntry>>,
    many: usize,
}

impl Names for &Store {
    fn is_listed(&self) -> bool {
        true
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<TreeEntry>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        if folder.ends_with("huge") || self.many > most {
            return Err(Error::new(ErrorKind::Exhausted, "too many names"));
        }
        if folder.ends_with("away") {
            return Err(Error::unavailable("the store is away"));
        }
        let many = (0..self.many).map(|i| source_entry(OsStr::new(&format!("{i:07}"))));
        Ok(many.chain(self.entries.lock().expect("not poisoned").iter().cloned()).collect())
    }

    fn can_look(&self, _: &Path) -> bool {
        self.is_looked_at
    }

    fn look(&self, path: &Path) -> Result<Option<TreeEntry>> {
        assert!(self.is_looked_at, "names are found in lists");
        self.looks.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().expect("a name");
        let number = name.to_str().and_then(|name| name.parse::<usize>().ok());
        Ok(number.filter(|number| *number < self.many).map(|_| source_entry(name)))
    }
}

const REFRESH: Duration = Duration::from_secs(60);

fn tree(store: &Store) -> Tree<&Store> {
    Tree::new(vec![(OsString::new(), store)], REFRESH)
}

/// Pinned contents of local files, which are what two contents of a name look like.
fn contents() -> [TreeEntry; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    ["one", "two, longer"].map(|text| {
        std::fs::write(folder.path().join("a"), text).expect("written");
        let found = FileTree::open(folder.path().to_str().expect("utf-8")).expect("opens");
        found.list(Path::new(""), 9).expect("lists").remove(0)
    })
}

#[test]
fn a_list_serves_names_until_it_is_too_old() {
    let store = Store { many: 1000, ..Store::default() };
    let (tree, root) = (tree(&store), ROOT);
    let root = tree.get(root).expect("the root");
    for i in 0..1000 {
        let name = format!("{i:07}");
        let (node, age) = tree.lookup(&root, OsStr::new(&name), Ticks(500)).expect("listed").expect("there");
        assert_eq!((&*node.path, age), (Path::new(&name), REFRESH));
    }
    assert!(tree.lookup(&root, OsStr::new("none"), Ticks(30_500)).expect("listed").is_none());
    assert_eq!(store.lists.load(Ordering::Relaxed), 1);
    let (_, age) = tree.lookup(&root, OsStr::new("0000001"), Ticks(60_499)).expect("listed").expect("there");
    assert_eq!(age, Duration::from_millis(1));
    tree.lookup(&root, OsStr::new("0000001"), Ticks(60_500)).expect("listed").expect("there");
    assert_eq!(store.lists.load(Ordering::Relaxed), 2);
}

#[test]
fn the_first_names_of_a_folder_are_asked_for_by_themselves_and_then_it_is_listed() {
    let store = Store { many: 1000, is_looked_at: true, ..Store::default() };
    let tree = tree(&store);
    let root = tree.get(ROOT).expect("the root");
    let look = |number: usize, now: u64| {
        let name = format!("{number:07}");
        tree.lookup(&root, OsStr::new(&name), Ticks(now)).expect("answers").is_some()
    };
    let asked = || (store.looks.load(Ordering::Relaxed), store.lists.load(Ordering::Relaxed));
    assert!(look(7, 0) && !look(5000, 0));
    assert_eq!(asked(), (2, 1), "one answer shows that there are many");
    assert!((0..100).all(|number| look(number, 0)));
    assert_eq!(asked(), (LOOKS_MAX as usize, 2));
    // When the list is too old, the next few names are asked for by themselves again.
    assert!(look(7, 60_000));
    assert_eq!(asked(), (LOOKS_MAX as usize + 1, 3));
}

#[test]
fn a_folder_of_few_names_is_listed_for_its_first() {
    let store = Store { many: SHORT_NAMES_MAX, is_looked_at: true, ..Store::default() };
    let tree = tree(&store);
    let root = tree.get(ROOT).expect("the root");
    assert!(tree.lookup(&root, OsStr::new("0000007"), Ticks(0)).expect("answers").is_some());
    assert!(tree.lookup(&root, OsStr::new("none"), Ticks(0)).expect("answers").is_none());
    assert_eq!((store.looks.load(Ordering::Relaxed), store.lists.load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn names_of_a_folder_that_is_too_large_for_a_list_are_found_all_the_same() {
    let store = Store { many: 1000, is_looked_at: true, ..Store::default() };
    let (tree, folder) = (tree(&store), Node::folder(0, Some(0), Path::new("huge")));
    for number in 0..100 {
        let name = format!("{number:07}");
        tree.lookup(&folder, OsStr::new(&name), Ticks(0)).expect("answers").expect("there");
    }
    assert_eq!((store.looks.load(Ordering::Relaxed), store.lists.load(Ordering::Relaxed)), (100, 2));
    assert_eq!(tree.list(&folder, Ticks(0)).expect_err("too large").kind(), ErrorKind::Exhausted);
}

#[test]
fn a_number_names_one_content_and_is_the_same_in_each_run() {
    let store = Store::default();
    let [one, two] = contents();
    let numbers = |entry: &TreeEntry| {
        *store.entries.lock().expect("not poisoned") = vec![entry.clone()];
        let tree = tree(&store);
        let root = tree.get(ROOT).expect("the root");
        tree.lookup(&root, OsStr::new("a"), Ticks(0)).expect("listed").expect("there").0.ino
    };
    let (first, second) = (numbers(&one), numbers(&two));
    assert_eq!((numbers(&one), numbers(&two)), (first, second));
    assert_ne!(first, second);
}

#[test]
fn a_file_that_changed_is_looked_up_anew() {
    let store = Store::default();
    let [one, two] = contents();
    *store.entries.lock().expect("not poisoned") = vec![one];
    let tree = tree(&store);
    let root = tree.get(ROOT).expect("the root");
    let look = || tree.lookup(&root, OsStr::new("a"), Ticks(0)).expect("listed").expect("there").0;
    let old = look();
    *store.entries.lock().expect("not poisoned") = vec![two];
    assert_eq!(look().ino, old.ino, "the list is not too old");
    tree.changed(&old);
    assert!(old.is_stale());
    let new = look();
    assert!(new.ino != old.ino && !new.is_stale());
    assert_eq!(tree.get(old.ino).map(|node| node.ino), Some(old.ino), "it is still open");
}

#[test]
fn nodes_go_when_the_system_forgets_them() {
    let store = Store { many: 3, ..Store::default() };
    let tree = tree(&store);
    let root = tree.get(ROOT).expect("the root");
    let look = || tree.lookup(&root, OsStr::new("0000001"), Ticks(0)).expect("listed").expect("there").0.ino;
    let ino = look();
    assert_eq!(look(), ino);
    tree.forget(ino, 1);
    assert!(tree.get(ino).is_some());
    tree.forget(ino, 1);
    assert!(tree.get(ino).is_none());
    assert_eq!(tree.nodes.len(), 0);
    tree.forget(ino, 1);
}

#[test]
fn two_inodes_with_one_hash_have_two_numbers() {
    let nodes = Nodes::default();
    let node = |path: &str| Node::folder(77, Some(0), Path::new(path));
    let numbers = [nodes.hold(node("a")).ino, nodes.hold(node("b")).ino, nodes.hold(node("a")).ino];
    assert_eq!(numbers, [77, 78, 77]);
    let last = |path: &str| Node::folder(u64::MAX, Some(0), Path::new(path));
    assert_eq!([nodes.hold(last("a")).ino, nodes.hold(last("b")).ino], [u64::MAX, ROOT + 1]);
}

#[test]
fn lists_are_bounded_and_the_oldest_goes() {
    let store = Store { many: 500, ..Store::default() };
    let mut tree = tree(&store);
    tree.lists.names_max = 1000;
    let folder = |name: &str| Node::folder(0, Some(0), Path::new(name));
    for (at, name) in ["a", "b", "c"].iter().enumerate() {
        tree.list(&folder(name), Ticks(at as u64)).expect("listed");
    }
    assert_eq!(tree.lists.names(), 1000);
    tree.list(&folder("c"), Ticks(3)).expect("kept");
    tree.list(&folder("b"), Ticks(3)).expect("kept");
    assert_eq!(store.lists.load(Ordering::Relaxed), 3);
    tree.list(&folder("a"), Ticks(3)).expect("listed");
    assert_eq!(store.lists.load(Ordering::Relaxed), 4);
}

#[test]
fn a_list_that_fails_is_not_kept() {
    let store = Store::default();
    let tree = tree(&store);
    let folder = Node::folder(0, Some(0), Path::new("away"));
    for _ in 0..2 {
        assert_eq!(tree.list(&folder, Ticks(0)).expect_err("away").kind(), ErrorKind::Unavailable);
    }
    assert_eq!(store.lists.load(Ordering::Relaxed), 2);
}

#[test]
fn several_sources_show_by_their_names() {
    let stores = [Store { many: 2, ..Store::default() }, Store::default()];
    let named = |name: &str, store| (OsString::from(name), store);
    let tree = Tree::new(vec![named("mnist", &stores[0]), named("c4", &stores[1])], REFRESH);
    let root = tree.get(ROOT).expect("the root");
    let names: Vec<_> =
        tree.list(&root, Ticks(0)).expect("listed").list.entries.iter().map(|e| e.name.clone()).collect();
    assert_eq!(names, ["mnist", "c4"]);
    let (mnist, _) = tree.lookup(&root, OsStr::new("mnist"), Ticks(0)).expect("there").expect("there");
    let (c4, _) = tree.lookup(&root, OsStr::new("c4"), Ticks(0)).expect("there").expect("there");
    assert_ne!(mnist.ino, c4.ino);
    let listed = tree.list(&root, Ticks(0)).expect("listed");
    assert_eq!(tree.hold(&root, &listed.list.entries[0]).ino, mnist.ino, "looked up or listed, it is one inode");
    assert_eq!(tree.number(&root, &listed.list.entries[1]), c4.ino);
    assert_eq!(tree.list(&mnist, Ticks(0)).expect("listed").list.entries.len(), 2);
    assert!(tree.lookup(&root, OsStr::new("other"), Ticks(0)).expect("looked").is_none());
}
