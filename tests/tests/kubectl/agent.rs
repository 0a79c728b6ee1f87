//! An appliance that serves machines too, and an agent that speaks to it without a machine below it.
//!
//! ```text
//!   the test's thread, in a network namespace of its own
//!     s0 10.77.0.1 ── veth ── c0      firesteel serve, kubectl, the agent: all by 10.77.0.1
//! ```

use std::time::{Duration, Instant};

use firesteel_tests::agent_line::AgentLine;
use firesteel_tests::network::with_appliance;
use firesteel_wire::{LogLine, LogSource, Program};
use tokio::runtime::Runtime;

use crate::client::{Kubectl, Version};

pub(crate) const MAC: &str = "52:54:00:77:02:01";
/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test with a kubectl of this version and such an appliance, in a network namespace that ends with it.
pub(crate) fn with_machines(version: Version, test: fn(&Kubectl)) {
    if !version.is_here() {
        return;
    }
    with_appliance(env!("CARGO_BIN_EXE_firesteel-tested"), move |appliance| test(&Kubectl::new(version, appliance)));
}

/// An agent that has said hello.
pub(crate) struct Agent {
    runtime: Runtime,
    line: AgentLine,
    lines: u64,
}

impl Agent {
    /// Boots a machine of a host with this [`MAC`], as soon as the appliance knows the host.
    pub(crate) fn boot(kubectl: &Kubectl) -> Self {
        // On this thread alone, so that its sockets are in this namespace.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let line = AgentLine::new(&kubectl.appliance.data(), MAC, 1);
        let mut agent = Self { runtime, line, lines: 0 };
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let said = agent.runtime.block_on(agent.line.come(Program::default()));
            match said.as_ref().map(|answer| answer.status().as_u16()) {
                Some(200) => return agent,
                // A machine that asked for its script before its host was known boots again.
                None | Some(410) => {}
                Some(_) => panic!("hello: {said:?}"),
            }
            assert!(Instant::now() < ends_at, "no boot script has a token:\n{}", kubectl.appliance.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Reports these lines.
    pub(crate) fn report(&mut self, lines: &[(LogSource, &str)]) {
        let numbered = (self.lines + 1..).zip(lines);
        let log = numbered.map(|(sequence, (source, text))| LogLine {
            sequence,
            uptime_ms: 1000,
            source: *source,
            severity: 6,
            text: (*text).to_owned(),
        });
        let mut report = self.line.next_report();
        report.log = log.collect();
        self.lines += lines.len() as u64;
        let answer = self.runtime.block_on(self.line.report(&report));
        assert_eq!(answer.status(), 200, "{answer:?}");
    }
}
