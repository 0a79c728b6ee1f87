//! What crosses crates: real clients and peers against the appliance's services. Everything is in
//! `tests/`; there is no library.
