//! An administrator who asks an appliance, and what is done to its database while it is dead.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use firesteel_tests::appliance::Appliance;
use rusqlite::Connection as Database;
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::talk::{Connection, Request};

/// The administrator's connection.
pub(crate) struct Administrator {
    connection: Connection,
    pub(crate) bearer: String,
}

impl Administrator {
    pub(crate) fn of(appliance: &Appliance) -> Self {
        let address: SocketAddr = appliance.url().strip_prefix("https://").unwrap().parse().unwrap();
        let connection = Connection::tls(address, &appliance.ca_pem()).unwrap();
        Self { connection, bearer: format!("Bearer {}", appliance.token()) }
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("authorization", self.bearer.as_str()), ("content-type", "application/json")];
        let request = Request { method, path, headers: &headers, body: body.as_bytes(), ..Request::default() };
        let answer = self.connection.ask(&request).unwrap();
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    pub(crate) fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask("GET", path, &Value::Null)
    }

    pub(crate) fn make(&mut self, collection: &str, object: &Value) -> Value {
        let (code, made) = self.ask("POST", collection, object);
        assert_eq!(code, 201, "{collection}: {made}");
        made
    }
}

/// An object of this name.
pub(crate) fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// All of a database in its file, without a log beside it.
pub(crate) fn settle(path: &Path) {
    let database = Database::open(path).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let ends_at = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < ends_at, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
