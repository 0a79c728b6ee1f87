//! The stages of a host's boot that count as evidence, on their way into its journal. Pure.
//!
//! ```text
//!   a token was made ─────────────────────► Script    ┐
//!   all bytes of the kernel were sent ────► Kernel    ├─► record: once for each attempt, in record and timeline
//!   all bytes of the initramfs were sent ─► Initramfs ┘
//! ```
//!
//! Each is written once for an attempt, of the first token that gets so far: a loader that tries again writes nothing.
//! After a restart of the appliance a hello counts by what is written.

use firesteel_boot::{BootAsker, BootFileName, BootSeal};
use firesteel_plan::journal;
use firesteel_resources::host_journal::{BootRecord, HostJournalStatus, SentFileRecord};
use firesteel_runtime::event;
use jiff::Timestamp;

/// A stage that the boot of a token came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootStage {
    Script,
    Sent(BootFileName),
}

/// A stage, and which token of which attempt came to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageNote {
    pub(crate) at: Timestamp,
    pub(crate) attempt: u64,
    pub(crate) seal: BootSeal,
    pub(crate) stage: BootStage,
    pub(crate) bytes: u64,
}

impl StageNote {
    fn name(&self) -> &'static str {
        match self.stage {
            BootStage::Script => "script",
            BootStage::Sent(BootFileName::Kernel) => "kernel",
            BootStage::Sent(BootFileName::Initramfs) => "initramfs",
        }
    }

    /// Takes a stage of the host's current attempt into its journal, unless it is there.
    pub(crate) fn record(&self, status: &mut HostJournalStatus) {
        if journal::attempt(status) != self.attempt {
            return;
        }
        let known = status.boot.take().filter(|boot| boot.attempt == self.attempt);
        let mut boot = known.unwrap_or_else(|| begun(self.attempt, &self.seal));
        let sent = SentFileRecord { grant: self.seal.grant, at: self.at };
        let is_news = match self.stage {
            BootStage::Script => boot.script_at.is_none().then(|| boot.script_at = Some(self.at)).is_some(),
            BootStage::Sent(BootFileName::Kernel) => boot.kernel.is_none().then(|| boot.kernel = Some(sent)).is_some(),
            BootStage::Sent(BootFileName::Initramfs) => {
                boot.initramfs.is_none().then(|| boot.initramfs = Some(sent)).is_some()
            }
        };
        if is_news {
            let detail = match (self.stage, self.seal.asker) {
                (BootStage::Script, BootAsker::Leased(address)) => format!("to {address}, which is leased to the host"),
                (BootStage::Script, BootAsker::First(address)) => format!("to {address}, which asked first"),
                (BootStage::Sent(_), _) => String::new(),
            };
            let mut stage = event(self.at, self.attempt, self.name(), detail);
            stage.bytes = Some(self.bytes);
            status.note(stage);
        }
        status.boot = Some(boot);
    }
}

/// Takes a hello that counts into the record: from then on the boot is the one of its token.
pub(crate) fn note_hello(status: &mut HostJournalStatus, attempt: u64, seal: &BootSeal, now: Timestamp) {
    let known = status.boot.take().filter(|boot| boot.attempt == attempt).unwrap_or_default();
    status.boot = Some(BootRecord {
        script_at: known.script_at,
        kernel: known.kernel,
        initramfs: known.initramfs,
        hello_at: Some(now),
        ..begun(attempt, seal)
    });
}

fn begun(attempt: u64, seal: &BootSeal) -> BootRecord {
    let (address, by) = match seal.asker {
        BootAsker::Leased(address) => (address, BootRecord::BY_LEASE),
        BootAsker::First(address) => (address, BootRecord::BY_FIRST),
    };
    BootRecord {
        attempt,
        address: address.to_string(),
        by: by.to_owned(),
        kernel_sha256: seal.kernel.to_string(),
        initramfs_sha256: seal.initramfs.to_string(),
        agent_sha256: seal.agent.map(|agent| agent.to_string()).unwrap_or_default(),
        ..BootRecord::default()
    }
}

/// Lists the files that were sent whole for this token by what is written: what was not written before a kill counts as
/// not sent.
pub(crate) fn sent_files(status: &HostJournalStatus, attempt: u64, seal: &BootSeal) -> Vec<BootFileName> {
    let Some(boot) = status.boot.as_ref().filter(|boot| boot.attempt == attempt) else { return Vec::new() };
    let is_of =
        (&boot.kernel_sha256, &boot.initramfs_sha256) == (&seal.kernel.to_string(), &seal.initramfs.to_string());
    let files = [(BootFileName::Kernel, &boot.kernel), (BootFileName::Initramfs, &boot.initramfs)];
    let was_sent = |sent: &Option<SentFileRecord>| is_of && sent.as_ref().is_some_and(|sent| sent.grant == seal.grant);
    files.into_iter().filter(|(_, sent)| was_sent(sent)).map(|(file, _)| file).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_facts::Sha256;

    use super::*;

    fn note(stage: BootStage, grant: u64, second: i64) -> StageNote {
        let seal = BootSeal {
            grant,
            asker: BootAsker::Leased([10, 77, 0, 100].into()),
            kernel: Sha256([1; 32]),
            initramfs: Sha256([2; 32]),
            agent: None,
        };
        StageNote { at: Timestamp::from_second(second).unwrap(), attempt: 4, seal, stage, bytes: 100 }
    }

    fn journal() -> HostJournalStatus {
        HostJournalStatus { memory: serde_json::json!({"attempt": 4}), ..HostJournalStatus::default() }
    }

    const KERNEL: BootStage = BootStage::Sent(BootFileName::Kernel);
    const INITRAMFS: BootStage = BootStage::Sent(BootFileName::Initramfs);

    #[test]
    fn each_stage_is_written_once_for_an_attempt() {
        let mut status = journal();
        for (stage, second) in [(BootStage::Script, 1), (KERNEL, 2), (INITRAMFS, 3)] {
            note(stage, 7, second).record(&mut status);
            let before = status.clone();
            note(stage, 7, second + 100).record(&mut status);
            note(stage, 8, second + 200).record(&mut status);
            assert_eq!(status, before, "{stage:?} again");
        }
        let names: Vec<_> = status.timeline.iter().map(|event| event.event.as_str()).collect();
        assert_eq!(names, ["script", "kernel", "initramfs"]);
        assert_eq!(status.timeline[0].detail, "to 10.77.0.100, which is leased to the host");
        let boot = status.boot.unwrap();
        assert_eq!((boot.address.as_str(), boot.by.as_str()), ("10.77.0.100", "lease"));
    }

    #[test]
    fn stages_of_another_attempt_are_not_written_and_a_new_attempt_begins_with_nothing() {
        let mut status = journal();
        note(KERNEL, 7, 1).record(&mut status);
        let old = StageNote { attempt: 3, ..note(INITRAMFS, 6, 2) };
        old.record(&mut status);
        assert!(status.boot.as_ref().unwrap().initramfs.is_none());
        status.memory = serde_json::json!({"attempt": 5});
        StageNote { attempt: 5, ..note(BootStage::Script, 9, 3) }.record(&mut status);
        let boot = status.boot.unwrap();
        assert_eq!((boot.attempt, boot.kernel), (5, None));
    }

    /// A neighbour may have got another token of the same attempt, and an upgrade other files.
    #[test]
    fn the_record_is_of_the_token_whose_hello_counted() {
        let mut status = journal();
        note(BootStage::Script, 7, 1).record(&mut status);
        let first = BootAsker::First([10, 77, 0, 200].into());
        let seal = BootSeal { asker: first, kernel: Sha256([9; 32]), ..note(KERNEL, 8, 1).seal };
        let at = Timestamp::from_second(5).unwrap();
        note_hello(&mut status, 4, &seal, at);
        note(INITRAMFS, 7, 6).record(&mut status);
        let boot = status.boot.unwrap();
        assert_eq!((boot.by.as_str(), boot.address.as_str()), (BootRecord::BY_FIRST, "10.77.0.200"));
        assert_eq!((boot.kernel_sha256, boot.hello_at), (Sha256([9; 32]).to_string(), Some(at)));
        assert!(boot.script_at.is_some());

        let mut early = journal();
        note_hello(&mut early, 4, &seal, at);
        assert_eq!(early.boot.unwrap().hello_at, Some(at), "before its stages are stored");
    }

    #[test]
    fn what_is_not_written_was_not_sent() {
        let mut status = journal();
        let sealed = note(KERNEL, 7, 1).seal;
        assert_eq!(sent_files(&status, 4, &sealed), []);
        note(KERNEL, 7, 1).record(&mut status);
        assert_eq!(sent_files(&status, 4, &sealed), [BootFileName::Kernel]);
        note(INITRAMFS, 7, 2).record(&mut status);
        assert_eq!(sent_files(&status, 4, &sealed), [BootFileName::Kernel, BootFileName::Initramfs]);
        assert_eq!(sent_files(&status, 5, &sealed), [], "another attempt");
        assert_eq!(sent_files(&status, 4, &BootSeal { grant: 8, ..sealed }), [], "another token");
        assert_eq!(sent_files(&status, 4, &BootSeal { kernel: Sha256([9; 32]), ..sealed }), [], "other files");
    }
}
