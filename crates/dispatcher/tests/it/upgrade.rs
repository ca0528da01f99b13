//! Processes of two versions over real sockets.

use crate::common::*;
use forebay_core::{ErrorKind, Result};
use forebay_proto::{Build, ListWorkersRequest, OpenJobRequest, WorkerStatus, to_error};

/// The request of a client of a later version, which computes other numbers of a range.
fn later(name: &str) -> Result<OpenJobRequest> {
    let bits = [("source range", 2), ("plan", 1), ("op of later", 1)].map(|(name, version)| (name.to_owned(), version));
    let build = Build { protocol: 3, protocol_oldest: 2, bits: bits.into(), ..Build::default() };
    Ok(OpenJobRequest { build: Some(build), ..request(name, 640, 1, 1)? })
}

async fn workers(at: &Running) -> Result<Vec<WorkerStatus>> {
    let answer = at.client().await?.list_workers(ListWorkersRequest::default()).await;
    Ok(answer.map_err(|s| to_error(&s, &at.address))?.into_inner().workers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_the_version_before_gets_no_splits_of_a_job_with_later_bits_and_the_list_says_why() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, later("later")?).await?;
    drop(at);
    // The ledger has the bits that the job began with.
    let at = Running::start(dir.path(), |_| {})?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    worker.want(4).await;
    let listed = workers(&at).await?;
    let differs: Vec<_> = listed[0].differs.iter().map(|d| (&*d.job, &*d.difference)).collect();
    assert_eq!(differs, [("later", "source range (version 1, not 2)")]);
    let refused = Consumer::attach(&at, job.job, 0, None, 4).await.err().expect("a consumer of the version before");
    assert_eq!(refused.kind(), ErrorKind::Version);
    assert!(refused.message().contains("source range (version 1, not 2)"), "{refused}");
    // It computes for jobs of its own version.
    let own = open(&at, request("own", 640, 1, 1)?).await?;
    let _consumer = Consumer::attach(&at, own.job, 0, None, 4).await?;
    assert_eq!(worker.lease().await?.job, own.job);
    assert_eq!(workers(&at).await?[0].differs.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_version_too_far_away_is_refused_with_both_versions() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |_| {})?;
    let build = Build { protocol: 9, protocol_oldest: 8, version: "0.9.0".to_owned(), ..Build::default() };
    let far = OpenJobRequest { build: Some(build), ..request("far", 640, 1, 1)? };
    let refused = open(&at, far).await.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Version);
    let says = refused.to_string();
    assert!(says.contains("forebay 0.9.0 (protocols 8 to 9)") && says.contains("(protocols 1 to 2)"), "{says}");
    Ok(())
}
