//! Attribution of each moment of an operation to a layer.
//!
//! While the operation's thread runs, a moment belongs to the lowest layer that the thread is in. While it is runnable, to the processor.
//! While it waits, to the lowest layer known to work for it: a command in the device, a queued request, a thread that will wake it.
//! The rest is unattributed. Without scheduler events, a moment belongs to the lowest layer with any work for the operation.

use flashmob_results::trace::{Cause, Layer};

use crate::surroundings::AppOperation;

use super::owners::Owners;
use super::schedule::Schedule;
use super::work::Work;

const LAYERS: usize = Layer::ALL.len();

/// For each operation, the time of each layer and the unattributed time.
pub fn divide(
    works: &[Work],
    owners: &Owners,
    operations: &[AppOperation],
    schedule: &Schedule,
) -> Vec<(Vec<(Layer, u64)>, u64)> {
    let mut of_operation: Vec<Vec<u32>> = vec![Vec::new(); operations.len()];
    for (at, owner) in owners.of.iter().enumerate() {
        if let (Some(owner), Ok(at)) = (owner, u32::try_from(at))
            && let Some(list) = of_operation.get_mut(owner.operation)
        {
            list.push(at);
        }
    }
    let mut edges = Vec::new();
    operations
        .iter()
        .zip(of_operation)
        .map(|(operation, list)| {
            edges.clear();
            for at in list {
                let (Some(work), Some(Some(owner))) = (works.get(at as usize), owners.of.get(at as usize)) else {
                    continue;
                };
                add(&mut edges, operation, work, owner.cause);
            }
            add_pauses(&mut edges, operation, schedule);
            edges.sort_unstable_by_key(|edge: &Edge| edge.at_ns);
            sweep(&edges, operation, schedule.is_known())
        })
        .collect()
}

/// Begin (+1) or end (-1).
#[derive(Clone, Copy, Debug)]
struct Edge {
    at_ns: u64,
    what: What,
    by: i32,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The thread itself is in this layer.
    Own(usize),
    /// Another thread or the device works for it in this layer.
    For(usize),
    Waiting,
    Ready,
}

fn add(edges: &mut Vec<Edge>, operation: &AppOperation, work: &Work, cause: Cause) {
    let (begin, end) = (work.begin_ns.max(operation.begin_ns), work.end_ns.min(operation.end_ns));
    if begin >= end {
        return;
    }
    let layer = work.layer as usize;
    let is_own = cause == Cause::Direct && work.thread == operation.thread;
    let mut push = |what| edges.extend([Edge { at_ns: begin, what, by: 1 }, Edge { at_ns: end, what, by: -1 }]);
    if is_own && work.layer < Layer::Driver {
        push(What::Own(layer));
    }
    // Being in a layer does not explain why a thread waits; a queued request does, and so does the thread that will wake it.
    if !is_own || work.layer >= Layer::Block {
        push(What::For(layer));
    }
}

fn add_pauses(edges: &mut Vec<Edge>, operation: &AppOperation, schedule: &Schedule) {
    for pause in schedule.pauses_in(operation.thread, operation.begin_ns, operation.end_ns) {
        let clamp = |time: u64| time.clamp(operation.begin_ns, operation.end_ns);
        let (begin, ready, end) = (clamp(pause.begin_ns), clamp(pause.ready_ns()), clamp(pause.end_ns));
        for (from, to, what) in [(begin, ready, What::Waiting), (ready, end, What::Ready)] {
            if from < to {
                edges.extend([Edge { at_ns: from, what, by: 1 }, Edge { at_ns: to, what, by: -1 }]);
            }
        }
    }
}

fn sweep(edges: &[Edge], operation: &AppOperation, is_schedule_known: bool) -> (Vec<(Layer, u64)>, u64) {
    let (mut own, mut for_it) = ([0i32; LAYERS], [0i32; LAYERS]);
    let (mut waiting, mut ready) = (0, 0);
    let mut times = [0u64; LAYERS];
    let mut unattributed = 0;
    let mut last = operation.begin_ns;
    let lowest = |counts: &[i32; LAYERS]| counts.iter().rposition(|&count| count > 0);
    let mut settle = |from: u64, to: u64, own: &[i32; LAYERS], for_it: &[i32; LAYERS], waiting: i32, ready: i32| {
        let time = to.saturating_sub(from);
        let layer = match () {
            () if !is_schedule_known => lowest(own).max(lowest(for_it)),
            () if ready > 0 => Some(Layer::Processor as usize),
            () if waiting > 0 => lowest(for_it),
            () => lowest(own),
        };
        match layer {
            Some(layer) => times[layer] += time,
            None => unattributed += time,
        }
    };
    for edge in edges {
        if edge.at_ns > last {
            settle(last, edge.at_ns, &own, &for_it, waiting, ready);
            last = edge.at_ns;
        }
        match edge.what {
            What::Own(layer) => own[layer] += edge.by,
            What::For(layer) => for_it[layer] += edge.by,
            What::Waiting => waiting += edge.by,
            What::Ready => ready += edge.by,
        }
    }
    settle(last, operation.end_ns, &own, &for_it, waiting, ready);
    let layers = Layer::ALL.iter().map(|&layer| (layer, times[layer as usize])).filter(|(_, time)| *time > 0);
    (layers.collect(), unattributed)
}
