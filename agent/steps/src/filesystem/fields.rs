//! Numbers as they stand on a medium, and arithmetic with them that cannot wrap.

use super::FilesystemError;

const SHORT: &str = "a structure ends before its fields";
const LARGE: &str = "a number is too large to be a place";

pub(super) fn u8_at(bytes: &[u8], at: usize) -> Result<u8, FilesystemError> {
    bytes.get(at).copied().ok_or(FilesystemError::Damaged(SHORT))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Result<u16, FilesystemError> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map(|field| u16::from_le_bytes(*field))
        .ok_or(FilesystemError::Damaged(SHORT))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, FilesystemError> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map(|field| u32::from_le_bytes(*field))
        .ok_or(FilesystemError::Damaged(SHORT))
}

/// A number whose upper half stands elsewhere.
pub(super) fn joined(high: impl Into<u64>, low: u32) -> u64 {
    let high: u64 = high.into();
    (high << 32) | u64::from(low)
}

pub(super) fn sum(one: u64, other: u64) -> Result<u64, FilesystemError> {
    one.checked_add(other).ok_or(FilesystemError::Damaged(LARGE))
}

pub(super) fn product(one: u64, other: u64) -> Result<u64, FilesystemError> {
    one.checked_mul(other).ok_or(FilesystemError::Damaged(LARGE))
}

/// A place in memory.
pub(super) fn index(value: u64) -> Result<usize, FilesystemError> {
    usize::try_from(value).map_err(|_| FilesystemError::Damaged(LARGE))
}
