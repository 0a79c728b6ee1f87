//! The rules of the house: what the shape and the language of every source must be.
//!
//! ```text
//!  Tree::read ── each Rust file is parsed once, on all cores ──► facts of each file
//!       │                                                            │
//!       └── manifests ──► Package                                    ▼
//!                            └──────────────────────────────►  rules::check ──► Hit
//!                                                                                 │
//!     allowed.toml: places that stay, each with a reason  ◄───────────────────────┤
//!     ratchet.toml: hits of each rule and file that are still to be mended  ◄─────┘
//! ```
//!
//! A rule is a file in `rules`. It returns hits and decides nothing else. Each rule has tests of what it finds and of
//! what it leaves alone; `tests/tree.rs` holds this tree to all of them.
//!
//! The rules see syntax only. They do not know types, and of a macro they know the tokens of its call.
//!
//! Numbers of clauses are held to `docs/dev/spec` by another test, and the written pages by a third one.

pub mod allowed;
pub mod arrows;
pub mod manifest;
pub mod modules;
pub mod ratchet;
pub mod rule;
pub mod rules;
pub mod source;
pub mod tree;
