//! The page cache of a modelled device.

use super::*;
use crate::flash::{Lookup, PageCache};

/// Reads through the cache; returns the fetches as first block and number of blocks.
fn get(cache: &mut PageCache, submitter: u32, offset_bytes: u64, len_bytes: u64) -> Option<(u64, u64)> {
    match cache.lookup(submitter, offset_bytes, len_bytes) {
        Lookup::Hit => None,
        Lookup::Fetch { offset_bytes, len_bytes } => {
            cache.fetched(offset_bytes, len_bytes);
            Some((offset_bytes / 4096, len_bytes.div_ceil(4096)))
        }
    }
}

#[test]
fn a_random_read_fetches_its_blocks_once() {
    let mut cache = PageCache::new(GIB);
    assert_eq!(get(&mut cache, 0, 4096 * 7 + 5, 1), Some((7, 1)));
    assert_eq!(get(&mut cache, 0, 4096 * 7 + 900, 100), None);
    assert_eq!(get(&mut cache, 0, 4096 * 6 - 1, 4096), Some((5, 2)));
    assert_eq!(cache.cached_bytes(), 3 * 4096);
    cache.drop_all();
    assert_eq!(cache.cached_bytes(), 0);
    assert_eq!(get(&mut cache, 0, 4096 * 7, 1), Some((7, 1)));
}

#[test]
fn reading_on_doubles_the_window_up_to_128_kib() {
    let mut cache = PageCache::new(GIB);
    let fetched: Vec<(u64, u64)> = (0..100).filter_map(|i| get(&mut cache, 0, i * 4096, 4096)).collect();
    assert_eq!(fetched, [(0, 1), (1, 4), (5, 8), (13, 16), (29, 32), (61, 32), (93, 32)]);
}

#[test]
fn reading_byte_by_byte_is_reading_on() {
    let mut cache = PageCache::new(GIB);
    let fetched: Vec<(u64, u64)> = (0..4096 * 10).filter_map(|i| get(&mut cache, 0, i, 1)).collect();
    assert_eq!(fetched, [(0, 1), (1, 4), (5, 8)]);
}

#[test]
fn each_submitter_is_followed_by_itself() {
    let mut cache = PageCache::new(GIB);
    assert_eq!(get(&mut cache, 1, 0, 4096), Some((0, 1)));
    assert_eq!(get(&mut cache, 2, 4096, 4096), Some((1, 1)), "another thread's next block is no reading on");
    assert_eq!(get(&mut cache, 1, 8192, 4096), Some((2, 1)), "a gap ends it");
    assert_eq!(get(&mut cache, 1, 12288, 4096), Some((3, 4)));
}

#[test]
fn readahead_ends_at_the_end_of_the_device_and_at_what_is_there() {
    let mut cache = PageCache::new(10 * 4096 + 100);
    get(&mut cache, 9, 5 * 4096, 1);
    get(&mut cache, 0, 2 * 4096, 4096);
    assert_eq!(get(&mut cache, 0, 3 * 4096, 4096), Some((3, 2)));
    get(&mut cache, 1, 8 * 4096, 4096);
    assert_eq!(cache.lookup(1, 9 * 4096, 4096), Lookup::Fetch { offset_bytes: 9 * 4096, len_bytes: 4096 + 100 });
}
