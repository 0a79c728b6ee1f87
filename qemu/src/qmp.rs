//! A small client of QEMU's machine protocol: commands answered by id, events to all listeners.
//! It knows no machine and no boot order; `machine` says what to set.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, broadcast, oneshot, watch};
use tokio::time::timeout;

/// QEMU answers from its main loop at once; a machine that is busy starting under emulation may
/// need seconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Events that a slow listener may lag behind; older ones are lost to it, never to QEMU.
const EVENTS_KEPT: usize = 64;

#[derive(Debug, Error)]
pub enum QmpError {
    #[error("QEMU closed its control connection")]
    Closed,
    #[error("QEMU refused {command}: {message}")]
    Refused { command: String, message: String },
    #[error("QEMU did not answer {command} within {} s", REPLY_TIMEOUT.as_secs())]
    NoAnswer { command: String },
    #[error("speaking to QEMU")]
    Io(#[source] io::Error),
}

/// One line from QEMU.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum QmpMessage {
    Greeting {
        #[serde(rename = "QMP")]
        _qmp: Value,
    },
    Return {
        #[serde(rename = "return")]
        value: Value,
        id: u64,
    },
    Failure {
        error: QmpFailure,
        id: u64,
    },
    Event {
        event: String,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
struct QmpFailure {
    desc: String,
}

type Waiting = Arc<std::sync::Mutex<Option<HashMap<u64, oneshot::Sender<Result<Value, QmpFailure>>>>>>;

/// A connection to one QEMU. Dropping it leaves the machine running.
#[derive(Debug)]
pub struct Qmp {
    writer: Mutex<(OwnedWriteHalf, u64)>,
    /// The commands that wait; `None` once QEMU has closed the connection.
    waiting: Waiting,
    events: broadcast::Sender<String>,
    closed: watch::Receiver<bool>,
}

impl Qmp {
    /// Takes a connection over and leaves the negotiation mode.
    pub async fn start(stream: UnixStream) -> Result<Self, QmpError> {
        let (reader, writer) = stream.into_split();
        let waiting: Waiting = Arc::new(std::sync::Mutex::new(Some(HashMap::new())));
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        let (end, closed) = watch::channel(false);
        let reading = read_lines(BufReader::new(reader), waiting.clone(), events.clone());
        tokio::spawn(async move {
            reading.await;
            end.send_replace(true);
        });
        let qmp = Self { writer: Mutex::new((writer, 0)), waiting, events, closed };
        qmp.run("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Runs one command and returns its value.
    pub async fn run(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut writer = self.writer.lock().await;
            writer.1 += 1;
            let id = writer.1;
            lock(&self.waiting).as_mut().ok_or(QmpError::Closed)?.insert(id, sender);
            let mut request = Map::new();
            request.insert("execute".to_owned(), command.into());
            request.insert("id".to_owned(), id.into());
            if arguments.as_object().is_some_and(|object| !object.is_empty()) {
                request.insert("arguments".to_owned(), arguments);
            }
            let line = format!("{}\n", Value::Object(request));
            writer.0.write_all(line.as_bytes()).await.map_err(QmpError::Io)?;
        }
        match timeout(REPLY_TIMEOUT, receiver).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(QmpFailure { desc: message }))) => {
                Err(QmpError::Refused { command: command.to_owned(), message })
            }
            Ok(Err(_)) => Err(QmpError::Closed),
            Err(_) => Err(QmpError::NoAnswer { command: command.to_owned() }),
        }
    }

    /// Names of events from now on, such as `RESET` and `SHUTDOWN`.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<String> {
        self.events.subscribe()
    }

    /// Resolves when QEMU has closed the connection: when it has ended.
    pub async fn until_closed(&self) {
        drop(self.closed.clone().wait_for(|closed| *closed).await);
    }

    /// Sets one property of a device that has an id.
    pub async fn set_property(&self, device: &str, property: &str, value: Value) -> Result<(), QmpError> {
        let path = format!("/machine/peripheral/{device}");
        self.run("qom-set", json!({"path": path, "property": property, "value": value})).await.map(drop)
    }
}

/// Resolves when an event of this name has come; never, where none comes.
pub async fn wait_for_event(events: &mut broadcast::Receiver<String>, name: &str) {
    loop {
        match events.recv().await {
            Ok(event) if event == name => return,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

async fn read_lines(mut reader: BufReader<OwnedReadHalf>, waiting: Waiting, events: broadcast::Sender<String>) {
    let mut line = String::new();
    loop {
        line.clear();
        match reader.read_line(&mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let (id, answer) = match serde_json::from_str::<QmpMessage>(&line) {
            Ok(QmpMessage::Return { value, id }) => (id, Ok(value)),
            Ok(QmpMessage::Failure { error, id }) => (id, Err(error)),
            Ok(QmpMessage::Event { event }) => {
                // No listener is fine.
                drop(events.send(event));
                continue;
            }
            Ok(QmpMessage::Greeting { .. }) => continue,
            Err(error) => {
                tracing::warn!(%error, line = line.trim(), "QEMU said something unknown");
                continue;
            }
        };
        if let Some(sender) = lock(&waiting).as_mut().and_then(|waiting| waiting.remove(&id)) {
            // The caller may have given up.
            drop(sender.send(answer));
        }
    }
    // Those who wait learn it by their closed channel, later callers by the missing map.
    drop(lock(&waiting).take());
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    async fn pair() -> (Qmp, BufReader<OwnedReadHalf>, OwnedWriteHalf) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, mut writer) = theirs.into_split();
        let mut reader = BufReader::new(reader);
        writer.write_all(b"{\"QMP\": {\"version\": {}}}\n").await.unwrap();
        let started = tokio::spawn(Qmp::start(ours));
        let id = request(&mut reader).await["id"].as_u64().unwrap();
        writer.write_all(format!("{{\"return\": {{}}, \"id\": {id}}}\n").as_bytes()).await.unwrap();
        (started.await.unwrap().unwrap(), reader, writer)
    }

    async fn request(reader: &mut BufReader<OwnedReadHalf>) -> Value {
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[tokio::test]
    async fn answers_find_their_command_though_events_come_between() {
        let (qmp, mut reader, mut writer) = pair().await;
        let mut events = qmp.events();
        let (answer, ()) = tokio::join!(qmp.run("query-status", json!({})), async {
            let asked = request(&mut reader).await;
            assert_eq!(asked["execute"], "query-status");
            assert!(asked.get("arguments").is_none());
            let lines = format!(
                "{{\"event\": \"RESET\", \"timestamp\": {{}}}}\n{{\"return\": {{\"status\": \"running\"}}, \"id\": {}}}\n",
                asked["id"]
            );
            writer.write_all(lines.as_bytes()).await.unwrap();
        });
        assert_eq!(answer.unwrap()["status"], "running");
        assert_eq!(events.recv().await.unwrap(), "RESET");
    }

    #[tokio::test]
    async fn a_refusal_and_a_hang_up_are_errors() {
        let (qmp, mut reader, mut writer) = pair().await;
        let (answer, ()) = tokio::join!(qmp.set_property("nic0", "bootindex", json!(0)), async {
            let asked = request(&mut reader).await;
            assert_eq!(asked["arguments"]["path"], "/machine/peripheral/nic0");
            let line = format!("{{\"error\": {{\"class\": \"X\", \"desc\": \"no such\"}}, \"id\": {}}}\n", asked["id"]);
            writer.write_all(line.as_bytes()).await.unwrap();
        });
        assert!(matches!(answer, Err(QmpError::Refused { message, .. }) if message == "no such"));
        let (answer, ()) = tokio::join!(qmp.run("cont", json!({})), async {
            request(&mut reader).await;
            drop((reader, writer));
        });
        assert!(matches!(answer, Err(QmpError::Closed | QmpError::Io(_))));
    }
}
