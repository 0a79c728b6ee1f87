//! Removes secrets from what leaves an appliance for others to read.
//!
//! ```text
//!   Secrets, configs, URLs ──► KnownSecrets ──► SecretSearch ─┐
//!   SecretForms (patterns, names) ────────────────────────────┼─► Redactor ──► text and objects without secrets
//!   secret_types (fields of objects that are secrets) ────────┘        └────► RemovalList: what was removed, and where
//! ```
//!
//! It reads no file and no socket. Texts are foreign bytes: what is unpacked or decoded of them is bounded, and what is
//! beyond a bound counts as a secret.

/// Implements `Debug` for a type that holds secrets: by its name alone.
macro_rules! opaque_debug {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

mod encodings;
mod known_secrets;
mod private_keys;
mod redactor;
mod secret_forms;
mod secret_names;
mod secret_patterns;
mod secret_search;
pub mod secret_types;
mod unescaped_text;
mod url_secrets;
mod user_data;

pub use known_secrets::KnownSecrets;
pub use redactor::{Redactor, RemovalList, SecretRemoval, SecretTrace};
pub use secret_search::{SecretSearch, TooManyValues};
