//! P4's table 2: the receive maxima of both hosts and their effect.

use flashmob_results::net::Direction;
use maud::{Markup, html};

use super::scrolling;
use crate::entry::Entry;
use crate::ways::{self, RttSeries};
use crate::words;

pub fn receive_maxima(entries: &[Entry]) -> Markup {
    let all = ways::all(entries);
    let chosen =
        |w: &&RttSeries| w.setting.client_receive_max_bytes.is_some() || w.setting.server_receive_max_bytes.is_some();
    let mut rows: Vec<(usize, Option<u64>, Option<u64>)> = Vec::new();
    for way in all.iter().filter(|w| w.setting.is_one_stream()).filter(chosen) {
        let row = (way.entry, way.setting.client_receive_max_bytes, way.setting.server_receive_max_bytes);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    html! {
        @if !rows.is_empty() {
            h3 { "Receive maxima" }
            p.muted { "P4's table 2: what receive buffers grow to at most, the largest window that was offered, and what one TCP connection carried without loss, or with the least, from the least RTT to the greatest. In P4 Android's maximum was a tenth of Ubuntu's." }
            (scrolling("Receive maxima", html! {
                table.named {
                    thead { tr {
                        th { "result" } th { "client's maximum" } th { "window" } th { "client receives" }
                        th { "server's maximum" } th { "window" } th { "server receives" }
                    } }
                    tbody {
                        @for (entry, client, server) in &rows {
                            @let of = |direction| way_of(&all, (*entry, *client, *server), direction);
                            tr {
                                th { (entries.get(*entry).map_or("", |e| &e.name)) }
                                td { (words::receive_max(*client)) }
                                (ends(of(Direction::Down)))
                                td { (words::receive_max(*server)) }
                                (ends(of(Direction::Up)))
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// The series with the least loss; the first of equal ones.
fn way_of<'a, 'b>(
    all: &'b [RttSeries<'a>],
    (entry, client, server): (usize, Option<u64>, Option<u64>),
    direction: Direction,
) -> Option<&'b RttSeries<'a>> {
    let like = |w: &&RttSeries| {
        let s = &w.setting;
        w.entry == entry
            && s.is_one_stream()
            && s.direction == direction
            && (s.client_receive_max_bytes, s.server_receive_max_bytes) == (client, server)
    };
    all.iter().filter(like).min_by(|a, b| a.setting.loss_percent.total_cmp(&b.setting.loss_percent))
}

/// The window, and the rates at the lowest and the highest round-trip time.
fn ends(way: Option<&RttSeries>) -> Markup {
    let window = way.and_then(|w| w.places.iter().filter_map(|p| w.window_bytes(p)).reduce(f64::max));
    let at = |p: &ways::RttPoint| {
        let rate = words::bits_per_second(p.rate.median);
        p.rtt_ms.map_or(rate.clone(), |rtt| format!("{rate} at {}", words::time_ms(rtt)))
    };
    let rates = way.map(|w| match w.ends() {
        Some((first, last)) => format!("{}, {}", at(&first), at(&last)),
        None => w.places.iter().map(at).collect::<Vec<_>>().join(", "),
    });
    html! {
        td { (words::or_dash(window.map(|bytes| words::bytes(bytes as u64)))) }
        td { (words::or_dash(rates)) }
    }
}
