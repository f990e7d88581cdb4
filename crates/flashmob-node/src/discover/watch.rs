//! Nodes that appear and disappear, a line each.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use super::advice::multicast_note;
use super::listing::{NodeFound, words};
use super::search::Search;
use crate::status::units::{bytes, printable};
use flashmob_server::discovery::ExtentId;
use flashmob_server::discovery::found::{Gone, News};

/// Interval of attempts to connect: a killed node is reported as gone after two of these.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// Time after which a note says that nothing was heard by multicast DNS.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows news until it is interrupted, or its output is closed.
pub fn watch(search: &mut Search, as_json: bool, join: Option<SocketAddr>) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut next_trial = begin + TRY_EVERY;
    let mut noted = false;
    let mut untold: Vec<ExtentId> = Vec::new();
    while !search.is_asked_to_end() {
        let mut all_news = search.turn(next_trial);
        // New nodes are reported after it is known whether they answer.
        all_news.retain(|news| match news {
            News::New(extent) => {
                untold.push(*extent);
                false
            }
            News::Changed(extent) => !untold.contains(extent),
            News::Gone(about, _) => !untold.contains(&about.extent),
        });
        untold.retain(|extent| match search.found.get(*extent) {
            Some(node) if node.is_tried() => {
                all_news.push(News::New(*extent));
                false
            }
            still => still.is_some(),
        });
        for news in all_news {
            let Some(line) = (if as_json { json_line(search, &news) } else { text_line(search, &news) }) else {
                continue;
            };
            let mut out = std::io::stdout().lock();
            if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                return Ok(());
            }
        }
        if Instant::now() >= next_trial {
            next_trial = Instant::now() + TRY_EVERY;
            search.begin_trial()?;
        } else if !untold.is_empty() {
            search.begin_trial()?;
        }
        if !noted && begin.elapsed() >= PATIENCE {
            noted = true;
            let impossible = search.no_multicast.as_ref().map(ToString::to_string);
            multicast_note(impossible, search.heard_any, search.found.len(), join)
                .into_iter()
                .for_each(|note| log::warn!("{note}"));
        }
    }
    Ok(())
}

fn why(gone: Gone) -> &'static str {
    match gone {
        Gone::Goodbye => "said goodbye",
        Gone::Silent => "its port does not answer",
        Gone::Missing => "stopped announcing itself",
    }
}

fn text_line(search: &Search, news: &News) -> Option<String> {
    let (word, extent) = match news {
        News::New(extent) => ("found", extent),
        News::Changed(extent) => ("now", extent),
        News::Gone(about, reason) => {
            let name = printable(&about.shown_name());
            return Some(format!("gone   {name}  {}: {}", about.address, why(*reason)));
        }
    };
    let node = search.found.get(*extent)?;
    let a = &node.about;
    let ways = words(node);
    let volume = a.volume.as_ref().map_or("free".to_string(), |volume| format!("of {}", printable(volume)));
    Some(format!(
        "{word:<5}  {}  {}  {}, {volume}, by {ways}",
        printable(&a.shown_name()),
        a.address,
        bytes(a.size_bytes)
    ))
}

fn json_line(search: &Search, news: &News) -> Option<String> {
    let line = match news {
        News::New(extent) => json!({"event": "found", "node": NodeFound::of(search.found.get(*extent)?)}),
        News::Changed(extent) => json!({"event": "changed", "node": NodeFound::of(search.found.get(*extent)?)}),
        News::Gone(about, reason) => json!({"event": "gone", "why": why(*reason), "node": about}),
    };
    Some(line.to_string())
}
