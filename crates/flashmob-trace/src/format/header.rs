//! `events/header_page` and `events/header_event`: what stands before the events of a page, and how long their numbers are.

use super::parse::field;

/// The layout of a page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Where the time of the page's first event is: 8 bytes.
    pub time_offset: usize,
    /// Where the count of used bytes is.
    pub commit_offset: usize,
    /// How long that count is: 8 bytes, or 4 on processors of 32 bits.
    pub commit_bytes: usize,
    /// Where the events begin.
    pub data_offset: usize,
    /// How much room they have.
    pub data_bytes: usize,
}

/// Why pages cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A field is missing or not as it should be.
    #[error("the kernel's layout of pages has no usable field '{0}'")]
    Page(&'static str),
    /// Events begin differently.
    #[error("the kernel lays out events in an unknown way: '{0}' is not as expected")]
    Event(&'static str),
}

/// Larger pages than any kernel makes: what says so lies.
const PAGE_BYTES_MAX: usize = 1 << 24;

/// The lines that say how an event begins; all kernels since 2.6.28 agree.
const EVENT_LINES: [(&str, &str); 6] = [
    ("type_len", "5 bits"),
    ("time_delta", "27 bits"),
    ("array", "32 bits"),
    ("padding", "type == 29"),
    ("time_extend", "type == 30"),
    ("data max type_len", "28"),
];

impl PageLayout {
    /// Of a page of 4 KiB on a processor of 64 bits: what nearly all kernels have.
    pub const USUAL: PageLayout =
        PageLayout { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 4080 };

    /// Reads the text of `events/header_page`.
    ///
    /// # Errors
    /// A field is missing, or does not fit.
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

    /// Checks the text of `events/header_event`: the kernel begins events as this program reads them.
    ///
    /// # Errors
    /// It does not.
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

    /// Bytes of a whole page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.data_offset + self.data_bytes
    }
}
