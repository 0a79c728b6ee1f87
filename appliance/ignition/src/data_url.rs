//! Contents inside a config (RFC 2397).

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// `data:;base64,…`: the shortest form that holds any bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(bytes))
}

/// Decodes a data URL; `None` when it is none, or is damaged.
pub(crate) fn decode(url: &str) -> Option<Vec<u8>> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let plain = unescape(data)?;
    if head.ends_with(";base64") { STANDARD.decode(plain).ok() } else { Some(plain) }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            plain.extend(hex::decode([bytes.next()?, bytes.next()?]).ok()?);
        } else {
            plain.push(byte);
        }
    }
    Some(plain)
}
