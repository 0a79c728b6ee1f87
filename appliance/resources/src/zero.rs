//! Numbers and the like that are left out where they say nothing.

/// Says whether a value is the one that stands for an absent field.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
