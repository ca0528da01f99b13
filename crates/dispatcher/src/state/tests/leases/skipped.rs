//! Skipped samples take bounded room in the ledger, for any report of a consumer.

use crate::state::tests::*;

const MIB: usize = 1 << 20;

fn said(samples: std::ops::Range<u64>, error: &Error) -> Vec<LostSample> {
    let error = error.to_json();
    samples.map(|sample| LostSample { sample, error: error.clone(), ..LostSample::default() }).collect()
}

/// Returns the number of samples in the ledger, and the bytes of their errors.
fn kept(world: &mut World) -> (usize, usize) {
    world.flush();
    (world.disk.skipped.len(), world.disk.skipped.values().map(|error| error.len()).sum())
}

#[test]
fn errors_are_bounded_one_by_one_and_in_a_job_together() {
    let mut world = World::new();
    world.attach(0, 0, 1);
    let session = world.consumers[0].session.expect("attached");
    let error = Error::new(ErrorKind::Function, "x".repeat(MIB)).with("fault", "process");
    world.input(Input::Skipped { session, number: 0, samples: said(0..300, &error) });
    let (samples, bytes) = kept(&mut world);
    assert_eq!(samples, 300);
    assert!(bytes < 300 * 5000, "{bytes}");
    let wide = (0..8).fold(error, |error, i| error.with(&format!("key {i}"), "y".repeat(4000))).bounded();
    world.input(Input::Skipped { session, number: 0, samples: said(300..6300, &wide) });
    let (samples, bytes) = kept(&mut world);
    assert_eq!(samples, 6300);
    assert!(bytes < 34 * MIB, "{bytes}");
    let last = world.disk.skipped.values().last().map(|json| Error::from_json(json)).expect("one");
    assert_eq!((last.kind(), last.fault()), (ErrorKind::Function, forebay_core::Fault::Process));
    // Garbage takes no more room than an error.
    let garbage = LostSample { sample: 7000, error: "{".repeat(MIB), ..LostSample::default() };
    world.input(Input::Skipped { session, number: 0, samples: vec![garbage] });
    assert!(kept(&mut world).1 < 34 * MIB);
}

#[test]
fn a_job_that_loses_more_than_a_ledger_is_for_loses_its_consumer_and_writes_no_more_down() {
    let mut world = World::new();
    let short = Error::new(ErrorKind::Function, "x").with("fault", "process");
    let mut refused = 0;
    for consumer in [0, 1] {
        world.attach(consumer, 0, 1);
        let session = world.consumers[consumer].session.expect("attached");
        world.input(Input::Skipped { session, number: 0, samples: said(0..100_000, &short) });
        world.flush();
        refused +=
            usize::from(world.consumers[consumer].refused.as_ref().is_some_and(|e| e.kind() == ErrorKind::Exhausted));
    }
    assert_eq!(refused, 1, "both are of one job");
    let most = kept(&mut world).0;
    assert_eq!(most, 1 << 17);
    // A consumer that attaches with as many is refused as well.
    let attachment = attachment(world.session(), world.consumers[1].key);
    let (skipped, mut out) = (said(100_000..200_000, &short), Vec::new());
    world.state.handle(world.now, Input::Attach(Attachment { skipped, ..attachment }), &mut out);
    assert!(matches!(&out[..], [Effect::End(_, error)] if error.kind() == ErrorKind::Exhausted));
    assert_eq!(kept(&mut world).0, most);
}
