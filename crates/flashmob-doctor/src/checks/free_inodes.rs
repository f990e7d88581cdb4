//! Files that can still be made: a file system may be full of names while there is room for bytes.

use super::{Finding, without_data};
use crate::view::View;

/// A node makes a few: data, identity, lock, and what is written beside its place first.
const SEVERE: u64 = 8;
const LOW: u64 = 1000;
const LOW_PART: u64 = 100;

pub(super) fn look(view: &View) -> Finding {
    let Some(data) = &view.data else { return without_data() };
    let Some(space) = data.space else {
        return if view.is_live() {
            Finding::not_applicable("the data is a disk or partition of its own")
        } else {
            Finding::unknown("a copied tree does not say how many files can be made")
        };
    };
    if space.inodes == 0 {
        return Finding::not_applicable("the file system has no fixed number of files");
    }
    let free = space.free_inodes;
    let found = format!("{free} of {} files can still be made where {} lies", space.inodes, data.path.display());
    let advice = "remove small files there; df -i shows it";
    if free < SEVERE {
        let cost = "no file can be made though there is room: a node that begins, or writes down its identity, fails with 'no space left'";
        return Finding::severe(found, cost).with_advice(advice);
    }
    if free < LOW.min(space.inodes / LOW_PART) {
        return Finding::wrong(found, "soon no file can be made, though there is room").with_advice(advice);
    }
    Finding::well(found)
}
