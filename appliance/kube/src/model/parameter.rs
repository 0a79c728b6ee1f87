//! Values of a query's parameters.

use crate::model::status::Status;

pub(crate) fn boolean(key: &str, value: &str) -> Result<bool, Status> {
    match value {
        "" | "1" | "true" | "True" | "t" => Ok(true),
        "0" | "false" | "False" | "f" => Ok(false),
        _ => Err(Status::bad_request(format!("invalid value {value:?} of {key}: a boolean is expected"))),
    }
}

pub(crate) fn number(key: &str, value: &str) -> Result<Option<u64>, Status> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse::<i64>() {
        // client-go sends 0 and below for "not set".
        Ok(number) => Ok(u64::try_from(number).ok().filter(|number| *number > 0)),
        Err(_) => Err(Status::bad_request(format!("invalid value {value:?} of {key}: a number is expected"))),
    }
}

/// Undoes percent encoding; `None` if it is malformed or not UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if plus_is_space => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
