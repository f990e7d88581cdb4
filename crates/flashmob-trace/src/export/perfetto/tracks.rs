//! Assignment of spans to tracks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use flashmob_results::trace::{Layer, Timeline};
use flashmob_text::time;

/// Maximum files per layer with tracks of their own; the others share the layer's track. More would be unusable in any viewer.
const FILES_MAX: usize = 1_000;

/// A Perfetto track.
pub struct Track {
    pub uuid: u64,
    pub name: String,
    /// The process ID; absent if the track is not a process.
    pub process: Option<i32>,
    pub parent: Option<u64>,
    /// Position among the tracks of the same parent.
    pub rank: i32,
}

/// The slices of one track as indices: an outer slice precedes those nested in it, which end within it.
pub struct Slices {
    pub track: u64,
    pub indices: Vec<u32>,
}

#[derive(Default)]
pub struct Tracks {
    /// Parents precede their children.
    pub tracks: Vec<Track>,
    pub operations: Vec<Slices>,
    pub spans: Vec<Slices>,
}

/// Place, layer and file, by index. Files with the same name share the index of the first.
type Key = (usize, usize, Option<u32>);

impl Tracks {
    pub fn of(timeline: &Timeline) -> Tracks {
        let places = Places::of(timeline);
        let mut tracks = Tracks::default();
        for (at, name) in (0..).zip(&places.names) {
            tracks.add(name.clone(), Some(at + 1), None, at);
        }
        tracks.add_operations(timeline, &places);
        tracks.add_spans(timeline, &places);
        tracks
    }

    fn add(&mut self, name: String, process: Option<i32>, parent: Option<u64>, rank: i32) -> u64 {
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.push(Track { uuid, name, process, parent, rank });
        uuid
    }

    fn add_operations(&mut self, timeline: &Timeline, places: &Places) {
        let mut of_place: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (index, operation) in (0_u32..).zip(&timeline.operations) {
            of_place.entry(places.of_thread(operation.thread)).or_default().push(index);
        }
        for (place, indices) in of_place {
            for (lane, indices) in (0..).zip(lanes(indices, operation_time(timeline))) {
                let track = self.add(numbered("operations", lane), None, Some(place as u64 + 1), lane);
                self.operations.push(Slices { track, indices });
            }
        }
    }

    fn add_spans(&mut self, timeline: &Timeline, places: &Places) {
        let mut by_name: HashMap<&str, u32> = HashMap::new();
        let named = (0_u32..).zip(&timeline.files).map(|(index, file)| *by_name.entry(&file.name).or_insert(index));
        let first_of_name: Vec<u32> = named.collect();
        let mut of_layer: HashMap<usize, HashSet<u32>> = HashMap::new();
        let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
        for (index, span) in (0_u32..).zip(&timeline.spans) {
            let layer = span.layer as usize;
            let files = of_layer.entry(layer).or_default();
            let file = span.file.and_then(|file| first_of_name.get(file as usize).copied());
            let file = file.filter(|file| files.contains(file) || files.len() < FILES_MAX);
            files.extend(file);
            groups.entry((places.of_thread(span.thread), layer, file)).or_default().push(index);
        }
        let mut layers: HashMap<(usize, usize), u64> = HashMap::new();
        let mut ranks = 0..;
        for ((place, layer, file), indices) in groups {
            let name = Layer::ALL[layer].name();
            // Ranks below 1,000 are left to the operations' tracks.
            let rank = 1_000 + layer as i32;
            let parent = *(layers.entry((place, layer)))
                .or_insert_with(|| self.add(name.to_string(), None, Some(place as u64 + 1), rank));
            let file = file.map(|file| timeline.files.get(file as usize).map_or("", |file| &file.name));
            for (lane, indices) in (0..).zip(lanes(indices, span_time(timeline))) {
                let track = match file {
                    None if lane == 0 => parent,
                    name_of_file => {
                        let name = numbered(name_of_file.unwrap_or(name), lane);
                        self.add(name, None, Some(parent), ranks.next().unwrap_or(0))
                    }
                };
                self.spans.push(Slices { track, indices });
            }
        }
    }
}

/// Begin and end of an operation, by its index.
pub fn operation_time(timeline: &Timeline) -> impl Fn(u32) -> (u64, u64) {
    |index| (timeline.operations[index as usize].begin_ns, timeline.operations[index as usize].end_ns)
}

/// Begin and end of a span, by its index.
pub fn span_time(timeline: &Timeline) -> impl Fn(u32) -> (u64, u64) {
    |index| (timeline.spans[index as usize].begin_ns, timeline.spans[index as usize].end_ns)
}

fn numbered(name: &str, lane: i32) -> String {
    if lane == 0 { name.to_string() } else { format!("{name} ({})", lane + 1) }
}

/// Distributes slices over as few lanes as possible, so that they nest on each.
fn lanes(mut indices: Vec<u32>, time: impl Fn(u32) -> (u64, u64)) -> Vec<Vec<u32>> {
    // Ordered by begin; at equal begins the longest comes first, because it contains the others.
    indices.sort_by_key(|index| (time(*index).0, Reverse(time(*index).1)));
    let mut lanes: Vec<(Vec<u32>, Vec<u64>)> = Vec::new();
    for index in indices {
        let (begin_ns, end_ns) = time(index);
        let fits = |open: &mut Vec<u64>| {
            while open.pop_if(|open_until_ns| *open_until_ns <= begin_ns).is_some() {}
            open.last().is_none_or(|open_until_ns| end_ns <= *open_until_ns)
        };
        let free = lanes.iter_mut().position(|(_, open)| fits(open));
        let at = free.unwrap_or_else(|| {
            lanes.push((Vec::new(), Vec::new()));
            lanes.len() - 1
        });
        lanes[at].0.push(index);
        lanes[at].1.push(end_ns);
    }
    lanes.into_iter().map(|(indices, _)| indices).collect()
}

/// Places, in the order of the threads that name them.
struct Places {
    names: Vec<String>,
    of_thread: Vec<usize>,
}

impl Places {
    fn of(timeline: &Timeline) -> Places {
        let (mut places, mut names, mut of_thread) = (Vec::new(), Vec::new(), Vec::new());
        for thread in &timeline.threads {
            let known = places.iter().position(|place| *place == &thread.place);
            of_thread.push(known.unwrap_or_else(|| {
                places.push(&thread.place);
                // The clock error applies to everything shown for the place.
                names.push(match thread.clock_error_ns {
                    Some(error_ns) => format!("{} (clock within {})", thread.place, time(error_ns as f64 / 1e9)),
                    None => thread.place.clone(),
                });
                places.len() - 1
            }));
        }
        if names.is_empty() {
            names.push("unknown".to_string());
        }
        Places { names, of_thread }
    }

    fn of_thread(&self, thread: u32) -> usize {
        self.of_thread.get(thread as usize).copied().unwrap_or(0)
    }
}
