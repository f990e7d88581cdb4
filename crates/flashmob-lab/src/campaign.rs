//! The record of a campaign: which random seeds have passed and which failed, and by which build of the program, in a file of lines.
//!
//! A campaign of hours is interrupted, or a seed fails and is mended: what has passed is not run again. Lines are only appended, so a process that is
//! killed at any time leaves a file that is read again; a last line without its end is dropped. A file that is no such record is never changed.
//!
//! ```text
//! flashmob seeds 1 copies        the form's version, and the family of seeds
//! program 0.1.0-3f2a9c01         the build that ran the seeds of the lines below
//! passed 100 164                 from 100, before 164
//! failed 164 what was wrong
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The first bytes of a record; the family follows.
const MAGIC: &str = "flashmob seeds 1 ";
/// The longest text of a failure that is kept, in letters.
const TEXT_MAX: usize = 400;

/// Seeds, as ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeds {
    /// By the first seed: the one behind the last.
    ends: BTreeMap<u64, u64>,
}

impl Seeds {
    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // Those that touch it, from behind.
        while let Some((&at, &to)) = self.ends.range(..=end).next_back().filter(|&(_, &to)| to >= start) {
            self.ends.remove(&at);
            (start, end) = (start.min(at), end.max(to));
        }
        self.ends.insert(start, end);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// The parts of a range that are not among them, in order.
    #[must_use]
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut missing, mut at) = (Vec::new(), range.start);
        for there in self.ranges().skip_while(|there| there.end <= range.start) {
            if there.start >= range.end {
                break;
            }
            if at < there.start {
                missing.push(at..there.start);
            }
            at = there.end;
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The file cannot be opened, read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] std::io::Error),
    /// Another process has it.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// The file holds something else.
    #[error("{0} is no record of seeds; it was left as it is: name another file")]
    Foreign(PathBuf),
    /// The record is of other seeds.
    #[error("{path} is a record of seeds of the family '{found}', not of '{wanted}': name another file")]
    OtherFamily {
        /// The file.
        path: PathBuf,
        /// The family that it has.
        found: String,
        /// The family that was asked for.
        wanted: String,
    },
    /// A line is damaged.
    #[error("{path}, line {line}: '{text}' is no line of a record of seeds: delete the line, or name another file")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line, shortened.
        text: String,
    },
    /// Another build of the program wrote it last.
    #[error(
        "{path} is of another build of this program, {found}; this one is {own}. With --keep-passed the {passed} seeds that passed there count, and those that failed run again; else name another file"
    )]
    OtherProgram {
        /// The file.
        path: PathBuf,
        /// The build that wrote it last.
        found: String,
        /// The build that opens it.
        own: String,
        /// How many seeds have passed, whichever build ran them.
        passed: u64,
    },
}

/// The content of a record, as one build of the program reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Content {
    passed: Seeds,
    /// By seed, what was wrong: of the build that reads it.
    failed: BTreeMap<u64, String>,
    /// The seeds that passed under other builds.
    passed_elsewhere: Seeds,
    /// Seeds that failed under other builds and have not passed since.
    failed_elsewhere: BTreeSet<u64>,
    last_program: Option<String>,
}

/// The number of a line that is damaged, and the line.
type BadLine = (usize, String);

impl Content {
    /// Reads the lines behind the first, all of which have their ends.
    fn parse(lines: &str, own: &str) -> Result<Content, BadLine> {
        let mut content = Content::default();
        for (number, line) in lines.lines().enumerate() {
            content.take(line, own).ok_or_else(|| (number + 2, line.chars().take(60).collect()))?;
        }
        Ok(content)
    }

    fn take(&mut self, line: &str, own: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        if word == "program" {
            self.last_program = Some(rest.to_string()).filter(|program| !program.is_empty());
            return self.last_program.as_ref().map(|_| ());
        }
        let is_own = self.last_program.as_deref()? == own;
        let (seed, rest) = rest.split_once(' ')?;
        let seed: u64 = seed.parse().ok()?;
        match word {
            "passed" => {
                let range = seed..rest.parse().ok().filter(|&end| end > seed)?;
                self.failed_elsewhere.retain(|seed| !range.contains(seed));
                self.failed.retain(|seed, _| !range.contains(seed));
                if !is_own {
                    self.passed_elsewhere.insert(range.clone());
                }
                self.passed.insert(range);
            }
            "failed" if is_own => drop(self.failed.insert(seed, rest.to_string())),
            "failed" => drop(self.failed_elsewhere.insert(seed)),
            _ => return None,
        }
        Some(())
    }
}

/// The record of a campaign, open and locked.
#[derive(Debug)]
pub struct Campaign {
    path: PathBuf,
    file: File,
    content: Content,
}

impl Campaign {
    /// Opens the record of a campaign of seeds of a family, or begins one. `own` names this build of the program; with `keeps_passed` the record may be
    /// of another.
    ///
    /// # Errors
    /// The file is in use, or is not such a record.
    pub fn open(path: &Path, family: &str, own: &str, keeps_passed: bool) -> Result<Campaign, CampaignError> {
        let io = |error| CampaignError::Io(path.to_path_buf(), error);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CampaignError::InUse(path.to_path_buf())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let first = format!("{MAGIC}{family}\n");
        let foreign = || CampaignError::Foreign(path.to_path_buf());
        // What was killed as it began left a part of the first line.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 && !first.as_bytes().starts_with(&bytes) {
            return Err(foreign());
        }
        let mut content = Content::default();
        if whole > 0 {
            if !bytes.starts_with(MAGIC.as_bytes()) {
                return Err(foreign());
            }
            let text = String::from_utf8_lossy(&bytes[..whole]);
            let (head, lines) = text.split_once('\n').ok_or_else(foreign)?;
            if head != first.trim_end() {
                let found = head[MAGIC.len()..].to_string();
                return Err(CampaignError::OtherFamily { path: path.to_path_buf(), found, wanted: family.to_string() });
            }
            content = Content::parse(lines, own).map_err(|(line, text)| CampaignError::Damaged {
                path: path.to_path_buf(),
                line,
                text,
            })?;
        }
        let is_other = content.last_program.as_deref().is_some_and(|last| last != own);
        if is_other && !keeps_passed {
            let (found, passed) = (content.last_program.unwrap_or_default(), content.passed.count());
            return Err(CampaignError::OtherProgram { path: path.to_path_buf(), found, own: own.to_string(), passed });
        }
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::Start(whole as u64))).map_err(io)?;
        if whole == 0 {
            file.write_all(first.as_bytes()).map_err(io)?;
        }
        if content.last_program.as_deref() != Some(own) {
            file.write_all(format!("program {own}\n").as_bytes()).map_err(io)?;
            content.last_program = Some(own.to_string());
        }
        Ok(Campaign { path: path.to_path_buf(), file, content })
    }

    /// The parts of a range that have neither passed nor failed, in order. Seeds that failed under another build are among them.
    #[must_use]
    pub fn left(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut done = self.content.passed.clone();
        self.content.failed.keys().for_each(|&seed| done.insert(seed..seed.saturating_add(1)));
        done.missing(range)
    }

    /// How many seeds of a range have passed, and how many of them under other builds.
    #[must_use]
    pub fn passed(&self, range: &Range<u64>) -> (u64, u64) {
        let within = |seeds: &Seeds| {
            let missing: u64 = seeds.missing(range.clone()).iter().map(|part| part.end - part.start).sum();
            range.end.saturating_sub(range.start) - missing
        };
        (within(&self.content.passed), within(&self.content.passed_elsewhere))
    }

    /// The seeds of a range that failed, and what was wrong.
    pub fn failed(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &str)> {
        self.content.failed.range(range).map(|(&seed, text)| (seed, text.as_str()))
    }

    /// How many seeds failed under another build and have not passed since.
    #[must_use]
    pub fn failed_elsewhere(&self) -> usize {
        self.content.failed_elsewhere.len()
    }

    /// Records seeds that have passed, and seeds that failed with what was wrong. An error leaves the file as it was before, or with some of them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, passed: &Seeds, failed: &[(u64, String)]) -> Result<(), CampaignError> {
        let mut lines = String::new();
        for range in passed.ranges() {
            lines += &format!("passed {} {}\n", range.start, range.end);
            self.content.passed.insert(range);
        }
        for (seed, text) in failed {
            let text: String =
                text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX).collect();
            lines += &format!("failed {seed} {text}\n");
            self.content.failed.insert(*seed, text);
        }
        // One write, so that a process that is killed leaves all of its lines or none.
        self.file.write_all(lines.as_bytes()).map_err(|error| CampaignError::Io(self.path.clone(), error))
    }
}

#[cfg(test)]
mod tests;
