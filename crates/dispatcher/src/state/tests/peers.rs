//! The peers that each worker is sent, and the keys that they show.

use forebay_proto::Peers;

use super::*;

/// A state, and the peers that each worker was sent last.
struct Service {
    state: State,
    now: Ticks,
    sessions: BTreeMap<u128, SessionId>,
    told: BTreeMap<u128, Peers>,
}

impl Service {
    /// A state with workers that cache rows at these places, and compute for these tenants.
    fn of(places: &[(&str, Option<&str>)], secret: Option<[u8; 16]>) -> Self {
        let world = World::new();
        let mut service = Self { state: world.state, now: world.now, sessions: BTreeMap::new(), told: BTreeMap::new() };
        secret.into_iter().for_each(|secret| service.state.set_secret(secret));
        (0..).zip(places).for_each(|(i, place)| service.hello(i, place));
        service
    }

    fn hello(&mut self, i: u128, (place, serves): &(&str, Option<&str>)) {
        let session = SessionId(1000 + self.sessions.len() as u64);
        self.sessions.insert(i, session);
        self.told.remove(&i);
        let (address, place, serves) = (format!("w{i}:1").into(), (*place).into(), serves.map(Arc::from));
        let held = Vec::new();
        self.input(
            i,
            Input::Hello(Arrival {
                session,
                worker: WorkerId(i),
                address,
                threads: 1,
                held,
                serves,
                place,
                only: None,
                local_key: JobKey::default(),
                worker_type: WorkerType::default(),
                bits: BitVersions::own(),
            }),
        );
    }

    /// All send a heartbeat, long enough after the last answer to be answered.
    fn beat(&mut self) {
        self.now = self.now + Timing::default().lease / 2;
        for (i, session) in self.sessions.clone() {
            self.input(i, Input::WorkerHeartbeat { session, said: WorkerHeartbeat::default() });
        }
    }

    fn input(&mut self, i: u128, input: Input) {
        let mut out = Vec::new();
        self.state.handle(self.now, input, &mut out);
        for effect in out {
            if let Effect::Worker(session, worker_event::Event::Heartbeat(reply)) = effect {
                assert_eq!(session, self.sessions[&i]);
                reply.peers.into_iter().for_each(|peers| _ = self.told.insert(i, peers));
            }
        }
    }

    /// Returns the numbers of the peers that each of these workers was sent.
    fn told(&self, workers: &[u128]) -> Vec<Vec<u128>> {
        let number = |address: &String| address[1..address.len() - 2].parse().expect("a number");
        let of = |i| self.told.get(i).map_or(Vec::new(), |told| told.addresses.iter().map(number).collect());
        workers.iter().map(of).collect()
    }
}

#[test]
fn a_worker_hears_of_those_that_keep_rows_elsewhere_and_of_what_has_changed() {
    let places = [("a", None), ("", None), ("b", None), ("a", None), ("c", Some("t")), ("d", Some("t"))];
    let mut service = Service::of(&places, None);
    let all = [0, 1, 2, 3, 4, 5];
    assert_eq!(service.told(&all), [vec![], vec![0], vec![0], vec![2], vec![], vec![4]], "the workers that were there");
    service.beat();
    // In ring order from the requesting worker on. The second caches nothing, and may still request rows.
    assert_eq!(service.told(&all), [vec![2], vec![2, 3, 0], vec![3, 0], vec![2], vec![5], vec![4]]);
    service.told.clear();
    service.beat();
    assert!(service.told.is_empty(), "it was said");
    service.hello(2, &("b", None));
    assert_eq!(service.told(&[2]), [vec![3, 0]], "its session is another");
    service.state.leases.lose(service.now, WorkerId(2));
    service.sessions.remove(&2);
    service.beat();
    assert_eq!(service.told(&[0, 1, 3]), [vec![], vec![3, 0], vec![]]);
    assert!(service.told.contains_key(&0) && !service.told.contains_key(&4), "that there is none is news");
}

#[test]
fn each_tenants_workers_have_a_key_of_their_own() {
    let places = [("a", None), ("b", None), ("c", Some("t")), ("d", Some("t")), ("e", Some("")), ("", Some("u"))];
    let service = Service::of(&places, Some([7; 16]));
    let keys: Vec<_> = (0..5).map(|i| &service.told[&i].key).collect();
    assert!(keys.iter().all(|key| key.len() == 16));
    assert!(keys[0] == keys[1] && keys[2] == keys[3]);
    assert!(keys[0] != keys[2] && keys[2] != keys[4] && keys[0] != keys[4]);
    assert!(!service.told.contains_key(&5), "it keeps nothing, and has no peer");
    assert!(Service::of(&places, None).told[&0].key.is_empty(), "without tokens");
}

#[test]
fn of_many_each_is_asked_by_as_many_as_it_asks() {
    let places: Vec<String> = (0..200).map(|i| format!("place {i}")).collect();
    let mut service = Service::of(&places.iter().map(|place| (&**place, None)).collect::<Vec<_>>(), None);
    service.beat();
    let mut asked = BTreeMap::<u128, usize>::new();
    for peers in service.told(&(0..200).collect::<Vec<_>>()) {
        assert_eq!(peers.len(), 64);
        peers.into_iter().for_each(|peer| *asked.entry(peer).or_default() += 1);
    }
    assert!(asked.len() == 200 && asked.values().all(|&n| n == 64));
}
