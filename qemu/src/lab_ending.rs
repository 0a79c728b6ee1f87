//! How work in machines ends: by itself, or because a person or a supervisor ends it.

use std::{future::Future, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};

use crate::progress::print_status;

/// 128 + SIGINT, as shells say it.
const INTERRUPTED: u8 = 130;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabEnding {
    Done,
    Interrupted,
}

impl LabEnding {
    #[must_use]
    pub fn code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(INTERRUPTED),
        }
    }
}

/// Drops the work, and with it all machines, when a signal comes.
pub async fn unless_interrupted(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<LabEnding> {
    tokio::select! {
        done = work => done.map(|()| LabEnding::Done),
        () = interrupted() => {
            print_status("interrupted: switching everything off");
            Ok(LabEnding::Interrupted)
        }
    }
}

pub async fn interrupted() {
    let mut waits = Vec::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        if let Ok(mut stream) = signal(kind) {
            waits.push(Box::pin(async move { stream.recv().await }));
        }
    }
    futures_util::future::select_all(waits).await;
}
