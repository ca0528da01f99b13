//! The service over real sockets, as users and workers use it, crashes included.

#![expect(clippy::disallowed_methods, reason = "tests wait")]

use std::time::{Duration, Instant};

use crate::common::*;
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{
    BlobPart, CancelJobRequest, GetBlobRequest, ListJobsRequest, ListWorkersRequest, MissingBlobsRequest, Unreachable,
    consumer_message, to_error, worker_event, worker_message,
};

type Test = Result<()>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_read_in_order_and_then_it_is_finished() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, request("digits", 640, 2, 1)?).await?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    let mut consumer = Consumer::attach(&at, job.job, 0, None, 4).await?;
    let mut tokens = 0;
    worker.want(100).await;
    for epoch in 0..2 {
        for ordinal in 0..10 {
            let lease = worker.lease().await?;
            let (place, token, address) = consumer.assigned().await?;
            assert_eq!((lease.epoch, lease.ordinal, lease.token), (place.0, place.1, token));
            assert_eq!((place, address.as_str()), ((epoch, ordinal), "worker-1:1"));
            assert!(token > tokens);
            tokens = token;
            consumer.ack(epoch, ordinal + 1).await;
        }
    }
    let until = Instant::now() + PATIENCE;
    while status(&at, "digits").await? != "finished" {
        assert!(Instant::now() < until);
    }
    drop(consumer);
    let error = Consumer::attach(&at, job.job, 0, None, 4).await.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.message().contains("all 2 epochs were read"), "{error}");
    // A part of it can be read again.
    let mut again = attach_soon(&at, job.job, Some((1, 9))).await?;
    assert_eq!(again.assigned().await?.0, (1, 9));
    Ok(())
}

async fn status(at: &Running, name: &str) -> Result<String> {
    let jobs = at.client().await?.list_jobs(ListJobsRequest::default()).await.map_err(|s| to_error(&s, &at.address))?;
    let job = jobs.into_inner().jobs.into_iter().find(|j| j.name == name);
    job.map(|j| j.state).ok_or_else(|| Error::internal("not listed"))
}

/// Attaches once the dispatcher has noticed that the consumer's last process is gone.
async fn attach_soon(at: &Running, job: u64, from: Option<(u64, u64)>) -> Result<Consumer> {
    let until = Instant::now() + PATIENCE;
    loop {
        match Consumer::attach(at, job, 0, from, 4).await {
            Err(e) if e.kind() == ErrorKind::Conflict && Instant::now() < until => {}
            done => return done,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_one_job_and_the_difference_is_named() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let (first, second) = tokio::join!(open(&at, request("a", 640, 2, 1)?), open(&at, request("a", 640, 2, 1)?));
    let first = first?;
    assert_eq!(first, second?);
    let refused = async |change: &dyn Fn(&mut forebay_proto::OpenJobRequest), kind, text: &str| -> Test {
        let mut other = request("a", 640, 2, 1)?;
        change(&mut other);
        let error = open(&at, other).await.expect_err("refused");
        assert!(error.kind() == kind && error.to_string().contains(text), "{error}");
        Ok(())
    };
    let other = graph(641)?.to_json();
    refused(&|r| r.seed = 8, ErrorKind::Conflict, "seed is 8, and was 7").await?;
    refused(&|r| r.epochs = 3, ErrorKind::Conflict, "epochs is 3, and was 2").await?;
    refused(&|r| r.graph = other.clone(), ErrorKind::Conflict, "the source is range(0..641), and was range(0..640)")
        .await?;
    refused(&|r| r.version = "0.0.1".to_owned(), ErrorKind::Version, "0.0.1").await?;
    refused(&|r| r.consumers = 0, ErrorKind::Invalid, "consumers").await?;
    refused(&|r| r.name = String::new(), ErrorKind::Invalid, "job name").await?;
    refused(&|r| r.graph = "{".to_owned(), ErrorKind::Invalid, "not a pipeline").await?;
    let error = Consumer::attach(&at, first.job, 1, None, 4).await.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let _one = Consumer::attach(&at, first.job, 0, None, 4).await?;
    let error = Consumer::attach(&at, first.job, 0, None, 4).await.err().expect("refused");
    assert_eq!(error.message(), "consumer 0 of job \"a\" is being read by another process");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leases_of_a_lost_worker_go_to_another_at_once() -> Test {
    let dir = tempfile::tempdir()?;
    // The end of the connection tells the dispatcher of the loss: no lease ends before the test does.
    let at = Running::start(dir.path(), |o| o.timing.lease = 10 * PATIENCE)?;
    let job = open(&at, request("a", 640, 0, 1)?).await?;
    let mut consumer = Consumer::attach(&at, job.job, 0, None, 3).await?;
    let mut lost = Worker::hello(&at, 1, vec![]).await?;
    lost.want(3).await;
    let old = lost.leases(3).await?;
    for _ in 0..3 {
        consumer.assigned().await?;
    }
    let mut other = Worker::hello(&at, 2, vec![]).await?;
    other.want(3).await;
    drop(lost);
    for old in old {
        let lease = other.lease().await?;
        assert_eq!((lease.epoch, lease.ordinal), (old.epoch, old.ordinal));
        assert!(lease.token > old.token);
        assert_eq!(consumer.assigned().await?, ((lease.epoch, lease.ordinal), lease.token, "worker-2:1".to_owned()));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_worker_is_fenced_and_told_so_when_it_returns() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |o| o.timing.lease = Duration::from_millis(600))?;
    let job = open(&at, request("a", 640, 0, 1)?).await?;
    let _consumer = Consumer::attach(&at, job.job, 0, None, 1).await?;
    let mut silent = Worker::hello(&at, 1, vec![]).await?;
    silent.want(1).await;
    let stale = silent.lease().await?;
    let mut other = Worker::hello(&at, 2, vec![]).await?;
    other.want(1).await;
    let lease = loop {
        other.heartbeat().await;
        tokio::select! {
            lease = other.lease() => break lease?,
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    };
    assert!(lease.ordinal == stale.ordinal && lease.token > stale.token);
    let error = silent.next().await.expect_err("its session was ended");
    assert!(error.message().contains("silent"), "{error}");
    let mut back = Worker::hello(&at, 1, vec![stale]).await?;
    assert_eq!(back.next().await?, worker_event::Event::Revoke(forebay_proto::Revoke { token: stale.token }));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_that_cannot_be_fetched_moves_on_and_fails_at_last() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, request("a", 640, 0, 1)?).await?;
    let mut consumer = Consumer::attach(&at, job.job, 0, None, 1).await?;
    let workers = [Worker::hello(&at, 1, vec![]).await?, Worker::hello(&at, 2, vec![]).await?];
    for worker in &workers {
        worker.want(10).await;
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        let ((epoch, ordinal), token, address) = consumer.assigned().await?;
        seen.push(address);
        let error = Error::data("bad bytes").to_json();
        consumer.say(consumer_message::Message::Unreachable(Unreachable { epoch, ordinal, token, error })).await;
    }
    assert!(seen.windows(2).all(|w| w[0] != w[1]), "{seen:?}");
    let error = consumer.next().await.expect_err("given up");
    assert_eq!((error.kind(), error.message(), error.get("attempts")), (ErrorKind::Data, "bad bytes", Some("4")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_dispatcher_comes_back_with_every_lease_and_higher_tokens() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, request("a", 640, 0, 1)?).await?;
    let mut consumer = Consumer::attach(&at, job.job, 0, None, 4).await?;
    let (mut kept, mut lost) = (Worker::hello(&at, 1, vec![]).await?, Worker::hello(&at, 2, vec![]).await?);
    kept.want(2).await;
    let held = kept.leases(2).await?;
    lost.want(2).await;
    let gone = lost.leases(2).await?;
    for _ in 0..4 {
        consumer.assigned().await?;
    }
    let highest = gone[1].token;
    drop(at);
    assert!(consumer.next().await.is_err() && kept.next().await.is_err());

    let at = Running::start(dir.path(), |_| {})?;
    assert_eq!(open(&at, request("a", 640, 0, 1)?).await?, job);
    let mut consumer = Consumer::attach(&at, job.job, 0, Some((0, 1)), 4).await?;
    // The first split was consumed while the dispatcher was away; the same workers still hold the others.
    for old in [&held[1], &gone[0], &gone[1]] {
        let (place, token, _) = consumer.assigned().await?;
        assert_eq!((place, token), ((old.epoch, old.ordinal), old.token));
    }
    let stale = held[0];
    let mut kept = Worker::hello(&at, 1, held).await?;
    assert_eq!(kept.next().await?, worker_event::Event::Revoke(forebay_proto::Revoke { token: stale.token }));
    kept.want(3).await;
    let new = kept.lease().await?;
    assert!(new.ordinal == 4 && new.token > highest, "{new:?}");
    // The other worker never comes back: after a lease's time its splits go to the present worker.
    for old in gone {
        let lease = loop {
            kept.heartbeat().await;
            consumer.heartbeat().await;
            tokio::select! {
                lease = kept.lease() => break lease?,
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        };
        assert!(lease.ordinal == old.ordinal && lease.token > new.token, "{lease:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_splits_leave_a_small_ledger_and_a_quick_restart() -> Test {
    const SPLITS: u64 = 20_000;
    // Of 6,400 rows.
    const EPOCH: u64 = 64;
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, request("a", 64 * 100, 0, 1)?).await?;
    let mut consumer = Consumer::attach(&at, job.job, 0, None, 512).await?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    worker.want(60_000).await;
    let mut last = 0;
    let mut acked = (0, 0);
    for granted in 0..SPLITS {
        let ((epoch, ordinal), token, _) = consumer.assigned().await?;
        assert!(token > last && (epoch, ordinal) == (granted / EPOCH, granted % EPOCH));
        (last, acked) = (token, (epoch, ordinal + 1));
        if granted % 64 == 63 {
            consumer.ack(acked.0, acked.1).await;
            // The worker reads its events, and lives.
            worker.heartbeat().await;
            worker.leases(64).await?;
        }
    }
    drop((at, consumer, worker));
    let size = std::fs::metadata(dir.path().join("ledger.redb"))?.len();
    assert!(size < 8 << 20, "{size} bytes");
    let at = Running::start(dir.path(), |_| {})?;
    let mut consumer = Consumer::attach(&at, job.job, 0, Some(acked), 512).await?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    worker.want(1000).await;
    assert!(worker.lease().await?.token > last);
    assert!(consumer.assigned().await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_come_back_as_they_went_in_and_jobs_need_theirs() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let bytes: Vec<u8> = (0..2_500_000u32).map(|i| (i / 7) as u8).collect();
    let id = forebay_plan::BlobId::of(&bytes).0;
    let source = forebay_plan::Source::Memory { blob: forebay_plan::BlobId(id.clone()), rows: 10, fields: vec![] };
    let mut job = request("a", 1, 1, 1)?;
    job.graph = forebay_plan::Graph::new(source, None)?.to_json();
    let error = open(&at, job.clone()).await.expect_err("refused");
    assert!(error.kind() == ErrorKind::Invalid && error.get("blobs") == Some(&id), "{error}");

    let mut client = at.client().await?;
    let failed = |s| to_error(&s, "the dispatcher");
    let parts = |bytes: &[u8]| {
        let part = |data: &[u8]| BlobPart { id: id.clone(), data: data.to_vec().into() };
        tokio_stream::iter(bytes.chunks(1 << 20).map(part).collect::<Vec<_>>())
    };
    let error = client.put_blob(parts(&bytes[1..])).await.map_err(failed).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Data);
    let ask = || MissingBlobsRequest { ids: vec![id.clone()] };
    assert_eq!(client.missing_blobs(ask()).await.map_err(failed)?.into_inner().ids, ask().ids);
    client.put_blob(parts(&bytes)).await.map_err(failed)?;
    client.put_blob(parts(&bytes)).await.map_err(failed)?;
    assert_eq!(client.missing_blobs(ask()).await.map_err(failed)?.into_inner().ids, [""; 0]);
    let mut stream = client
        .get_blob(GetBlobRequest { id: id.clone(), ..GetBlobRequest::default() })
        .await
        .map_err(failed)?
        .into_inner();
    let mut back = Vec::new();
    while let Some(part) = stream.message().await.map_err(failed)? {
        back.extend_from_slice(&part.data);
    }
    assert_eq!(back, bytes);
    let job = open(&at, job).await?;
    let mut index = client
        .get_blob(GetBlobRequest { id: job.index, ..GetBlobRequest::default() })
        .await
        .map_err(failed)?
        .into_inner();
    let part = index.message().await.map_err(failed)?.map(|p| p.data);
    assert_eq!(part.as_deref(), Some(&b"an index"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_ends_the_consumers_and_frees_the_name() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let first = open(&at, request("a", 640, 1, 1)?).await?;
    assert_eq!(status(&at, "a").await?, "no consumer");
    let mut consumer = Consumer::attach(&at, first.job, 0, None, 2).await?;
    assert_eq!(status(&at, "a").await?, "waiting for workers");
    let mut worker = Worker::hello(&at, 0xab, vec![]).await?;
    worker.want(1).await;
    let lease = worker.lease().await?;
    consumer.assigned().await?;
    assert_eq!(status(&at, "a").await?, "running");
    let failed = |s| to_error(&s, "the dispatcher");
    let mut client = at.client().await?;
    let workers = client.list_workers(ListWorkersRequest {}).await.map_err(failed)?.into_inner().workers;
    let id = forebay_proto::WorkerSecret::new(0xab).id();
    assert_eq!((workers[0].worker.clone(), workers[0].leases), (format!("{:032x}", id.0), 1));
    let name = || CancelJobRequest { name: "a".to_owned(), tenant: String::new() };
    client.cancel_job(name()).await.map_err(failed)?;
    assert_eq!(consumer.next().await.err().map(|e| e.kind()), Some(ErrorKind::Closed));
    assert_eq!(worker.next().await?, worker_event::Event::Revoke(forebay_proto::Revoke { token: lease.token }));
    assert_eq!(worker.next().await?, worker_event::Event::Forget(forebay_proto::Forget { job: first.job }));
    assert_eq!(client.cancel_job(name()).await.map_err(failed).err().map(|e| e.kind()), Some(ErrorKind::Closed));
    let error = Consumer::attach(&at, first.job, 0, None, 2).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Closed));
    let second = open(&at, request("a", 641, 1, 1)?).await?;
    assert!(second.job > first.job);
    worker.say(worker_message::Message::Leaving(forebay_proto::Leaving {})).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_sessions_and_keeps_the_last_ack() -> Test {
    let dir = tempfile::tempdir()?;
    let mut at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, request("a", 640, 1, 1)?).await?;
    let mut consumer = Consumer::attach(&at, job.job, 0, None, 2).await?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    worker.want(3).await;
    consumer.assigned().await?;
    consumer.ack(0, 1).await;
    // The third split is granted only after the ack.
    worker.leases(3).await?;
    at.shutdown.cancel();
    let ended = tokio::time::timeout(PATIENCE, &mut at.task).await.map_err(|_| Error::internal("it runs on"))?;
    ended.map_err(|e| Error::internal(e.to_string()))??;
    let error = loop {
        if let Err(error) = worker.next().await {
            break error;
        }
    };
    assert_eq!(error.message(), "the dispatcher is stopping");
    drop(at);
    let at = Running::start(dir.path(), |_| {})?;
    let jobs = at.client().await?.list_jobs(ListJobsRequest::default()).await.map_err(|s| to_error(&s, &at.address))?;
    assert_eq!(jobs.into_inner().jobs[0].consumers[0].ordinal, 1);
    Ok(())
}
