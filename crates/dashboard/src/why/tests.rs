use forebay_proto::{AvoidedWorker, ConsumerStatus, ConsumerSums, JobStatus, OpStatus, ScaleDecision, WorkerStatus};

use super::*;

/// A job whose trainer waited for a share of the last minute and took `batches` batches.
fn job(waited: f64, batches: u64) -> JobStatus {
    let waited_ms = (60_000.0 * waited) as u64;
    let recent = ConsumerSums { waited_ms, step_ms: 60_000 - waited_ms, batches, ..ConsumerSums::default() };
    let consumer =
        ConsumerStatus { attached: true, recent: Some(recent), recent_ms: 60_000, ..ConsumerStatus::default() };
    JobStatus { state: "running".to_owned(), consumers: vec![consumer], ..JobStatus::default() }
}

fn decided(mut job: JobStatus, workers: u32, json: &str) -> JobStatus {
    job.workers = workers;
    job.decisions = vec![ScaleDecision { json: json.to_owned(), ..ScaleDecision::default() }];
    job
}

fn avoids(mut job: JobStatus, cause: &str) -> JobStatus {
    let worker = AvoidedWorker { address: "b:1".to_owned(), cause: cause.to_owned(), ..AvoidedWorker::default() };
    job.avoided = vec![worker];
    job
}

fn with_op(mut job: JobStatus, name: &str, at: &str) -> JobStatus {
    let op = |op: &str, at: &str, row_us| OpStatus {
        op: op.into(),
        at: at.into(),
        rows_in: 10,
        row_us,
        ..OpStatus::default()
    };
    job.ops = vec![op("read", "workers", 29.0), op(name, at, 71.0)];
    job
}

fn workers(count: usize, price: f64) -> Vec<WorkerStatus> {
    let worker = WorkerStatus { state: "working".to_owned(), price, ..WorkerStatus::default() };
    let lost = WorkerStatus { state: "lost".to_owned(), ..WorkerStatus::default() };
    let local = WorkerStatus { local: true, ..worker.clone() };
    std::iter::repeat_n(worker, count).chain([lost, local]).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn each_table_of_figures_has_its_sentence() {
    let demand = r#"{"rule":"demand","margin":0.1}"#;
    let unread = JobStatus { state: "no consumer".to_owned(), ..JobStatus::default() };
    let state = |state: &str| JobStatus { state: state.to_owned(), ..job(0.5, 10) };
    let mut waits = job(1.0, 0);
    waits.consumers[0].waiting_ms = 42_000;
    let decode = |job| with_op(job, "decode_image", "workers");
    for (job, there, bound, more, sentence) in [
        (
            decode(decided(job(0.62, 100), 5, demand)),
            workers(2, 0.0),
            Bound::Data,
            Some(3),
            "Data is the bottleneck: training waited 62 % of the last minute. decode_image takes 71 % of the CPU; 3 more \
             workers (now 2) would remove the wait.",
        ),
        (
            decided(job(0.62, 100), 3, demand),
            workers(2, 0.41),
            Bound::Data,
            Some(1),
            "Data is the bottleneck: training waited 62 % of the last minute. 1 more worker (now 2) would remove the wait for \
             0.41 an hour more.",
        ),
        (
            decided(job(0.01, 100), 1, r#"{"rule":"fewer","load":0.4}"#),
            workers(4, 0.5),
            Bound::Training,
            Some(-3),
            "Training is the bottleneck: it waited 1 % of the last minute. 1 worker would do (now 4, 1.50 an hour less).",
        ),
        (
            decided(job(0.002, 100), 2, r#"{"rule":"enough","at_most":0.02}"#),
            workers(2, 0.0),
            Bound::Training,
            Some(0),
            "Training is the bottleneck: it waited 0.2 % of the last minute. 2 workers are right.",
        ),
        (
            decided(decode(job(0.3, 100)), 4, r#"{"rule":"shared","useful":2}"#),
            workers(4, 0.0),
            Bound::Data,
            Some(0),
            "Data is the bottleneck: training waited 30 % of the last minute. decode_image takes 71 % of the CPU; more workers \
             would bring no more: something that they share, such as the store or the network, holds them up.",
        ),
        (
            decided(job(0.3, 100), 4, r#"{"rule":"at_most","needed":9,"limit":4}"#),
            workers(4, 0.0),
            Bound::Data,
            Some(0),
            "Data is the bottleneck: training waited 30 % of the last minute. 9 workers are needed, and 4 are allowed.",
        ),
        (
            decided(with_op(job(0.3, 100), "my_map", "reader"), 4, demand),
            workers(2, 0.0),
            Bound::Data,
            Some(2),
            "Data is the bottleneck: training waited 30 % of the last minute. my_map takes 71 % of the CPU; it runs at the \
             trainer, so more workers would not help.",
        ),
        (
            // Half of the time is waiting, so twice the workers are about right.
            decided(job(0.5, 100), 2, r#"{"rule":"fixed"}"#),
            workers(2, 0.0),
            Bound::Data,
            Some(2),
            "Data is the bottleneck: training waited 50 % of the last minute. About 2 more workers (now 2) would remove the \
             wait.",
        ),
        (
            waits,
            workers(1, 0.0),
            Bound::Data,
            None,
            "Data is the bottleneck: training got no batch in the last minute, and it waits for 42 s now.",
        ),
        (
            job(0.0, 0),
            workers(1, 0.0),
            Bound::Training,
            None,
            "Training is the bottleneck: it has taken no batch for the last minute.",
        ),
        (
            JobStatus {
                consumers: vec![ConsumerStatus { attached: true, ..ConsumerStatus::default() }],
                ..state("running")
            },
            workers(1, 0.0),
            Bound::Unknown,
            None,
            "Nothing is known yet: the trainers have reported too little.",
        ),
        (unread, workers(1, 0.0), Bound::Nothing, None, "No process reads this job: no trainer is attached."),
        (state("finished"), workers(1, 0.0), Bound::Nothing, None, "The job is finished."),
        (
            avoids(state("running"), "the worker at b:1 cannot be reached: no answer within 2s"),
            workers(0, 0.0),
            Bound::Data,
            None,
            "Data is the bottleneck: training waited 50 % of the last minute. Some workers are not used: the worker \
             at b:1 cannot be reached: no answer within 2s.",
        ),
        (
            avoids(state("running"), "there is no such file: /data/a"),
            workers(0, 0.0),
            Bound::Data,
            None,
            "Data is the bottleneck: training waited 50 % of the last minute. Some workers are not used: the worker \
             at b:1 failed: there is no such file: /data/a.",
        ),
        (state("cancelled"), workers(1, 0.0), Bound::Nothing, None, "The job was cancelled."),
        (
            state("waiting for workers"),
            workers(0, 0.0),
            Bound::Data,
            None,
            "Data is the bottleneck: no worker computes for this job. Start one.",
        ),
    ] {
        let verdict = why(&job, &there);
        assert_eq!((verdict.bound, verdict.workers_more, &*verdict.sentence), (bound, more, sentence));
    }
}

#[test]
fn a_trainer_that_computes_its_batches_itself_has_the_same_sentence() {
    let ops = [("read".to_owned(), 2.9), ("decode_image".to_owned(), 7.1)];
    for (waited_s, step_s, batches, bound, sentence) in [
        (
            37.2,
            22.8,
            100,
            Bound::Data,
            "Data is the bottleneck: training waited 62 % of the last minute. decode_image takes 71 % of the CPU; all of it runs \
             in this process, and workers of a service would share the work.",
        ),
        (0.1, 9.9, 100, Bound::Training, "Training is the bottleneck: it waited 1 % of the last 10 s."),
        (0.5, 0.5, 100, Bound::Unknown, "Nothing is known yet: the trainers have reported too little."),
    ] {
        let verdict = judge(&Figures::in_process(waited_s, step_s, batches, &ops));
        assert_eq!((verdict.bound, verdict.workers_more, &*verdict.sentence), (bound, None, sentence));
    }
    let verdict = judge(&Figures::in_process(3.0, 1.0, 2, &[]));
    assert!(
        verdict.sentence.ends_with("All of it runs in this process, and workers of a service would share the work.")
    );
}

#[test]
fn nonsense_is_judged_and_long_names_are_cut() {
    let recent =
        ConsumerSums { waited_ms: u64::MAX / 4, step_ms: u64::MAX / 4, batches: u64::MAX, ..ConsumerSums::default() };
    let mut job = with_op(job(0.5, 1), &"x".repeat(10_000), "workers");
    (job.consumers[0].recent, job.consumers[0].waiting_ms) = (Some(recent), u64::MAX);
    job.decisions = vec![ScaleDecision { json: "no JSON".to_owned(), ..ScaleDecision::default() }];
    let verdict = why(&job, &workers(1, f64::NAN));
    assert!(verdict.sentence.len() < 400, "{}", verdict.sentence);
    assert_eq!(verdict.op.map(|op| op.len()), Some(60));
}
