//! Data sets of the Hugging Face hub: `hf://datasets/ORG/NAME@COMMIT/path`.
//!
//! Files of a commit never change, so the hub's id of a file is its identity here, and no answer has to repeat it.
//! Lists come from the hub's API, page by page, and bytes from its `resolve` addresses, which may redirect. The token is
//! sent to the hub alone. Bounds: [`PAGES_MAX`] pages of a list; retries and time are those of all stores.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody, HttpResponse};
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde::Deserialize;
use url::Url;

use super::http::Connector;

/// The name of the store in errors.
const STORE: &str = "Hugging Face";
/// The environment variable of the hub's address, and its default.
pub(super) const ENDPOINT: (&str, &str) = ("HF_ENDPOINT", "https://huggingface.co");
/// The environment variable of the user's token.
pub(super) const TOKEN: &str = "HF_TOKEN";
/// Names of a page of a list, and pages of a list.
const PAGE: &str = "1000";
const PAGES_MAX: usize = 10_000;
/// The digits of a commit.
const COMMIT_DIGITS: usize = 40;

/// The hub, with the user's token.
#[derive(Debug, Clone)]
pub(super) struct Hub {
    client: HttpClient,
    endpoint: Url,
    /// The header that says who asks.
    authorization: Option<String>,
}

/// Returns the path of a url in the store, `ORG/NAME@COMMIT/path`.
///
/// # Errors
/// The fault of the url.
pub(super) fn path(url: &Url) -> std::result::Result<Path, String> {
    if url.host_str() != Some("datasets") {
        return Err("hf:// addresses are those of data sets: hf://datasets/ORG/NAME@COMMIT/path".to_owned());
    }
    let path = Path::from_url_path(url.path()).map_err(|e| e.to_string())?;
    place(&path).map_err(|e| e.to_string())?;
    Ok(path)
}

/// A place in a data set.
struct Place<'a> {
    /// `ORG/NAME`.
    repository: (&'a str, &'a str),
    commit: &'a str,
    /// The path in the data set; a folder or a file.
    path: &'a str,
}

fn place(path: &Path) -> Result<Place<'_>> {
    let text = path.as_ref();
    let wrong = |what: &str| {
        let source = format!("{what}: hf://datasets/ORG/NAME@COMMIT/path").into();
        Error::Generic { store: STORE, source }
    };
    let (organisation, rest) = text.split_once('/').ok_or_else(|| wrong("the name of the data set is missing"))?;
    let (named, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, commit) = named.split_once('@').ok_or_else(|| wrong("the commit is missing"))?;
    if commit.len() != COMMIT_DIGITS || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong("a revision is written as a commit of 40 digits here"));
    }
    Ok(Place { repository: (organisation, name), commit, path })
}

/// An entry of the hub's list of files.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    oid: String,
    #[serde(default)]
    size: u64,
    /// The content, where the repository itself has only a pointer to it.
    lfs: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    oid: String,
    size: u64,
}

impl Entry {
    fn meta(self, place: &Place<'_>) -> Result<ObjectMeta> {
        let Place { repository: (organisation, name), commit, .. } = place;
        let location = Path::parse(format!("{organisation}/{name}@{commit}/{}", self.path))?;
        let (id, size) = self.lfs.map_or((self.oid, self.size), |content| (content.oid, content.size));
        Ok(ObjectMeta { location, last_modified: Default::default(), size, e_tag: Some(id), version: None })
    }
}

impl Hub {
    pub(super) fn connect(settings: &[(String, String)], connector: &Connector) -> Result<Self> {
        let setting = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let endpoint = setting(ENDPOINT.0).unwrap_or(ENDPOINT.1).trim_end_matches('/');
        let endpoint = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let endpoint = endpoint.ok_or_else(|| generic(format!("{} is no http address", ENDPOINT.0)))?;
        let options = ClientOptions::new().with_timeout_disabled().with_allow_http(endpoint.scheme() == "http");
        let authorization = setting(TOKEN).map(|token| format!("Bearer {token}"));
        Ok(Self { client: connector.connect(&options)?, endpoint, authorization })
    }

    /// Returns the address of a resource of a data set: the parts before its name, and those behind.
    fn address(&self, before: &[&str], place: &Place<'_>, behind: &[&str]) -> Result<Url> {
        let mut url = self.endpoint.clone();
        let (organisation, name) = place.repository;
        let named = [organisation, name];
        let parts = before.iter().chain(&named).chain(behind).copied();
        url.path_segments_mut()
            .map_err(|()| generic(format!("{} cannot have a path", ENDPOINT.0)))?
            .pop_if_empty()
            .extend(parts)
            .extend(place.path.split('/').filter(|part| !part.is_empty()));
        Ok(url)
    }

    /// Sends a request, and refuses an answer that says that it failed.
    async fn ask(&self, url: &Url, form: Option<String>, range: Option<String>, path: &Path) -> Result<HttpResponse> {
        let unsent = |what: &dyn fmt::Display| generic(format!("the request cannot be sent: {what}"));
        let is_form = form.is_some();
        let mut request = HttpRequest::new(form.map_or_else(HttpRequestBody::empty, HttpRequestBody::from));
        *request.uri_mut() = url.as_str().parse().map_err(|e| unsent(&e))?;
        if is_form {
            *request.method_mut() = "POST".parse().map_err(|e| unsent(&e))?;
        }
        let kind = is_form.then(|| "application/x-www-form-urlencoded".to_owned());
        let headers = [("authorization", self.authorization.clone()), ("range", range), ("content-type", kind)];
        for (name, value) in headers {
            if let Some(value) = value {
                request.headers_mut().insert(name, value.parse().map_err(|_| unsent(&"a header"))?);
            }
        }
        let answer = self.client.execute(request).await.map_err(failed)?;
        let status = answer.status();
        let source = || format!("status {status}").into();
        match status.as_u16() {
            200 | 206 => Ok(answer),
            // The hub answers 401 for a data set that is not there, too.
            401 => Err(Error::Unauthenticated { path: path.to_string(), source: source() }),
            403 => Err(Error::PermissionDenied { path: path.to_string(), source: source() }),
            404 => Err(Error::NotFound { path: path.to_string(), source: source() }),
            _ => Err(Error::Generic { store: STORE, source: source() }),
        }
    }

    /// Asks for the size and the id of one file.
    async fn head(&self, location: &Path) -> Result<ObjectMeta> {
        let place = place(location)?;
        let folder = Place { path: "", ..place };
        let url = self.address(&["api", "datasets"], &folder, &["paths-info", place.commit])?;
        let form = url::form_urlencoded::Serializer::new(String::new()).append_pair("paths", place.path).finish();
        let answer = self.ask(&url, Some(form), None, location).await?;
        let entries: Vec<Entry> = read(answer).await?;
        let found = entries.into_iter().find(|entry| entry.kind == "file" && entry.path == place.path);
        let missing = || Error::NotFound { path: location.to_string(), source: "no such path".into() };
        found.ok_or_else(missing)?.meta(&place)
    }

    /// Reads a page of a list: its files, and the address of the next page.
    async fn page(&self, url: &Url, prefix: &Path) -> Result<(Vec<ObjectMeta>, Option<Url>)> {
        let place = place(prefix)?;
        let answer = self.ask(url, None, None, prefix).await?;
        let link = answer.headers().get("link").and_then(|link| link.to_str().ok()).and_then(next_of);
        let next = link.map(|link| url.join(link).map_err(|e| generic(e.to_string()))).transpose()?;
        // The token goes with each request, so no page may be at another host.
        if next.as_ref().is_some_and(|next| next.origin() != self.endpoint.origin()) {
            return Err(generic("the list goes on at another host".to_owned()));
        }
        let entries: Vec<Entry> = read(answer).await?;
        let files = entries.into_iter().filter(|entry| entry.kind == "file").map(|entry| entry.meta(&place));
        Ok((files.collect::<Result<_>>()?, next))
    }
}

/// Returns the address of the next page from a `Link` header.
fn next_of(link: &str) -> Option<&str> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    next.split_once('<')?.1.split_once('>').map(|(address, _)| address)
}

async fn read<T: for<'a> Deserialize<'a>>(answer: HttpResponse) -> Result<T> {
    let bytes = answer.into_body().bytes().await.map_err(failed)?;
    serde_json::from_slice(&bytes).map_err(|e| generic(format!("the hub's answer cannot be read: {e}")))
}

fn generic(what: String) -> Error {
    Error::Generic { store: STORE, source: what.into() }
}

fn failed(error: object_store::client::HttpError) -> Error {
    Error::Generic { store: STORE, source: Box::new(error) }
}

fn unsupported() -> Error {
    Error::NotSupported { source: "data sets of the hub are read only".into() }
}

/// Splits `bytes 0-9/100` into the range and the size of the whole.
fn sent(answer: &HttpResponse) -> Option<(Range<u64>, u64)> {
    let header = |name: &str| answer.headers().get(name)?.to_str().ok();
    let Some(range) = header("content-range") else {
        let size = header("content-length")?.parse().ok()?;
        return Some((0..size, size));
    };
    let (range, size) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?, size.parse().ok()?))
}

impl fmt::Display for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STORE)
    }
}

#[async_trait]
impl ObjectStore for Hub {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            let meta = self.head(location).await?;
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            let range = 0..meta.size;
            return Ok(GetResult {
                payload,
                range,
                meta,
                attributes: Default::default(),
                extensions: Default::default(),
            });
        }
        let place = place(location)?;
        let url = self.address(&["datasets"], &place, &["resolve", place.commit])?;
        let range = match options.range {
            None => None,
            Some(GetRange::Bounded(range)) => Some(format!("bytes={}-{}", range.start, range.end.saturating_sub(1))),
            Some(GetRange::Offset(from)) => Some(format!("bytes={from}-")),
            Some(GetRange::Suffix(last)) => Some(format!("bytes=-{last}")),
        };
        let answer = self.ask(&url, None, range, location).await?;
        let (range, size) = sent(&answer).ok_or_else(|| generic("the answer does not say its size".to_owned()))?;
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: Default::default(),
            size,
            // A file of a commit has one id.
            e_tag: options.if_match,
            version: None,
        };
        let payload = GetResultPayload::Stream(answer.into_body().bytes_stream().map_err(failed).boxed());
        Ok(GetResult { payload, range, meta, attributes: Default::default(), extensions: Default::default() })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (hub, prefix) = (self.clone(), prefix.cloned().unwrap_or_default());
        let first = place(&prefix).and_then(|place| {
            let mut url = hub.address(&["api", "datasets"], &place, &["tree", place.commit])?;
            url.query_pairs_mut().append_pair("recursive", "true").append_pair("limit", PAGE);
            Ok(url)
        });
        let pages = stream::try_unfold((Some(first), 0), move |(next, pages)| {
            let (hub, prefix) = (hub.clone(), prefix.clone());
            async move {
                let Some(url) = next else { return Ok(None) };
                if pages == PAGES_MAX {
                    return Err(generic(format!("the list has more than {PAGES_MAX} pages")));
                }
                let (files, next) = hub.page(&url?, &prefix).await?;
                Ok(Some((stream::iter(files.into_iter().map(Ok)), (next.map(Ok), pages + 1))))
            }
        });
        pages.try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(unsupported())
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(unsupported())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unsupported())
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.map(|_| Err(unsupported())).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unsupported())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_data_set_and_a_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let found = |text: &str| path(&Url::parse(text).expect("a url")).map(|path| path.to_string());
        let good = format!("hf://datasets/org/name@{commit}/data/a%20b.parquet");
        assert_eq!(found(&good), Ok(format!("org/name@{commit}/data/a b.parquet")));
        for wrong in ["hf://models/a/b@x/c", "hf://datasets/a", "hf://datasets/a/b/c", "hf://datasets/a/b@main/c"] {
            assert!(found(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_next_page_is_found_among_links() {
        assert_eq!(
            next_of("<https://h/a>; rel=\"prev\", <https://h/b?cursor=x>; rel=\"next\""),
            Some("https://h/b?cursor=x")
        );
        assert_eq!(next_of("<https://h/a>; rel=\"prev\""), None);
    }
}
