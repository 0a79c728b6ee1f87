//! Stubs: the small configs that lead a host to its real one.
//!
//! ```text
//! user data ─► form::read ─► JSON text ─► version? ─ 2.x ─► spec2::convert ─┐
//!                │ cloud-init: ignored        └─ 3.x: as it is ─────────────┴─► authority::rotate ─► form::write
//! pool, endpoint, CA ─► managed_stub::managed
//! ```
//!
//! [`upgrade::upgrade`] does the whole work for one secret; the other modules are parts of it. A stub of the owner's
//! that is spec 3 stays byte for byte as it is, but for the one value that holds our CA (S1.15).

pub mod authority;
pub mod form;
mod json_edit;
pub mod managed_stub;
pub mod names;
pub mod spec2;
pub mod upgrade;

#[cfg(test)]
mod tests;
