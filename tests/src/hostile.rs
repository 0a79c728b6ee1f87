//! A hostile machine: a process on a wire that says whatever a test has it say, and whose every answer the test sees.
//!
//! ```text
//!   test ── one Move a line, as JSON ──► firesteel-hostile, in the machines' namespace ──► the appliance's listeners
//!     ◄────────────── one Got a line ──┘
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::Ipv4Addr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::field::{Field, boot_request};

/// What it does next.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "move", rename_all = "kebab-case")]
pub enum Move {
    /// A request at the boot listener, from an address that the wire's end has.
    Boot { from: Ipv4Addr, method: String, path: String },
}

/// What it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Got {
    pub status: u16,
    pub body: String,
}

/// Does what it reads, until there is no more.
pub fn run() {
    for line in io::stdin().lines() {
        let next: Move = serde_json::from_str(&line.unwrap()).unwrap();
        let (status, body) = match next {
            Move::Boot { from, method, path } => boot_request(from, &method, &path),
        };
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &Got { status, body }).unwrap();
        out.write_all(b"\n").unwrap();
        out.flush().unwrap();
    }
}

/// A running one. It ends with the value.
#[derive(Debug)]
pub struct Hostile {
    child: Child,
    moves: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Hostile {
    /// Starts it on the field's wire. `program` is the test suite's `env!("CARGO_BIN_EXE_firesteel-hostile")`.
    #[must_use]
    pub fn start(field: &Field, program: &str) -> Self {
        // A child is in the namespace of the thread that starts it.
        let mut child =
            field.there(|| Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { moves: child.stdin.take(), child, answers }
    }

    /// Has it do something, and returns what came of it.
    pub fn does(&mut self, next: &Move) -> Got {
        let mut line = serde_json::to_string(next).unwrap();
        line.push('\n');
        self.moves.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("the hostile machine ended: {error}: {answer}"))
    }

    /// Asks for the boot script of this MAC.
    pub fn script(&mut self, from: Ipv4Addr, mac: &str) -> Got {
        let path = format!("/boot.ipxe?mac={}&platform=efi", mac.replace(':', "-"));
        self.does(&Move::Boot { from, method: "GET".to_owned(), path })
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // Without moves it ends.
        drop(self.moves.take());
        drop(self.child.wait());
    }
}
