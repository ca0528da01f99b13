//! Pecan's placement machine, against the decisions in the logs of its authors' own runs.
//!
//! `golden/pecan_autoplacement_traces.json` has the sample logs of Pecan's artifact (USENIX ATC 2024), window by
//! window: workers elsewhere (`remote`), workers in the reader's process (`local`), and milliseconds for a batch
//! (`ms`).

use forebay_core::Ticks;
use forebay_policy::scaling::{Limits, Observation};
use forebay_policy_lab::baselines::pecan;
use serde_json::Value;

fn observation(window: &Value) -> Observation {
    let number = |name: &str| window[name].as_u64().expect("a number") as u32;
    Observation {
        at: Ticks(0),
        workers: number("remote"),
        local: number("local"),
        steady: true,
        limits: Limits { min: 0, max: 100 },
        threads: 8.0,
        batches: 500,
        // Windows with a wrong, negative time are passed on unchanged.
        delivered: 1000.0 / window["ms"].as_f64().expect("a number"),
        demand: None,
        waited: 0.0,
        compute: None,
        busy: None,
        made: None,
        ahead: None,
        threads_by_kind: Vec::new(),
        beside: 0.0,
        host: None,
    }
}

/// Returns how many of the next placements are predicted, and how many there are.
fn predicted(run: &str, threshold: f64) -> (usize, usize) {
    let traces: Value = serde_json::from_str(include_str!("../golden/pecan_autoplacement_traces.json")).expect("JSON");
    let windows: Vec<_> = traces[run].as_array().expect("a run").iter().map(observation).collect();
    let mut previous = pecan::Previous::new(threshold);
    let is_right = |pair: &[Observation]| {
        let (decision, next) = pecan::decide(&pair[0], &previous);
        previous = next;
        (decision.workers, decision.local) == (pair[1].workers, pair[1].local)
    };
    let right: Vec<_> = windows.windows(2).map(is_right).collect();
    (right.iter().filter(|right| **right).count(), right.len())
}

#[test]
fn the_published_decisions_are_predicted() {
    let resnet = predicted("resnet_pecan.log", 0.0);
    assert!(resnet.0 >= 68 && resnet.1 == 70, "ResNet-50: {resnet:?}");
    let retina = predicted("retina_pecan.log", 0.03);
    assert!(retina.0 >= 18 && retina.1 == 19, "RetinaNet: {retina:?}");
}
