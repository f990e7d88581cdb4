//! The gateway's configuration, read from TOML.
//!
//! Two layers: the document with the places of its values (crate `toml`), and [`Config`], checked plain data with every
//! default filled in. Between them each section is read key by key (`section`); all problems are reported in one run, with
//! file, line, value and remedy (`report`).
//!
//! [`Config::parse`] depends on its arguments only: it opens no file and resolves no name.
//! [`Config::load`] reads the file, and checks whether local extents exist. Neither changes anything.
//!
//! | file | contents |
//! |---|---|
//! | `types` | the checked data |
//! | `limits` | every limit and default |
//! | `gateway`, `etcd`, `volume`, `node` | each kind of section, key by key |
//! | `section`, `quantity`, `address` | values: text, numbers, sizes, times, addresses |
//! | `report`, `syntax`, `error` | problems and their messages |
//! | `write` | back to TOML |

pub mod address;
mod error;
mod etcd;
mod gateway;
mod limits;
mod node;
pub mod quantity;
mod report;
mod section;
mod syntax;
mod types;
mod volume;
mod write;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::de::DeTable;

pub use error::{ConfigError, ToTomlError};
pub use report::Report;
pub use types::{
    Batch, Config, CopiesConfig, Engine, EtcdConfig, ExtentId, LayoutKind, Listen, Mapping, NodeConfig, NodeSource,
    Sizing, SocketConfig, VolumeConfig, file_name_of,
};

use gateway::{Reader, read_config};
use limits::FILE_BYTES_MAX;
use quantity::Size;
use report::Findings;
use section::{Section, TOP};

/// A size as a configuration has it, with its quotes: the largest unit that is exact.
pub(crate) fn size_to_toml(bytes: u64) -> String {
    Size(bytes).to_toml()
}

impl Config {
    /// Reads and checks the file at `path`. Relative paths in it start at its own folder.
    ///
    /// A local extent that does not exist needs a size; that is the one thing checked beyond
    /// [`Config::parse`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = read_text(path)?;
        let unreadable = |source| ConfigError::Unreadable { path: path.to_path_buf(), source };
        let whole = std::path::absolute(path).map_err(unreadable)?;
        let base_dir = whole.parent().unwrap_or(Path::new("/"));
        // If this fails, the store reports the reason.
        read(&text, &path.display().to_string(), base_dir, |path| path.try_exists().unwrap_or(true))
    }

    /// Checks a configuration's text. `file` is its name in messages; relative paths start at `base_dir`.
    ///
    /// Local extents are not looked for.
    pub fn parse(text: &str, file: &str, base_dir: &Path) -> Result<Config, ConfigError> {
        read(text, file, base_dir, |_| true)
    }
}

fn read(text: &str, file: &str, base_dir: &Path, exists: fn(&Path) -> bool) -> Result<Config, ConfigError> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge { path: file.into() });
    }
    let findings = Findings::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    let config = if errors.is_empty() {
        let top = Section::open(document.get_ref(), document.span(), &TOP, &findings);
        let (names, ids, files, sources) = Default::default();
        Some(read_config(&top, &mut Reader { base_dir, exists, names, ids, files, sources, nodes: 0 }))
    } else {
        // The contents of a malformed text are not worth checking.
        syntax::report_syntax(text, &errors, &findings);
        None
    };
    config.filter(|_| findings.is_empty()).ok_or_else(|| ConfigError::Invalid(findings.into_report(file)))
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX + 1;
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => return Err(ConfigError::TooLarge { path: path.to_path_buf() }),
        Ok(_) => {}
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err(ConfigError::Missing { path: path.to_path_buf() });
        }
        Err(source) => return Err(ConfigError::Unreadable { path: path.to_path_buf(), source }),
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&b| b == b'\n').count() + 1;
        ConfigError::NotUtf8 { path: path.to_path_buf(), line }
    })
}
