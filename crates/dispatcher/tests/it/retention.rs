//! Jobs that are over are removed, with the blobs that only they needed.

#![expect(clippy::disallowed_methods, reason = "tests wait")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::*;
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{BlobPart, CancelJobRequest, ForgetJobRequest, ListJobsRequest, to_error};

type Test = Result<()>;

async fn cancel(at: &Running, name: &str) -> Result<()> {
    let request = CancelJobRequest { name: name.to_owned(), tenant: String::new() };
    at.client().await?.cancel_job(request).await.map(drop).map_err(|s| to_error(&s, &at.address))
}

async fn forget(at: &Running, name: &str) -> Result<()> {
    let request = ForgetJobRequest { name: name.to_owned(), tenant: String::new() };
    at.client().await?.forget_job(request).await.map(drop).map_err(|s| to_error(&s, &at.address))
}

async fn names(at: &Running) -> Result<Vec<String>> {
    let jobs = at.client().await?.list_jobs(ListJobsRequest::default()).await.map_err(|s| to_error(&s, &at.address))?;
    Ok(jobs.into_inner().jobs.into_iter().map(|job| job.name).collect())
}

/// Uploads a blob.
async fn put(at: &Running, data: &'static [u8]) -> Result<String> {
    let id = blake3::hash(data).to_hex().to_string();
    let part = BlobPart { id: id.clone(), data: data.into() };
    let put = at.client().await?.put_blob(tokio_stream::once(part)).await;
    put.map_err(|s| to_error(&s, &at.address))?;
    Ok(id)
}

async fn until_gone(path: &Path) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while path.exists() {
        if Instant::now() > until {
            return Err(Error::internal(format!("{} is still there", path.display())));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_forgotten_is_gone_for_good_with_the_blobs_that_it_alone_needed() -> Test {
    let dir = tempfile::tempdir()?;
    let blobs = dir.path().join("blobs");
    let at = Running::start(dir.path(), |o| o.retention.blobs = Duration::from_millis(200))?;
    let (one, two) = (open(&at, request("one", 640, 1, 1)?).await?, open(&at, request("two", 64, 1, 1)?).await?);
    assert_eq!(one.index, two.index, "the indexer of these tests knows one");
    let index = blobs.join(&one.index);
    assert_eq!(forget(&at, "one").await.expect_err("it goes on").kind(), ErrorKind::Conflict);
    assert_eq!(forget(&at, "none").await.expect_err("none").kind(), ErrorKind::NotFound);
    cancel(&at, "one").await?;
    forget(&at, "one").await?;
    assert_eq!(names(&at).await?, ["two"]);
    until_gone(&blobs.join(put(&at, b"for a job that never came").await?)).await?;
    assert!(index.exists(), "the other job needs it");
    cancel(&at, "two").await?;
    // A cancelled job is kept, and can be listed.
    until_gone(&blobs.join(put(&at, b"and another").await?)).await?;
    assert!(index.exists(), "it is remembered");
    forget(&at, "two").await?;
    until_gone(&index).await?;
    drop(at);
    let at = Running::start(dir.path(), |_| {})?;
    assert_eq!(names(&at).await?, [""; 0]);
    // A blob that is uploaded again exists again.
    assert_eq!(open(&at, request("two", 64, 1, 1)?).await?.index, one.index);
    assert!(index.exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_over_leaves_by_itself() -> Test {
    let dir = tempfile::tempdir()?;
    let at = Running::start(dir.path(), |o| {
        o.retention.jobs = 1;
        o.timing.consumer_timeout = Duration::from_millis(100);
    })?;
    for name in ["one", "two", "three"] {
        open(&at, request(name, 64, 1, 1)?).await?;
    }
    cancel(&at, "one").await?;
    cancel(&at, "two").await?;
    let until = Instant::now() + PATIENCE;
    while names(&at).await? != ["two", "three"] {
        assert!(Instant::now() < until);
    }
    Ok(())
}
