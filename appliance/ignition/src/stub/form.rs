//! The forms in which user data comes: plain, gzip, base64, and gzip in base64. One layer of each at most, base64
//! outside: what is nested deeper is no form that any tool writes, and is how bombs are built.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

use crate::CONFIG_BYTES_MAX;

/// Most bytes of user data as it is stored: a config of the largest size as base64 with line breaks, and a little.
pub const USER_DATA_BYTES_MAX: usize = CONFIG_BYTES_MAX / 2 * 3;

/// How user data was packed, so that it is given back in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserDataForm {
    pub gzip: bool,
    pub base64: Option<Base64Layout>,
}

impl UserDataForm {
    pub const PLAIN: Self = Self { gzip: false, base64: None };
}

/// How base64 text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base64Layout {
    /// Characters in a line; `None` for one line.
    pub width: Option<usize>,
    /// A line break at the end.
    pub ended: bool,
}

/// User data as it was read.
#[derive(Clone, PartialEq, Eq)]
pub enum ParsedUserData {
    /// A JSON text, perhaps an Ignition config.
    Json { text: String, form: UserDataForm },
    /// The data is for another program; nothing here is ours to change.
    NotIgnition(NotIgnition),
}

/// Shows nothing of the data: it holds an owner's config.
impl std::fmt::Debug for ParsedUserData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json { text, form } => write!(f, "Json of {} bytes, {form:?}", text.len()),
            Self::NotIgnition(what) => write!(f, "{what:?}"),
        }
    }
}

/// User data that cloud-init reads (its documentation, "user data formats").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotIgnition {
    CloudConfig,
    Script,
    Multipart,
    Template,
    Include,
    Part,
}

impl std::fmt::Display for NotIgnition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CloudConfig => "cloud-init's configuration, not Ignition's",
            Self::Script => "a script, no Ignition config",
            Self::Multipart => "a multipart message for cloud-init, no Ignition config",
            Self::Template => "a template for cloud-init, no Ignition config",
            Self::Include => "a list of addresses for cloud-init, no Ignition config",
            Self::Part => "a part for cloud-init, no Ignition config",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    #[error("there is no user data")]
    Empty,
    #[error("the user data has {0} bytes, more than {USER_DATA_BYTES_MAX}")]
    Large(usize),
    #[error("the config in the user data has more than {CONFIG_BYTES_MAX} bytes: fetch the rest by merge")]
    Long,
    #[error("the user data is damaged: gzip cannot unpack it")]
    Gzip,
    #[error("the user data is packed more than once: at most gzip, and base64 around it")]
    Nested,
    #[error("the user data is neither an Ignition config (JSON, perhaps in gzip or base64) nor for cloud-init")]
    Unknown,
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads user data in whatever form it is.
///
/// # Errors
/// When it is too large, damaged, packed more than once, or nothing that is known.
pub fn read(bytes: &[u8]) -> Result<ParsedUserData, UserDataError> {
    if bytes.len() > USER_DATA_BYTES_MAX {
        return Err(UserDataError::Large(bytes.len()));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(UserDataError::Empty);
    }
    if let Some(read) = without_base64(bytes, None)? {
        return Ok(read);
    }
    let (packed, lines) = from_base64(bytes).ok_or(UserDataError::Unknown)?;
    match without_base64(&packed, Some(lines))? {
        Some(read) => Ok(read),
        None if from_base64(&packed).is_some() => Err(UserDataError::Nested),
        None => Err(UserDataError::Unknown),
    }
}

/// User data that was read as [`ParsedUserData::NotIgnition`], without the base64 around it: cloud-init unpacks gzip,
/// and takes base64 for text.
#[must_use]
pub fn for_cloud_init(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.starts_with(&GZIP) || not_ignition(bytes).is_some() {
        return Cow::Borrowed(bytes);
    }
    from_base64(bytes).map_or(Cow::Borrowed(bytes), |(unpacked, _)| Cow::Owned(unpacked))
}

/// Writes a JSON text in the form in which it was read.
#[must_use]
pub fn write(text: &str, form: UserDataForm) -> Vec<u8> {
    let plain = text.as_bytes().to_vec();
    let packed = if form.gzip { gzip(&plain) } else { plain };
    match form.base64 {
        None => packed,
        Some(lines) => to_base64(&packed, lines),
    }
}

/// Reads data without base64; `None` when it is neither JSON nor gzip nor cloud-init's, and so may be base64.
fn without_base64(bytes: &[u8], base64: Option<Base64Layout>) -> Result<Option<ParsedUserData>, UserDataError> {
    if !bytes.starts_with(&GZIP) {
        return parse_plain(bytes, UserDataForm { gzip: false, base64 });
    }
    let mut unpacked = Vec::new();
    let limit = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut unpacked).map_err(|_| UserDataError::Gzip)?;
    if unpacked.len() > CONFIG_BYTES_MAX {
        return Err(UserDataError::Long);
    }
    if unpacked.starts_with(&GZIP) {
        return Err(UserDataError::Nested);
    }
    match parse_plain(&unpacked, UserDataForm { gzip: true, base64 })? {
        Some(read) => Ok(Some(read)),
        None if from_base64(&unpacked).is_some() => Err(UserDataError::Nested),
        None => Err(UserDataError::Unknown),
    }
}

fn parse_plain(bytes: &[u8], form: UserDataForm) -> Result<Option<ParsedUserData>, UserDataError> {
    if let Some(what) = not_ignition(bytes) {
        return Ok(Some(ParsedUserData::NotIgnition(what)));
    }
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(UserDataError::Long);
    }
    let text = std::str::from_utf8(bytes).ok();
    Ok(text.map(|text| ParsedUserData::Json { text: text.to_owned(), form }))
}

/// Recognises the beginnings that cloud-init knows. It takes messages with a header in any case and in any order.
fn not_ignition(bytes: &[u8]) -> Option<NotIgnition> {
    let head = &bytes[..bytes.len().min(256)];
    let head = String::from_utf8_lossy(head).trim_start().to_ascii_lowercase();
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| head.starts_with(beginning));
    if begins(&["#cloud-config"]) {
        Some(NotIgnition::CloudConfig)
    } else if begins(&["#!"]) {
        Some(NotIgnition::Script)
    } else if begins(&["content-type:", "mime-version:", "from nobody "]) {
        Some(NotIgnition::Multipart)
    } else if begins(&["## template:"]) {
        Some(NotIgnition::Template)
    } else if begins(&["#include"]) {
        Some(NotIgnition::Include)
    } else if begins(&["#cloud-boothook", "#part-handler", "#upstart-job"]) {
        Some(NotIgnition::Part)
    } else {
        None
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // A vector takes everything; otherwise the result is no gzip, and its next reader refuses it.
    drop(encoder.write_all(bytes));
    encoder.finish().unwrap_or_default()
}

fn from_base64(bytes: &[u8]) -> Option<(Vec<u8>, Base64Layout)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let body = text.trim_end();
    let width = body.find(['\n', '\r']).filter(|width| *width > 0);
    let packed: String = body.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    let unpacked = STANDARD.decode(packed).ok()?;
    Some((unpacked, Base64Layout { width, ended: body.len() < text.len() }))
}

fn to_base64(bytes: &[u8], lines: Base64Layout) -> Vec<u8> {
    let text = STANDARD.encode(bytes).into_bytes();
    let mut out = match lines.width {
        Some(width) => text.chunks(width.max(1)).collect::<Vec<_>>().join(&b'\n'),
        None => text,
    };
    if lines.ended {
        out.push(b'\n');
    }
    out
}
