//! The server's handshake: the client's flags, then its options one by one, until an export is open.
//!
//! Fixed newstyle only, without TLS or with nothing else (the document's FORCEDTLS). The only metadata context is `base:allocation`. A refused option gets an error reply with a text, and
//! its data is skipped as it arrives, without being buffered.

use super::fields::Fields;
use super::options::{ContextRequest, InfoRequest, parse_name};
use super::protocol::*;
use super::reply::{ALLOCATION_ID, clip};
use super::request::Terms;
use super::session::{SessionError, UNREAD_BYTES_MAX};
use super::{BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, ExportInfo, Exports};
use crate::buffers::{OutQueue, RxBuf};
use crate::request::REQUEST_BYTES_MAX;

/// Most bytes of data of an option. The longest useful one is a name and a few numbers.
pub const OPTION_BYTES_MAX: u32 = 64 * 1024;
/// Most bytes of data of an option that are skipped; a longer one ends the session: 1 MiB.
pub const OPTION_DISCARD_BYTES_MAX: u32 = 1 << 20;
/// Most options of a client, so that the handshake ends.
pub const OPTIONS_MAX: u32 = 1024;

/// Whether the connection is, or has to be, inside TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tls {
    /// It is not, and cannot be.
    #[default]
    Absent,
    /// It has to be: no option is answered before.
    Demanded,
    /// The client was told to begin; nothing is decoded before it has.
    Starting,
    /// It is.
    On,
}

/// The state of the handshake.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    tls: Tls,
    /// The client's flags, once received.
    flags: Option<u32>,
    /// Options received.
    options: u32,
    /// Whether structured replies were agreed on.
    structured: bool,
    /// The export for which `base:allocation` was last chosen.
    mapped: Option<usize>,
}

/// The result of a step of the handshake.
#[derive(Debug)]
pub(super) enum Step {
    /// The next message is incomplete.
    NeedMore,
    /// The client must first read earlier replies.
    Blocked,
    /// A message was processed; this many bytes behind it are to be skipped.
    Done { skip_bytes: u64 },
    /// The export with this index is open under these terms.
    Opened { export: usize, terms: Terms },
    /// The client begins TLS.
    StartTls,
    /// The client ended the session.
    Aborted,
}

/// Queues the greeting, with which the server begins.
pub(super) fn greet(out: &mut OutQueue) {
    out.append(|to| {
        to.extend_from_slice(&GREETING_MAGIC.to_be_bytes());
        to.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        to.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    });
}

impl Handshake {
    pub(super) fn demanding_tls() -> Handshake {
        Handshake { tls: Tls::Demanded, ..Handshake::default() }
    }

    /// The client is inside TLS, and what it agreed on before is forgotten. Its flags stay: they are not sent again.
    pub(super) fn secured(&mut self) {
        if self.tls == Tls::Starting {
            *self = Handshake { tls: Tls::On, flags: self.flags, options: self.options, ..Handshake::default() };
        }
    }

    /// Processes the message at the front of `rx`.
    pub(super) fn step(
        &mut self,
        rx: &mut RxBuf,
        out: &mut OutQueue,
        exports: &dyn Exports,
    ) -> Result<Step, SessionError> {
        if self.tls == Tls::Starting {
            return Ok(Step::NeedMore);
        }
        let mut fields = Fields(rx.data());
        let Some(flags) = self.flags else {
            let Some(flags) = fields.u32() else { return Ok(Step::NeedMore) };
            if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
                return Err(SessionError::ClientFlags(flags));
            }
            rx.consume(CLIENT_FLAGS_BYTES);
            self.flags = Some(flags);
            return Ok(Step::Done { skip_bytes: 0 });
        };
        let (Some(magic), Some(option), Some(len_bytes)) = (fields.u64(), fields.u32(), fields.u32()) else {
            return Ok(Step::NeedMore);
        };
        if magic != OPTION_MAGIC {
            return Err(SessionError::OptionMagic(magic));
        }
        if len_bytes > OPTION_DISCARD_BYTES_MAX {
            return Err(SessionError::OptionTooLong(len_bytes));
        }
        let takes_data = self.tls != Tls::Demanded
            && matches!(option, OPT_EXPORT_NAME | OPT_INFO | OPT_GO | OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT);
        let mut data: &[u8] = &[];
        if takes_data && len_bytes <= OPTION_BYTES_MAX {
            match fields.bytes(len_bytes as usize) {
                Some(whole) => data = whole,
                None => return Ok(Step::NeedMore),
            }
        }
        if out.len() >= UNREAD_BYTES_MAX {
            return Ok(Step::Blocked);
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(SessionError::TooManyOptions);
        }
        let option = Haggle { number: option, len_bytes, data, flags };
        let step = self.answer(&option, out, exports)?;
        rx.consume(OPTION_HEADER_BYTES + option.data.len());
        if matches!(step, Step::StartTls) && !rx.is_empty() {
            // They may be anybody's, and must not count as the client's.
            return Err(SessionError::BehindStartTls);
        }
        Ok(step)
    }

    fn answer(&mut self, option: &Haggle<'_>, out: &mut OutQueue, exports: &dyn Exports) -> Result<Step, SessionError> {
        if option.number == OPT_SET_META_CONTEXT {
            // Whatever becomes of it, it ends the choice before.
            self.mapped = None;
        }
        match option.number {
            OPT_EXPORT_NAME if self.tls == Tls::Demanded => return Err(SessionError::TlsDemanded),
            OPT_EXPORT_NAME => return self.export_name(option, out, exports),
            OPT_ABORT => {
                option.reply(out, REP_ACK, &[]);
                return Ok(Step::Aborted);
            }
            _ if option.flags & FLAG_C_FIXED_NEWSTYLE == 0 => {
                option.refuse(out, REP_ERR_INVALID, "client did not announce fixed newstyle");
            }
            OPT_STARTTLS if self.tls == Tls::Demanded && option.len_bytes == 0 => {
                option.reply(out, REP_ACK, &[]);
                self.tls = Tls::Starting;
                return Ok(Step::StartTls);
            }
            OPT_STARTTLS if self.tls != Tls::Absent => {
                let text = if self.tls == Tls::On { "TLS has begun already" } else { "option must not have data" };
                option.refuse(out, REP_ERR_INVALID, text);
            }
            _ if self.tls == Tls::Demanded => {
                option.refuse(out, REP_ERR_TLS_REQD, "this server answers inside TLS only: use nbds://");
            }
            _ if option.len_bytes > OPTION_BYTES_MAX => {
                option.refuse(out, REP_ERR_TOO_BIG, "option has more than 64 KiB of data");
            }
            OPT_INFO | OPT_GO => {
                if let Some((export, terms)) = self.info(option, out, exports)
                    && option.number == OPT_GO
                {
                    return Ok(Step::Opened { export, terms });
                }
            }
            OPT_LIST | OPT_STRUCTURED_REPLY if option.len_bytes != 0 => {
                option.refuse(out, REP_ERR_INVALID, "option must not have data");
            }
            OPT_LIST => {
                for name in exports.names() {
                    let name = clip(&name);
                    option.reply(out, REP_SERVER, &[&(name.len() as u32).to_be_bytes(), name.as_bytes()]);
                }
                option.reply(out, REP_ACK, &[]);
            }
            OPT_STRUCTURED_REPLY => {
                self.structured = true;
                option.reply(out, REP_ACK, &[]);
            }
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => self.contexts(option, out, exports),
            _ => option.refuse(out, REP_ERR_UNSUP, "option is not supported"),
        }
        Ok(Step::Done { skip_bytes: u64::from(option.len_bytes) - option.data.len() as u64 })
    }

    /// Answers `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
    fn contexts(&mut self, option: &Haggle<'_>, out: &mut OutQueue, exports: &dyn Exports) {
        let is_choice = option.number == OPT_SET_META_CONTEXT;
        let wanted = match ContextRequest::parse(option.data) {
            Ok(wanted) => wanted,
            Err((kind, text)) => return option.refuse(out, kind, text),
        };
        if is_choice && !self.structured {
            return option.refuse(out, REP_ERR_INVALID, "metadata contexts need structured replies");
        }
        let export = match exports.find(wanted.name) {
            Ok((export, _)) => export,
            Err(error) => return option.refuse(out, REP_ERR_UNKNOWN, &error.to_string()),
        };
        if wanted.is_for_allocation(is_choice) {
            // The number has a meaning only where the context was chosen.
            let id = if is_choice { ALLOCATION_ID } else { 0 };
            option.reply(out, REP_META_CONTEXT, &[&id.to_be_bytes(), CONTEXT_ALLOCATION.as_bytes()]);
            if is_choice {
                self.mapped = Some(export);
            }
        }
        option.reply(out, REP_ACK, &[]);
    }

    fn terms(&self, export: usize, info: &ExportInfo) -> Terms {
        Terms {
            size_bytes: info.size_bytes,
            read_only: info.read_only,
            structured: self.structured,
            maps: self.mapped == Some(export),
        }
    }

    /// Answers `OPT_EXPORT_NAME`, which has no error reply: failure ends the session.
    fn export_name(
        &self,
        option: &Haggle<'_>,
        out: &mut OutQueue,
        exports: &dyn Exports,
    ) -> Result<Step, SessionError> {
        if option.len_bytes as usize > STRING_BYTES_MAX {
            return Err(SessionError::ExportNameTooLong(option.len_bytes));
        }
        let refused = |reason: String| SessionError::ExportRefused { name: shown(option.data), reason };
        let name = parse_name(option.data).map_err(|reason| refused(reason.to_string()))?;
        let (export, info) = exports.find(name).map_err(|error| refused(error.to_string()))?;
        let terms = self.terms(export, &info);
        let zeroes = if option.flags & FLAG_C_NO_ZEROES == 0 { EXPORT_NAME_ZEROES_BYTES } else { 0 };
        out.append(|to| {
            to.extend_from_slice(&info.size_bytes.to_be_bytes());
            to.extend_from_slice(&terms.transmission_flags().to_be_bytes());
            to.resize(to.len() + zeroes, 0);
        });
        Ok(Step::Opened { export, terms })
    }

    /// Answers `OPT_INFO` and `OPT_GO`. Returns the export unless it was refused.
    fn info(&self, option: &Haggle<'_>, out: &mut OutQueue, exports: &dyn Exports) -> Option<(usize, Terms)> {
        let wanted = match InfoRequest::parse(option.data) {
            Ok(wanted) => wanted,
            Err((kind, text)) => {
                option.refuse(out, kind, text);
                return None;
            }
        };
        let (export, info) = match exports.find(wanted.name) {
            Ok(found) => found,
            Err(error) => {
                option.refuse(out, REP_ERR_UNKNOWN, &error.to_string());
                return None;
            }
        };
        let terms = self.terms(export, &info);
        let tell = |out: &mut OutQueue, kind: u16, parts: [&[u8]; 3]| {
            option.reply(out, REP_INFO, &[&kind.to_be_bytes(), parts[0], parts[1], parts[2]]);
        };
        tell(out, INFO_EXPORT, [&info.size_bytes.to_be_bytes(), &terms.transmission_flags().to_be_bytes(), &[]]);
        let sizes = [BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, REQUEST_BYTES_MAX].map(u32::to_be_bytes);
        tell(out, INFO_BLOCK_SIZE, [&sizes[0], &sizes[1], &sizes[2]]);
        if wanted.asks_for(INFO_NAME) {
            tell(out, INFO_NAME, [clip(&info.name).as_bytes(), &[], &[]]);
        }
        if wanted.asks_for(INFO_DESCRIPTION) {
            tell(out, INFO_DESCRIPTION, [clip(&info.description).as_bytes(), &[], &[]]);
        }
        option.reply(out, REP_ACK, &[]);
        Some((export, terms))
    }
}

/// A received option. `data` is empty for options whose data is ignored or too long.
struct Haggle<'a> {
    number: u32,
    len_bytes: u32,
    data: &'a [u8],
    /// The client's flags.
    flags: u32,
}

impl Haggle<'_> {
    fn reply(&self, out: &mut OutQueue, kind: u32, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        out.append(|to| {
            to.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
            to.extend_from_slice(&self.number.to_be_bytes());
            to.extend_from_slice(&kind.to_be_bytes());
            to.extend_from_slice(&(len as u32).to_be_bytes());
            parts.iter().for_each(|part| to.extend_from_slice(part));
        });
    }

    fn refuse(&self, out: &mut OutQueue, kind: u32, text: &str) {
        self.reply(out, kind, &[clip(text).as_bytes()]);
    }
}

/// The beginning of a name, for a message.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(64).collect()
}
