//! What the appliance saw of each boot, and whether a hello counts.

use firesteel_facts::Sha256;
use std::{ops::Range, sync::Arc};

use firesteel_boot::{
    BootAsker, BootFileName, BootSeal, BootTokenClaims, Observation, Purpose, ServedBootFiles, UnseenBoot,
};
use firesteel_resources::host_journal::HostJournalStatus;
use firesteel_wire::Hello;

use crate::boot_record::{self, BootStage, StageNote};
use crate::shared::{Shared, unix_milliseconds};
use crate::{discovery_token::mac_of, network_log::NetworkLog};

/// Observes boots.
#[derive(Clone)]
pub struct BootObserver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) network: NetworkLog,
    pub(crate) boot_files: ServedBootFiles,
}

impl BootObserver {
    /// Seals the files that belong to another token of the boot that these claims are of.
    pub(crate) fn seal_boot(&self, claims: &BootTokenClaims, asker: BootAsker) -> BootSeal {
        let files = &self.boot_files.current;
        let now_ms = unix_milliseconds(self.shared.now());
        let grant = self.with_observation(claims, |boot| boot.grant(now_ms)).unwrap_or(now_ms);
        BootSeal { grant, asker, kernel: files.kernel.sha256, initramfs: files.initramfs.sha256, agent: files.agent }
    }

    /// Takes in that bytes of a boot file were handed to the connection of who has this token. Returns whether the file
    /// is whole by it, for the first time.
    pub fn boot_bytes_sent(&self, claims: &BootTokenClaims, file: BootFileName, range: Range<u64>) -> bool {
        let Some(seal) = &claims.boot else { return false };
        let Some(files) = self.boot_files.of(seal) else { return false };
        let is_empty = range.is_empty();
        let is_whole = self.with_observation(claims, |boot| boot.sent(seal.grant, file, range, files));
        if let Some(mac) = mac_of(claims).filter(|_| claims.purpose == Purpose::Discovery && !is_empty) {
            self.shared.views().stranger_boots.has_fetched(mac);
        }
        if is_whole == Some(true) {
            self.note_boot_stage(claims, BootStage::Sent(file), files.file(file).bytes);
        }
        is_whole == Some(true)
    }

    /// Takes in what was sent for this token by what is written in the host's journal.
    pub(crate) fn recall_boot(&self, claims: &BootTokenClaims, journal: &HostJournalStatus) {
        let Some(seal) = &claims.boot else { return };
        let Some(files) = self.boot_files.of(seal) else { return };
        for file in boot_record::sent_files(journal, claims.attempt, seal) {
            let whole = 0..files.file(file).bytes;
            self.with_observation(claims, |boot| boot.sent(seal.grant, file, whole, files));
        }
    }

    /// Has a stage of a host's boot written; nothing is written of other machines.
    pub(crate) fn note_boot_stage(&self, claims: &BootTokenClaims, stage: BootStage, bytes: u64) {
        let key = self.shared.views().by_uid.get(&claims.subject).cloned();
        if let (Some(key), Some(seal)) = (key, claims.boot) {
            self.network
                .note_stage(&key, StageNote { at: self.shared.now(), attempt: claims.attempt, seal, stage, bytes });
        }
    }

    /// Whether no other token was made of this attempt, as far as is known.
    pub(crate) fn is_first_grant(&self, claims: &BootTokenClaims) -> bool {
        self.with_observation(claims, |boot| boot.grants() <= 1).unwrap_or(true)
    }

    /// Decides whether a first hello with this token counts.
    pub(crate) fn hello_counts(&self, claims: &BootTokenClaims, hello: &Hello) -> Result<(), UnseenBoot> {
        let mut agent = [0; 32];
        // Older agents do not say what they are.
        let said = hex::decode_to_slice(&hello.program.sha256, &mut agent).is_ok().then_some(Sha256(agent));
        let judge = |boot: &Observation| boot.hello(claims.boot.as_ref(), &self.boot_files, said);
        let views = self.shared.views();
        let none = Observation::default();
        let boot = match claims.purpose {
            Purpose::Discovery => mac_of(claims).and_then(|mac| views.stranger_boots.get(mac, claims.attempt)),
            Purpose::Agent => {
                let view = views.by_uid.get(&claims.subject).and_then(|key| views.hosts.get(key));
                view.map(|view| &view.observation).filter(|boot| boot.attempt() == claims.attempt)
            }
            Purpose::Instance => None,
        };
        judge(boot.unwrap_or(&none))
    }

    /// Looks into the observation of the boot that these claims are of; nothing where it is over.
    fn with_observation<T>(&self, claims: &BootTokenClaims, look: impl FnOnce(&mut Observation) -> T) -> Option<T> {
        let now = self.shared.now();
        let mut views = self.shared.views();
        match claims.purpose {
            Purpose::Discovery => {
                let mac = mac_of(claims)?;
                Some(look(views.stranger_boots.boot(mac, claims.attempt, now)))
            }
            Purpose::Agent => {
                let view = views.host_of(&claims.subject)?;
                if view.observation.attempt() < claims.attempt {
                    // Not asked for since the appliance started.
                    view.observation = Observation::of(claims.attempt);
                }
                (view.observation.attempt() == claims.attempt).then(|| look(&mut view.observation))
            }
            Purpose::Instance => None,
        }
    }
}
