//! What is asked for of a log.

use firesteel_kube_types::Cause;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::model::{parameter, status::Status};

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLogLine {
    /// Grows with each line of a container.
    pub number: u64,
    pub at: Timestamp,
    pub text: String,
}

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub container: Option<String>,
    pub tail_lines: Option<u64>,
    pub follow: bool,
    pub since_seconds: Option<i64>,
    pub since_time: Option<Timestamp>,
    pub timestamps: bool,
    pub limit_bytes: Option<u64>,
    pub previous: bool,
}

impl LogOptions {
    /// Takes a parameter of the query, if it is one of a log's.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Status> {
        let refuse = |expected: &str| {
            Err(Status::bad_request(format!("invalid value {value:?} of {key}: {expected} is expected")))
        };
        let number = || value.parse::<i64>();
        match key {
            "container" => self.container = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "tailLines" | "limitBytes" | "sinceSeconds" => {
                let Ok(number) = number() else { return refuse("a number") };
                match key {
                    "sinceSeconds" => self.since_seconds = Some(number),
                    _ => {
                        let Ok(number) = u64::try_from(number) else { return self.negative(key) };
                        let place = if key == "tailLines" { &mut self.tail_lines } else { &mut self.limit_bytes };
                        *place = Some(number);
                    }
                }
            }
            "sinceTime" => match value.parse() {
                Ok(time) => self.since_time = Some(time),
                Err(_) => return refuse("a time"),
            },
            "follow" | "timestamps" | "previous" => {
                let is_so = parameter::boolean(key, value)?;
                match key {
                    "follow" => self.follow = is_so,
                    "timestamps" => self.timestamps = is_so,
                    _ => self.previous = is_so,
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn negative(&self, key: &str) -> Result<(), Status> {
        let cause = Cause::invalid_json(key, &Value::from(-1), "must be greater than or equal to 0");
        Err(Status::invalid("", "PodLogOptions", "", vec![cause]))
    }

    /// Which container is meant: the first, where nothing is said.
    pub(crate) fn container<'a>(&self, pod: &'a Value) -> Result<&'a str, Status> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let mut containers = containers.filter_map(|container| container["name"].as_str());
        if self.previous {
            let asked = self.container.as_deref().or_else(|| containers.next()).unwrap_or_default();
            let message = format!("previous terminated container {asked:?} in pod {name:?} not found");
            return Err(Status::bad_request(message));
        }
        let found = match &self.container {
            Some(asked) => containers.find(|container| container == asked),
            None => containers.next(),
        };
        let asked = self.container.as_deref().unwrap_or_default();
        found.ok_or_else(|| Status::bad_request(format!("container {asked} is not valid for pod {name}")))
    }

    /// Those of the kept lines that are asked for. Pure.
    pub(crate) fn select(&self, lines: Vec<PodLogLine>, now: Timestamp) -> Vec<PodLogLine> {
        let seconds = self.since_seconds.map(|seconds| SignedDuration::from_secs(seconds.max(0)));
        let since = seconds.map(|seconds| now.checked_sub(seconds).unwrap_or(Timestamp::MIN));
        let since = since.max(self.since_time).unwrap_or(Timestamp::MIN);
        let mut lines: Vec<PodLogLine> = lines.into_iter().filter(|line| line.at >= since).collect();
        let tail = self.tail_lines.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        lines.drain(..lines.len().saturating_sub(tail));
        lines
    }

    pub(crate) fn text(&self, line: &PodLogLine) -> String {
        if self.timestamps { format!("{:.9} {}\n", line.at, line.text) } else { format!("{}\n", line.text) }
    }
}
