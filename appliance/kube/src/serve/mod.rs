//! Requests and answers: who asks, what is asked for, and in which form it is answered.

pub(crate) mod api;
pub(crate) mod continue_token;
pub(crate) mod discovery;
pub(crate) mod document;
pub(crate) mod guard;
pub(crate) mod impersonate;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod list_writer;
pub(crate) mod listing;
pub mod logs;
pub(crate) mod openapi;
pub(crate) mod ready;
pub(crate) mod respond;
pub(crate) mod reviews;
pub(crate) mod timing;
pub mod tokens;
pub(crate) mod walk;
pub(crate) mod watch;
pub(crate) mod write;
