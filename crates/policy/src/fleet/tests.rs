use super::memory::Memory;
use super::*;

fn offers() -> Vec<Offer> {
    ["kind=big,price=0.38,threads=8", "kind=spot,price=0.11,threads=8,max=20,spot", "kind=small,price=0.17,threads=4"]
        .map(|text| text.parse().expect("an offer"))
        .into()
}

fn seen(seconds: u64, there: [u32; 3]) -> Observation {
    let at = Ticks::default() + Duration::from_secs(seconds);
    Observation { at, need: Some(40.0), others: 0.0, there: there.into(), paces: vec![1.0; 3], workers_max: 1000 }
}

fn counts(wanted: Option<Vec<Wanted>>) -> Vec<u32> {
    wanted.expect("known").iter().map(|kind| kind.workers).collect()
}

#[test]
fn an_offer_is_read_as_it_is_written_and_what_is_none_is_refused() {
    let offer: Offer = "kind=c5.4xlarge, price=0.27,threads=16,spot,max=7".parse().expect("an offer");
    let of = Offer { kind: "c5.4xlarge".into(), price: 0.27, threads: 16, max: 7, spot: true };
    assert_eq!(offer, of);
    assert_eq!(offers()[0].max, 1000);
    for text in [
        "",
        "kind=a",
        "kind=a,price=1",
        "kind=,price=1,threads=1",
        "price=1,threads=1",
        "kind=a,price=-1,threads=1",
        "kind=a,price=nan,threads=1",
        "kind=a,price=1,threads=0",
        "kind=a,price=1,threads=1,max=0",
        "kind=a,price=1,threads=1,spots",
        "kind=a,price=1,threads=1,threads=2",
        "kind=a,price=1,threads=1,spot=yes",
    ] {
        assert!(text.parse::<Offer>().is_err(), "{text:?}");
    }
}

#[test]
fn nothing_is_said_while_it_is_not_known_what_jobs_want() {
    let (wanted, next) = decide(&offers(), &Observation { need: None, ..seen(0, [1, 2, 3]) }, &Previous::default());
    assert_eq!(wanted, None);
    let (wanted, _) = decide(&offers(), &seen(1, [0, 0, 0]), &next);
    assert_eq!(counts(wanted), [0, 5, 0]);
}

#[test]
fn one_worker_is_always_wanted_unless_others_are_there() {
    let idle = Observation { need: Some(0.0), ..seen(0, [0, 0, 0]) };
    assert_eq!(counts(decide(&offers(), &idle, &Previous::default()).0), [0, 1, 0]);
    let fixed = Observation { others: 8.0, ..idle };
    assert_eq!(counts(decide(&offers(), &fixed, &Previous::default()).0), [0, 0, 0]);
    let both = Observation { others: 30.0, ..seen(0, [0, 0, 0]) };
    assert_eq!(counts(decide(&offers(), &both, &Previous::default()).0), [0, 2, 0]);
}

#[test]
fn faster_threads_are_fewer_workers() {
    let fast = Observation { paces: vec![1.0, 2.0, 1.0], ..seen(0, [0, 0, 0]) };
    assert_eq!(counts(decide(&offers(), &fast, &Previous::default()).0), [0, 3, 0]);
}

#[test]
fn what_does_not_come_is_filled_up_tried_again_and_then_what_filled_up_goes() {
    let mut before = Previous::default();
    let mut there = [0, 0, 0];
    let mut spot_max = 3;
    let mut steps = Vec::new();
    let mut reasons = Vec::new();
    // The provisioner starts workers within a step of ten seconds; the cloud has three spot machines, and ten after 12
    // minutes.
    for step in 0..120 {
        if step == 72 {
            spot_max = 10;
        }
        let (wanted, next) = decide(&offers(), &seen(step * 10, there), &before);
        let wanted = wanted.expect("known");
        before = next;
        let now: Vec<_> = wanted.iter().map(|kind| kind.workers).collect();
        reasons.push(wanted[1].reason.to_string());
        there = [now[0], now[1].min(spot_max), now[2]];
        if steps.last().is_none_or(|(_, last)| *last != now) {
            steps.push((step, now));
        }
    }
    let expected = [
        (0, vec![0, 5, 0]),
        // A minute and a half after the third came; the start time is still unknown.
        (10, vec![0, 5, 4]),
        // Three minutes after it.
        (19, vec![0, 3, 4]),
        // Ten minutes later, and two in which it might have been noise: the spot machines come before the others go.
        (91, vec![0, 5, 4]),
        (92, vec![0, 5, 0]),
    ];
    assert_eq!(steps, expected);
    assert!(reasons[30].starts_with("no more came for 3 minutes"), "{}", reasons[30]);
}

/// Five spot machines are there, and then none; others start within a step of five seconds.
#[test]
fn what_is_lost_is_filled_up_sooner_than_what_has_not_come_yet() {
    let (mut before, mut there) = (Previous::default(), [0, 0, 0]);
    let mut fills = None;
    for step in 0..60 {
        if step == 20 {
            there[1] = 0;
        }
        let (wanted, next) = decide(&offers(), &seen(step * 5, there), &before);
        let wanted = wanted.expect("known");
        before = next;
        if let Some(kind) = wanted.iter().find(|kind| matches!(kind.reason, Reason::FillsIn(_))) {
            fills.get_or_insert((step, wanted[1].workers, kind.reason.to_string()));
        }
        let spot = if step < 20 { wanted[1].workers } else { 0 };
        there = [wanted[0].workers, spot, wanted[2].workers];
    }
    assert_eq!(fills, Some((23, 5, "10 more fill in for workers that are later than usual".to_owned())));
}

#[test]
fn what_always_takes_long_is_not_late_before_it_has_taken_twice_as_long() {
    let mut kind = Memory::default();
    kind.wanted = 5;
    let mut at = 0;
    let mut pass = |kind: &mut Memory, seconds: u64, there: u32| {
        (0..seconds / 5).any(|_| {
            at += 5000;
            kind.see(Ticks(at), there);
            kind.is_late(Ticks(at))
        })
    };
    assert!(!pass(&mut kind, 50, 0) && !pass(&mut kind, 10, 5));
    kind.wanted = 9;
    assert!(!pass(&mut kind, 95, 5) && pass(&mut kind, 20, 5), "a hundred seconds are twice what it took");
    assert!(!pass(&mut kind, 10, 9));
}
