//! From a request to its answer: path, method and format.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use super::super::Reporter;
use super::super::metrics::{Format, render};
use super::gate::{Admitted, Caller};
use super::host::Hosts;
use super::page::page;
use super::waiting::Standing;
use crate::discovery::announcement::BODY_BYTES_MAX;
use crate::discovery::hear::{Ear, Unheard};
use crate::keys::AdminKeys;
use crate::status::VolumeQuestion;
use crate::status::change::{Answer, Change};
use crate::status::finding::{self, Finding};
use crate::status::live::LiveReport;
use crate::status::replace::{Asking, Claim, Outcome, Refusal};
use crate::status::report::Report;
use crate::status::volumes::{REQUEST_BYTES_MAX, ReplaceRequest};
use crate::store::ExtentId;

const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Asks the event loop for all connections together, one question at a time, and takes announcements, one at a time.
#[derive(Debug)]
pub(super) struct Asker {
    hosts: Hosts,
    /// If the cluster has any.
    pub(super) keys: Option<AdminKeys>,
    /// What the report says besides what the event loop knows.
    warning: Option<Finding>,
    reporter: Option<Reporter>,
    last: Mutex<Option<Asked>>,
    ear: Option<Arc<Ear>>,
    hearing: Mutex<()>,
    /// Of its own: it waits for the map, and reports must not wait for that.
    replacing: Mutex<()>,
}

#[derive(Debug)]
struct Asked {
    at: Instant,
    report: Option<Arc<Report>>,
}

impl Asker {
    pub(super) fn new(reporter: Option<Reporter>, ear: Option<Ear>, hosts: Hosts) -> Asker {
        Asker {
            hosts,
            keys: None,
            warning: None,
            reporter,
            last: Mutex::new(None),
            ear: ear.map(Arc::new),
            hearing: Mutex::new(()),
            replacing: Mutex::new(()),
        }
    }

    /// In a cluster with these keys.
    pub(super) fn with_keys(self, keys: Option<AdminKeys>) -> Asker {
        Asker { keys, ..self }
    }

    /// With this warning in each report.
    pub(super) fn with_warning(self, warning: Option<Finding>) -> Asker {
        Asker { warning, ..self }
    }

    /// A report no older than this call. Calls that waited while another asked share its answer, also if there was none: a
    /// loop that does not answer costs each of them two timeouts at most.
    async fn report(&self) -> Option<Arc<Report>> {
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(asked) = last.as_ref()
            && asked.at >= called
        {
            return asked.report.clone();
        }
        let at = Instant::now();
        let reporter = self.reporter.clone()?;
        let report = tokio::task::spawn_blocking(move || reporter.ask()).await.ok().flatten();
        let report = report.map(|mut report| {
            if let Some(warning) = &self.warning {
                match &mut report.gateway {
                    Some(gateway) => finding::insert(warning, &mut gateway.findings, &mut report.warnings),
                    None => report.warnings.push(warning.sentence(&[])),
                }
            }
            Arc::new(report)
        });
        *last = Some(Asked { at, report: report.clone() });
        report
    }
}

/// The answer to any request; errors are in its status.
pub(super) async fn answer(
    asker: Arc<Asker>,
    peer: SocketAddr,
    caller: Arc<Caller>,
    standing: Standing,
    mut request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if let Some(why) = asker.hosts.refusal(&request) {
        return Ok(response(StatusCode::BAD_REQUEST, TEXT, why));
    }
    let who = match caller.admit(asker.keys.as_ref(), &request) {
        Ok(who) => who,
        Err(refusal) => {
            let challenge = refusal.challenge();
            let mut refused = response(refusal.status, TEXT, refusal.why);
            refused.headers_mut().extend(challenge);
            return Ok(refused);
        }
    };
    if let Some(keys) = asker.keys.as_ref().filter(|_| who.is_known) {
        keys.let_in(peer.ip());
        standing.prove();
    }
    // With a body it is complete later.
    if request.method().is_safe() {
        standing.begin_answer().await;
    }
    request.extensions_mut().insert(standing.clone());
    let answer = answer_to(&asker, peer, who, request).await;
    standing.end_answer();
    Ok(answer)
}

async fn answer_to(
    asker: &Asker,
    peer: SocketAddr,
    who: Admitted,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if path == "/join" {
        return join(asker, peer, who.node, request).await;
    }
    match path {
        "/volumes/replace" => return replace(asker, request).await,
        "/volumes/scrub" => return change(asker, request, VolumeQuestion::Scrub).await,
        "/volumes/add" => return change(asker, request, VolumeQuestion::Add).await,
        "/volumes/accept-loss" => return change(asker, request, VolumeQuestion::AcceptLoss).await,
        "/volumes/resync" => return change(asker, request, VolumeQuestion::Resync).await,
        "/volumes/remove" => return change(asker, request, VolumeQuestion::Remove).await,
        "/volumes/resize" => return change(asker, request, VolumeQuestion::Resize).await,
        "/volumes/move" => return change(asker, request, VolumeQuestion::Move).await,
        "/volumes/pause" => return change(asker, request, VolumeQuestion::Pause).await,
        "/volumes/measure" => return change(asker, request, VolumeQuestion::Measure).await,
        _ => {}
    }
    let is_live = asker.reporter.as_ref().is_some_and(Reporter::has_live);
    let page = page(path, is_live);
    if page.is_none() && !["/status", "/metrics", "/trace", "/live", "/volumes"].contains(&path) {
        let why = "Not found. The pages are /, /status, /metrics, /trace, /live and /volumes.\n";
        return response(StatusCode::NOT_FOUND, TEXT, why);
    }
    // hyper itself leaves out the body when the method is HEAD.
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let why = "Only GET and HEAD are allowed: this page is read-only.\n";
        return with_header(response(StatusCode::METHOD_NOT_ALLOWED, TEXT, why), ALLOW, "GET, HEAD");
    }
    if let Some(page) = page {
        return page;
    }
    if asker.reporter.is_none() {
        let why = "This is flashmob discover: nodes announce themselves at /join.\n";
        return response(StatusCode::NOT_FOUND, TEXT, why);
    }
    if path == "/trace" {
        return trace(asker).await;
    }
    if path == "/live" {
        return live(asker, request.uri().query(), who.may_change).await;
    }
    if path == "/volumes" {
        return volumes(asker).await;
    }
    let Some(report) = asker.report().await else { return busy() };
    let (content_type, body) = if path == "/status" {
        (JSON, serde_json::to_vec(&*report).map_err(|e| e.to_string()))
    } else {
        let format = wanted_format(request.headers());
        (format.content_type(), render(&report, format).map(String::into_bytes).map_err(|e| e.to_string()))
    };
    written(content_type, body)
}

/// A node announces itself; with keys, the one with extent `own`.
async fn join(
    asker: &Asker,
    peer: SocketAddr,
    own: Option<ExtentId>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let Some(ear) = asker.ear.clone() else {
        let why = "Announcements are not accepted here. Announce the node to a gateway or to flashmob discover.\n";
        return response(StatusCode::NOT_FOUND, TEXT, why);
    };
    if let Some(refusal) = not_posted_json(&request) {
        return refusal;
    }
    if !ear.has_time() {
        return unheard(&Unheard::TooMany);
    }
    let body = match body_of(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let _one_at_a_time = asker.hearing.lock().await;
    let heard = tokio::task::spawn_blocking(move || ear.hear(&body, peer.ip(), own)).await;
    match heard {
        Ok(Ok(answer)) => written(JSON, serde_json::to_vec(&answer).map_err(|e| e.to_string())),
        Ok(Err(why)) => unheard(&why),
        Err(_) => busy(),
    }
}

/// The refusal of a request that is no POST of JSON.
fn not_posted_json(request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    if request.method() != Method::POST {
        let why = "Only POST is allowed.\n";
        return Some(with_header(response(StatusCode::METHOD_NOT_ALLOWED, TEXT, why), ALLOW, "POST"));
    }
    // A page in a browser may send text and forms to any address, but JSON only after a preflight, which is not answered.
    let is_json = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.trim().starts_with(JSON));
    let is_typed = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
    let why = "The body must be application/json.\n";
    (!is_typed).then(|| response(StatusCode::UNSUPPORTED_MEDIA_TYPE, TEXT, why))
}

async fn body_of(request: Request<Incoming>, bytes_max: usize) -> Result<Bytes, Response<Full<Bytes>>> {
    let why = format!("The body is incomplete, or longer than {bytes_max} bytes.\n");
    let standing = request.extensions().get::<Standing>().cloned();
    let body = Limited::new(request.into_body(), bytes_max).collect().await;
    if let Some(standing) = standing {
        standing.begin_answer().await;
    }
    body.map(|body| body.to_bytes()).map_err(|_| response(StatusCode::PAYLOAD_TOO_LARGE, TEXT, why))
}

/// The volumes. One question at a time, as for samples.
async fn volumes(asker: &Asker) -> Response<Full<Bytes>> {
    let Some(reporter) = asker.reporter.clone().filter(Reporter::has_volumes) else { return no_volumes() };
    let _one_at_a_time = asker.last.lock().await;
    match tokio::task::spawn_blocking(move || reporter.ask_volumes()).await.ok().flatten() {
        Some(report) => written(JSON, serde_json::to_vec(&report).map_err(|e| e.to_string())),
        None => busy(),
    }
}

/// What a request to change something asks for, if it comes from where it may.
async fn change_of<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Response<Full<Bytes>>> {
    if let Some(refusal) = not_posted_json(&request) {
        return Err(refusal);
    }
    let body = body_of(request, REQUEST_BYTES_MAX).await?;
    let no_such = |error| response(StatusCode::BAD_REQUEST, TEXT, format!("The body is no such request: {error}.\n"));
    serde_json::from_slice(&body).map_err(no_such)
}

/// Something is changed about a volume or a node, as `question` says.
async fn change<Q, A>(
    asker: &Asker,
    request: Request<Incoming>,
    question: fn(Change<Q, A>) -> VolumeQuestion,
) -> Response<Full<Bytes>>
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
{
    let Some(reporter) = asker.reporter.clone().filter(Reporter::has_volumes) else { return no_volumes() };
    let request: Q = match change_of(request).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let _one_at_a_time = asker.last.lock().await;
    let claim = Claim::default();
    // If the client leaves before the loop has the request, it is not carried out.
    let _asking = Asking(claim.clone());
    match tokio::task::spawn_blocking(move || reporter.change(question, request, claim)).await {
        Ok(Answer::Given(Ok(answer))) => written(JSON, serde_json::to_vec(&answer).map_err(|e| e.to_string())),
        Ok(Answer::Given(Err(refusal))) => refused(refusal),
        Ok(Answer::NotTaken) => not_taken(),
        Ok(Answer::Unknown) => unknown(),
        Err(_) => busy(),
    }
}

/// The extent of a node is given up.
async fn replace(asker: &Asker, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let Some(reporter) = asker.reporter.clone().filter(Reporter::has_volumes) else { return no_volumes() };
    let request: ReplaceRequest = match change_of(request).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let Ok(_one_at_a_time) = asker.replacing.try_lock() else {
        let why = "Another extent is being replaced. Nothing was changed; try again.\n";
        return with_header(response(StatusCode::TOO_MANY_REQUESTS, TEXT, why), RETRY_AFTER, "1");
    };
    let claim = Claim::default();
    // If the client leaves before the loop has the request, it is not carried out.
    let _asking = Asking(claim.clone());
    match tokio::task::spawn_blocking(move || reporter.replace(request, claim)).await {
        Ok(outcome) => replaced(outcome),
        Err(_) => busy(),
    }
}

fn replaced(outcome: Outcome) -> Response<Full<Bytes>> {
    match outcome {
        Outcome::Replaced(answer) => {
            let mut response = written(JSON, serde_json::to_vec(&answer).map_err(|e| e.to_string()));
            if !answer.is_recorded {
                *response.status_mut() = StatusCode::ACCEPTED;
            }
            response
        }
        Outcome::Refused(refusal) => refused(refusal),
        Outcome::NotTaken => not_taken(),
        Outcome::Unknown => unknown(),
    }
}

/// The loop did not take a request, and never will.
fn not_taken() -> Response<Full<Bytes>> {
    let why = "The process does not answer: it is exiting or overloaded. Nothing was changed.\n";
    with_header(response(StatusCode::SERVICE_UNAVAILABLE, TEXT, why), RETRY_AFTER, "1")
}

/// The loop took a request and did not answer.
fn unknown() -> Response<Full<Bytes>> {
    let why = "The process has the request and does not answer. Look at /volumes to see whether it was carried out.\n";
    response(StatusCode::GATEWAY_TIMEOUT, TEXT, why)
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    let (status, why) = match refusal {
        Refusal::Bad(why) => (StatusCode::BAD_REQUEST, why),
        Refusal::Unknown(why) => (StatusCode::NOT_FOUND, why),
        Refusal::Conflict(why) => (StatusCode::CONFLICT, why),
    };
    response(status, TEXT, format!("{why}\n"))
}

fn no_volumes() -> Response<Full<Bytes>> {
    response(StatusCode::NOT_FOUND, TEXT, "Nodes have no volumes. Request /volumes from the gateway.\n")
}

fn unheard(why: &Unheard) -> Response<Full<Bytes>> {
    let text = format!("The announcement was rejected: {why}\n");
    match why {
        Unheard::TooMany => with_header(response(StatusCode::TOO_MANY_REQUESTS, TEXT, text), RETRY_AFTER, "1"),
        Unheard::Bad(_) | Unheard::OtherKind => response(StatusCode::BAD_REQUEST, TEXT, text),
    }
}

/// The samples. One question at a time, as for reports, but answers are not shared: requests are few.
async fn trace(asker: &Asker) -> Response<Full<Bytes>> {
    let Some(reporter) = asker.reporter.clone().filter(Reporter::has_traces) else {
        let why = "Nodes keep no samples. Request /trace from the gateway.\n";
        return response(StatusCode::NOT_FOUND, TEXT, why);
    };
    let _one_at_a_time = asker.last.lock().await;
    match tokio::task::spawn_blocking(move || reporter.ask_traces()).await.ok().flatten() {
        Some(report) => written(JSON, serde_json::to_vec(&report).map_err(|e| e.to_string())),
        None => busy(),
    }
}

/// What nodes did, from the second that the query names on.
async fn live(asker: &Asker, query: Option<&str>, may_change: bool) -> Response<Full<Bytes>> {
    let Some(reporter) = asker.reporter.clone().filter(Reporter::has_live) else {
        let why = "Nodes keep no history. Request /live from the gateway.\n";
        return response(StatusCode::NOT_FOUND, TEXT, why);
    };
    let Some(since) = since_of(query) else {
        let why = "The query of /live is none, or since=SECOND: the next_second of the last answer.\n";
        return response(StatusCode::BAD_REQUEST, TEXT, why);
    };
    let _one_at_a_time = asker.last.lock().await;
    match tokio::task::spawn_blocking(move || reporter.ask_live(since)).await.ok().flatten() {
        Some(report) => {
            let mut report = LiveReport { may_change, ..report };
            if let Some(warning) = &asker.warning {
                finding::insert(warning, &mut report.findings, &mut report.warnings);
            }
            written(JSON, serde_json::to_vec(&report).map_err(|e| e.to_string()))
        }
        None => busy(),
    }
}

/// `since=SECOND` alone; 0 without a query.
fn since_of(query: Option<&str>) -> Option<u64> {
    match query {
        None | Some("") => Some(0),
        Some(query) => {
            query.strip_prefix("since=").filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
        }
    }
}

fn busy() -> Response<Full<Bytes>> {
    let why = "The process does not answer: it is exiting or overloaded.\n";
    with_header(response(StatusCode::SERVICE_UNAVAILABLE, TEXT, why), RETRY_AFTER, "1")
}

fn with_header(mut response: Response<Full<Bytes>>, name: HeaderName, value: &'static str) -> Response<Full<Bytes>> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

fn written(content_type: &'static str, body: Result<Vec<u8>, String>) -> Response<Full<Bytes>> {
    match body {
        Ok(body) => response(StatusCode::OK, content_type, body),
        Err(e) => {
            log::error!("cannot write the report as {content_type}: {e}");
            response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "Cannot write the report; see the log.\n")
        }
    }
}

pub(super) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Names in a report come from elsewhere: no browser may take them for a page.
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The form of `/metrics` by `Accept` (RFC 9110, 12.5.1): OpenMetrics only if named, and not rated below plain text.
fn wanted_format(headers: &HeaderMap) -> Format {
    let (mut open_metrics, mut text) = (0, 0);
    for value in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
        for range in value.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let weight = parts.find_map(weight_millis).unwrap_or(1000);
            if media.eq_ignore_ascii_case("application/openmetrics-text") {
                open_metrics = weight.max(open_metrics);
            } else if media.eq_ignore_ascii_case("text/plain") {
                text = weight.max(text);
            }
        }
    }
    if open_metrics > 0 && open_metrics >= text { Format::OpenMetrics } else { Format::Prometheus }
}

/// A parameter `q=0.5` as 500; `None` for other parameters. A value that is no weight counts as 0.
fn weight_millis(parameter: &str) -> Option<u32> {
    let (key, value) = parameter.split_once('=')?;
    if !key.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let weight: f64 = value.trim().parse().unwrap_or(0.0);
    Some((weight.clamp(0.0, 1.0) * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_for(accept: &[&'static str]) -> Format {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        wanted_format(&headers)
    }

    #[test]
    fn plain_text_is_for_everybody_who_does_not_ask_for_open_metrics() {
        for accept in [&[][..], &["*/*"], &["text/html, */*;q=0.8"], &["text/plain;version=0.0.4"], &["garbage;;,,q=="]]
        {
            assert_eq!(format_for(accept), Format::Prometheus, "{accept:?}");
        }
    }

    #[test]
    fn open_metrics_is_for_who_prefers_it() {
        for accept in [
            &["application/openmetrics-text"][..],
            &["APPLICATION/OpenMetrics-Text; version=1.0.0"],
            &["text/plain;q=0.3", "application/openmetrics-text;version=1.0.0;q=0.6"],
            &[
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            ],
        ] {
            assert_eq!(format_for(accept), Format::OpenMetrics, "{accept:?}");
        }
    }

    #[test]
    fn weights_decide_and_bad_ones_count_as_nothing() {
        for accept in [
            "application/openmetrics-text;q=0.4, text/plain;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text; Q = 0.0, text/plain",
            "application/openmetrics-text;q=NaN",
            "application/openmetrics-text;q=much",
            "application/openmetrics-text;q=-1",
        ] {
            assert_eq!(format_for(&[accept]), Format::Prometheus, "{accept}");
        }
    }
}
