//! `events/header_page` and `events/header_event`: the layout of page and event headers.

use super::parse::field;

/// The layout of a page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the time of the page's first event (8 bytes).
    pub time_offset: usize,
    /// Offset of the count of used bytes.
    pub commit_offset: usize,
    /// Size of that count: 8 bytes, or 4 on 32-bit processors.
    pub commit_bytes: usize,
    /// Offset of the events.
    pub data_offset: usize,
    /// Size of the area for events.
    pub data_bytes: usize,
}

/// Why pages cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A field is missing or invalid.
    #[error("the kernel's layout of pages has no usable field '{0}'")]
    Page(&'static str),
    /// The event header has another layout.
    #[error("the kernel lays out events in an unknown way: '{0}' is not as expected")]
    Event(&'static str),
}

/// Larger than the pages of any kernel: a layout that exceeds it is invalid.
const PAGE_BYTES_MAX: usize = 1 << 24;

/// The expected lines of the event header's layout, the same in all kernels since 2.6.28.
const EVENT_LINES: [(&str, &str); 6] = [
    ("type_len", "5 bits"),
    ("time_delta", "27 bits"),
    ("array", "32 bits"),
    ("padding", "type == 29"),
    ("time_extend", "type == 30"),
    ("data max type_len", "28"),
];

impl PageLayout {
    /// The layout of a 4 KiB page on a 64-bit processor, used by nearly all kernels.
    pub const USUAL: PageLayout =
        PageLayout { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 4080 };

    /// Reads the text of `events/header_page`.
    ///
    /// # Errors
    /// A field is missing or invalid.
    pub fn parse(header_page: &str) -> Result<PageLayout, HeaderError> {
        let find = |name: &'static str| {
            let found = header_page.lines().filter_map(field).find(|field| field.name == name);
            let fits = |field: &super::Field| field.offset.saturating_add(field.size) <= PAGE_BYTES_MAX;
            found.filter(fits).ok_or(HeaderError::Page(name))
        };
        let (time, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        if time.size != 8 {
            return Err(HeaderError::Page("timestamp"));
        }
        if !matches!(commit.size, 4 | 8) {
            return Err(HeaderError::Page("commit"));
        }
        Ok(PageLayout {
            time_offset: time.offset,
            commit_offset: commit.offset,
            commit_bytes: commit.size,
            data_offset: data.offset,
            data_bytes: data.size,
        })
    }

    /// Checks that `events/header_event` has the event layout that this crate reads.
    ///
    /// # Errors
    /// The layout differs.
    pub fn check_events(header_event: &str) -> Result<(), HeaderError> {
        for (name, value) in EVENT_LINES {
            let is_so = |line: &str| {
                let of_name = line.trim().strip_prefix(name).map(|rest| rest.trim_start_matches([' ', '\t', ':', '=']));
                of_name.is_some_and(|rest| rest.trim() == value.trim_start_matches("type == ") || rest.trim() == value)
            };
            if !header_event.lines().any(is_so) {
                return Err(HeaderError::Event(name));
            }
        }
        Ok(())
    }

    /// Size of a whole page in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.data_offset + self.data_bytes
    }
}
