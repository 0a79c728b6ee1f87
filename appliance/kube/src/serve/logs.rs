//! `kubectl logs`: the lines of a pod's container, as text. Where they come from is the owner's
//! matter ([`Logs`]); what of them is asked for is decided here, without a clock.

pub use crate::model::log_options::{LogOptions, PodLogLine};

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::codec::body::Body;

/// What waits for lines.
pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where lines are kept. What is not kept any more is left out.
pub trait Logs: fmt::Debug + Send + Sync {
    /// The lines of a pod's container after a number, oldest first.
    fn lines(&self, pod: &Pod<'_>, after: u64) -> Vec<PodLogLine>;

    /// Ends when there may be a line after a number; may end early.
    fn more(&self, pod: &Pod<'_>, after: u64) -> Waiting;
}

/// Which container of which pod.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub container: &'a str,
}

/// The lines on their way to one client. It takes them as fast as it likes; those that are not kept
/// so long it does not get.
struct PodLogStream {
    logs: Arc<dyn Logs>,
    /// Namespace, name, container.
    pod: [String; 3],
    options: LogOptions,
    queue: VecDeque<PodLogLine>,
    after: u64,
    bytes_left: u64,
    end: Instant,
}

/// A log as the body of an answer. One that is followed ends after `lasts`.
pub(crate) fn body(logs: Arc<dyn Logs>, pod: Pod<'_>, options: LogOptions, now: Timestamp, lasts: Duration) -> Body {
    let lines = logs.lines(&pod, 0);
    let after = lines.last().map_or(0, |line| line.number);
    let queue = options.select(lines, now).into();
    let bytes_left = options.limit_bytes.unwrap_or(u64::MAX);
    let pod = [pod.namespace, pod.name, pod.container].map(str::to_owned);
    let reading = PodLogStream { logs, pod, options, queue, after, bytes_left, end: Instant::now() + lasts };
    let frames = futures_util::stream::unfold(reading, |mut reading| async {
        let text = reading.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(text)), reading))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl PodLogStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.bytes_left == 0 {
                return None;
            }
            if let Some(line) = self.queue.pop_front() {
                let mut text = self.options.text(&line).into_bytes();
                text.truncate(usize::try_from(self.bytes_left).unwrap_or(usize::MAX));
                self.bytes_left -= u64::try_from(text.len()).unwrap_or(u64::MAX).min(self.bytes_left);
                return Some(text.into());
            }
            if !self.options.follow {
                return None;
            }
            let [namespace, name, container] = &self.pod;
            let pod = Pod { namespace, name, container };
            // Asked for before the look, so that what comes in between is heard.
            let more = self.logs.more(&pod, self.after);
            self.queue = self.logs.lines(&pod, self.after).into();
            match self.queue.back() {
                Some(last) => self.after = last.number,
                None => tokio::time::timeout_at(self.end, more).await.ok()?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::json;
    use std::sync::Mutex;
    use tokio::sync::Notify;

    fn line(number: u64) -> PodLogLine {
        let at = Timestamp::from_second(i64::try_from(number).unwrap() * 10).unwrap();
        PodLogLine { number, at, text: format!("line {number}") }
    }

    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<PodLogLine>>, Arc<Notify>);

    impl Logs for Kept {
        fn lines(&self, _: &Pod<'_>, after: u64) -> Vec<PodLogLine> {
            self.0.lock().unwrap().iter().filter(|line| line.number > after).cloned().collect()
        }

        fn more(&self, _: &Pod<'_>, _: u64) -> Waiting {
            let changed = Arc::clone(&self.1).notified_owned();
            Box::pin(changed)
        }
    }

    fn options(query: &str) -> LogOptions {
        let mut options = LogOptions::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            options.set(key, value).unwrap();
        }
        options
    }

    async fn text(options: LogOptions) -> String {
        let kept = Kept::default();
        kept.0.lock().unwrap().extend((1..=4).map(line));
        let pod = Pod { namespace: "a", name: "b", container: "c" };
        let now = Timestamp::from_second(50).unwrap();
        let body = body(Arc::new(kept), pod, options, now, Duration::ZERO);
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_part_of_the_lines_is_told() {
        assert_eq!(text(options("")).await, "line 1\nline 2\nline 3\nline 4\n");
        assert_eq!(text(options("tailLines=1")).await, "line 4\n");
        assert_eq!(text(options("tailLines=0")).await, "");
        assert_eq!(text(options("sinceSeconds=20")).await, "line 3\nline 4\n");
        assert_eq!(text(options("sinceTime=1970-01-01T00:00:40Z")).await, "line 4\n");
        assert_eq!(text(options("limitBytes=10")).await, "line 1\nlin");
        assert_eq!(text(options("tailLines=1&timestamps=true")).await, "1970-01-01T00:00:40.000000000Z line 4\n");
        assert_eq!(text(options("follow=true&tailLines=1")).await, "line 4\n", "it ends when its time is over");
    }

    #[tokio::test]
    async fn who_follows_gets_what_comes() {
        let kept = Arc::new(Kept::default());
        kept.0.lock().unwrap().push(line(1));
        let pod = Pod { namespace: "a", name: "b", container: "c" };
        let lasts = Duration::from_secs(3600);
        let mut body = body(kept.clone(), pod, options("follow=true"), Timestamp::UNIX_EPOCH, lasts);
        let next = async |body: &mut Body| body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(next(&mut body).await, "line 1\n");
        kept.0.lock().unwrap().extend([line(2), line(5)]);
        assert_eq!(next(&mut body).await, "line 2\n");
        assert_eq!(next(&mut body).await, "line 5\n");
        let add = async {
            tokio::task::yield_now().await;
            kept.0.lock().unwrap().push(line(6));
            kept.1.notify_waiters();
        };
        assert_eq!(tokio::join!(next(&mut body), add).0, "line 6\n");
    }

    #[test]
    fn containers_are_named_or_the_first() {
        let pod = json!({ "metadata": { "name": "h" }, "spec": { "containers": [{ "name": "x" }, { "name": "y" }] } });
        assert_eq!(options("").container(&pod).unwrap(), "x");
        assert_eq!(options("container=y").container(&pod).unwrap(), "y");
        let wrong = options("container=z").container(&pod).unwrap_err();
        assert_eq!((wrong.code, wrong.message.as_str()), (400, "container z is not valid for pod h"));
        assert_eq!(options("previous=true").container(&pod).unwrap_err().code, 400);
        for (key, value, code) in [("tailLines", "-1", 422), ("follow", "maybe", 400), ("sinceTime", "x", 400)] {
            assert_eq!(LogOptions::default().set(key, value).unwrap_err().code, code, "{key}");
        }
    }
}
