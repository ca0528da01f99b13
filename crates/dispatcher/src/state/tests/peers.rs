//! Who is told of whom, and what they show each other.

use super::*;

/// Where each of so many workers keeps rows, by its number; and for whom it computes.
fn world(places: &[(&str, Option<&str>)]) -> World {
    let mut world = World::new();
    world.state.set_secret([7; 16]);
    for (i, place) in (0..).zip(places) {
        say_hello(&mut world, i, place);
    }
    world
}

fn say_hello(world: &mut World, i: u128, (place, serves): &(&str, Option<&str>)) -> SessionId {
    let session = world.session();
    let (address, place) = (format!("w{i}:1").into(), (*place).into());
    let serves = serves.map(Arc::from);
    world.input(Input::Hello { session, worker: WorkerId(i), address, threads: 1, held: Vec::new(), serves, place });
    session
}

fn told(world: &mut World, i: u128) -> Option<Vec<String>> {
    world.state.news_of_peers(WorkerId(i)).map(|news| news.addresses)
}

#[test]
fn a_worker_hears_of_those_that_keep_rows_elsewhere_and_of_what_has_changed() {
    let mut world = world(&[("a", None), ("", None), ("b", None), ("a", None), ("c", Some("t")), ("d", Some("t"))]);
    let heard: Vec<_> = (0..6).map(|i| told(&mut world, i)).collect();
    let of = |workers: &[u8]| Some(workers.iter().map(|i| format!("w{i}:1")).collect::<Vec<_>>());
    // In the order of the ring, from the one that asks on. The second keeps nothing, and may ask all the same.
    assert_eq!(heard, [of(&[2]), of(&[2, 3, 0]), of(&[3, 0]), of(&[2]), of(&[5]), of(&[4])]);
    assert_eq!((0..6).filter_map(|i| told(&mut world, i)).count(), 0, "it was said");
    say_hello(&mut world, 2, &("b", None));
    assert_eq!((told(&mut world, 0), told(&mut world, 2)), (None, of(&[3, 0])), "its session is another");
    world.state.lose(world.now, WorkerId(2), &mut Vec::new());
    assert_eq!([0, 1, 3].map(|i| told(&mut world, i)), [of(&[]), of(&[3, 0]), of(&[])]);
    let alone = say_hello(&mut world, 9, &("", Some("nobody's")));
    assert_eq!(told(&mut world, 9), None, "there is nothing to say");
    assert!(world.state.sessions.contains_key(&alone));
}

#[test]
fn each_tenants_workers_have_a_key_of_their_own() {
    let mut world = world(&[("a", None), ("b", None), ("c", Some("t")), ("d", Some("t")), ("e", Some(""))]);
    let keys: Vec<_> = (0..5).filter_map(|i| world.state.news_of_peers(WorkerId(i))).map(|news| news.key).collect();
    assert!(keys.iter().all(|key| key.len() == 16));
    assert!(keys[0] == keys[1] && keys[2] == keys[3]);
    assert!(keys[0] != keys[2] && keys[2] != keys[4] && keys[0] != keys[4]);
    let mut open = World::new();
    say_hello(&mut open, 0, &("a", None));
    assert_eq!(open.state.news_of_peers(WorkerId(0)).map(|news| news.key), Some(Vec::new()), "without tokens");
}

#[test]
fn of_many_each_is_asked_by_as_many_as_it_asks() {
    let places: Vec<String> = (0..200).map(|i| format!("place {i}")).collect();
    let mut world = world(&places.iter().map(|place| (&**place, None)).collect::<Vec<_>>());
    let mut asked = BTreeMap::<String, usize>::new();
    for i in 0..200 {
        let peers = told(&mut world, i).expect("news");
        assert_eq!(peers.len(), 64);
        peers.into_iter().for_each(|peer| *asked.entry(peer).or_default() += 1);
    }
    assert!(asked.len() == 200 && asked.values().all(|&n| n == 64));
}
