//! The live page of a gateway, and the list of pages of other processes: files that are the same for everybody and tell nothing about the cluster.
//!
//! The page's files are in `admin/page/`, as they are sent: there is no build step. Its script asks `/live` each second, as whoever looks at it.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY};
use hyper::{Response, StatusCode};

use super::answer::{HTML, response};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $content_type:ident,)*) => {
        [$(($name, $content_type, include_bytes!(concat!("../page/", $name)).as_slice())),*]
    };
}

/// Name, type and content; the first is the page itself.
const FILES: [(&str, &str, &[u8]); 18] = files![
    "index.html": HTML,
    "page.css": STYLE,
    "icon.svg": PICTURE,
    "actions.js": SCRIPT,
    "app.js": SCRIPT,
    "batches.js": SCRIPT,
    "cards.js": SCRIPT,
    "change.js": SCRIPT,
    "copies.js": SCRIPT,
    "dom.js": SCRIPT,
    "format.js": SCRIPT,
    "heatmap.js": SCRIPT,
    "history.js": SCRIPT,
    "net.js": SCRIPT,
    "perfetto.js": SCRIPT,
    "slowest.js": SCRIPT,
    "state.js": SCRIPT,
    "trace.js": SCRIPT,
];

/// Nothing from elsewhere, nothing inline, in no frame; the page's names of nodes and of volumes come from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The pages of a node, and of `flashmob discover`.
const PAGES: &str = concat!(
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>flashmob</title></head><body>\n",
    "<h1>flashmob</h1>\n<ul>\n",
    "<li><a href=\"/status\">/status</a>: the state of this process, as JSON. <code>flashmob status</code> prints it.</li>\n",
    "<li><a href=\"/metrics\">/metrics</a>: metrics for Prometheus.</li>\n",
    "<li>/join: nodes announce themselves here, at a gateway or at <code>flashmob discover</code>.</li>\n",
    "</ul>\n<p>The live page of a cluster is at its gateway.</p></body></html>\n",
);

fn file(path: &str) -> Option<&'static (&'static str, &'static str, &'static [u8])> {
    let name = if path == "/" { FILES[0].0 } else { path.strip_prefix('/')? };
    FILES.iter().find(|(known, ..)| *known == name)
}

/// Whether this is one of the files, or the list of pages.
pub(super) fn is_page(path: &str) -> bool {
    file(path).is_some()
}

/// The file at a path, if there is one. Without a live page the list of pages, at its place alone.
pub(super) fn page(path: &str, is_live: bool) -> Option<Response<Full<Bytes>>> {
    let (_, content_type, content) = file(path)?;
    let mut response = match (is_live, path) {
        (true, _) => response(StatusCode::OK, content_type, Bytes::from_static(content)),
        (false, "/") => response(StatusCode::OK, HTML, PAGES),
        (false, _) => return None,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    // Another version may be behind the same address after an update.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page may weigh in all.
    const BYTES_MAX: usize = 60 * 1024;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|(_, _, content)| content.len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes}");
    }

    #[test]
    fn every_file_is_served_and_names_no_other_origin() {
        for (name, content_type, content) in FILES {
            let path = format!("/{name}");
            let response = page(&path, true).unwrap();
            assert_eq!(response.headers()["content-type"], content_type);
            let text = std::str::from_utf8(content).unwrap();
            // The name of SVG's elements is no address that anybody asks.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
            for inline in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick="]
            {
                assert!(!text.contains(inline), "{name}: {inline}");
            }
        }
    }

    #[test]
    fn every_file_in_the_folder_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/page");
        let mut there: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mut served: Vec<String> = FILES.iter().map(|(name, ..)| (*name).to_string()).collect();
        there.sort();
        served.sort();
        assert_eq!(there, served);
    }

    #[test]
    fn without_a_live_page_there_is_a_list() {
        assert!(page("/", false).is_some() && page("/app.js", false).is_none() && page("/nosuch.js", true).is_none());
        assert!(!is_page("/status") && !is_page("") && !is_page("//") && !is_page("/page/../app.js"));
    }
}
