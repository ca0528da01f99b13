//! The embedded files. A request must name the whole path of one of them, so no path leads elsewhere.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};

use super::answer::{Answer, answer, whole};

/// The description of the API, which a test compares with real answers.
pub(super) const OPENAPI: &[u8] = include_bytes!("../../assets/openapi.json");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, type and content.
const FILES: &[(&str, &str, &[u8])] = &[
    ("/", HTML, include_bytes!("../../assets/index.html")),
    ("/assets/style.css", CSS, include_bytes!("../../assets/style.css")),
    ("/assets/icon.svg", SVG, include_bytes!("../../assets/icon.svg")),
    ("/assets/app.js", JS, include_bytes!("../../assets/app.js")),
    ("/assets/api.js", JS, include_bytes!("../../assets/api.js")),
    ("/assets/dom.js", JS, include_bytes!("../../assets/dom.js")),
    ("/assets/chart.js", JS, include_bytes!("../../assets/chart.js")),
    ("/assets/overview.js", JS, include_bytes!("../../assets/overview.js")),
    ("/assets/job.js", JS, include_bytes!("../../assets/job.js")),
    ("/assets/graph.js", JS, include_bytes!("../../assets/graph.js")),
    ("/assets/workers.js", JS, include_bytes!("../../assets/workers.js")),
    ("/assets/cache.js", JS, include_bytes!("../../assets/cache.js")),
    ("/assets/events.js", JS, include_bytes!("../../assets/events.js")),
];

/// Returns the file at a path. A browser that has it already gets no body.
pub(super) fn find(path: &str, headers: &HeaderMap) -> Option<Answer> {
    let (_, kind, content) = FILES.iter().find(|(at, ..)| *at == path)?;
    let tag = format!("\"{}\"", &blake3::hash(content).to_hex()[..16]);
    let has = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut found = match has {
        true => answer(StatusCode::NOT_MODIFIED, kind, whole(&b""[..])),
        false => answer(StatusCode::OK, kind, whole(*content)),
    };
    let headers = found.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes of all files.
    const ALL_BYTES_MAX: usize = 150_000;

    #[test]
    fn files_are_small_and_load_nothing_from_elsewhere() {
        let all: usize = FILES.iter().map(|(.., content)| content.len()).sum();
        assert!(all < ALL_BYTES_MAX, "{all} bytes");
        for (path, _, content) in FILES {
            let text = std::str::from_utf8(content).expect("text");
            // The address of the SVG namespace is only a name: a browser does not load it.
            let elsewhere = text.replace("http://www.w3.org/", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{path}");
            for unsafe_ in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "localStorage",
                "document.cookie",
            ] {
                assert!(!text.contains(unsafe_), "{path}: {unsafe_}");
            }
        }
        let index = std::str::from_utf8(FILES[0].2).expect("text");
        assert!(
            !index.contains("<script>") && !index.contains(" style=") && !index.contains(" on"),
            "no inline script"
        );
    }

    #[test]
    fn only_whole_paths_are_found() {
        let headers = HeaderMap::new();
        for path in
            ["/assets/../assets/app.js", "/assets/%2e%2e/app.js", "//", "/assets/", "/etc/passwd", "/assets/app.js/"]
        {
            assert!(find(path, &headers).is_none(), "{path}");
        }
        let tag = find("/", &headers).and_then(|found| found.headers().get(ETAG).cloned()).expect("a tag");
        let again = find("/", &[(IF_NONE_MATCH, tag)].into_iter().collect()).expect("found");
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    }
}
