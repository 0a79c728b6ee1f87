//! One NVMe controller with the namespaces that the plan names.

use std::collections::BTreeSet;

use anyhow::Context;
use firesteel_drives::nvme::{
    Controller, IDENTIFY_BYTES, Identify, Namespace, NvmeSanitizeAction, NvmeSanitizeProgress, SANITIZE_LOG_BYTES,
    SanitizeLog, SecureErase, controller, decode_sanitize_log, format, identify, namespace, namespace_list, sanitize,
    sanitize_log,
};
use firesteel_drives::port::{Data, Port};
use firesteel_sysfs::attach::BlockQueueLimits;

use crate::disk_erasure::MethodFailure;
use crate::drive::{Drive, DriveCommandProgress, Poll, fell, offer};
use crate::ladder::{Abilities, EraseReach, ErasureMethod, MethodOffer};

/// Pages of namespace lists that are read: 1024 namespaces each, and no drive has more.
const LIST_PAGES_MAX: usize = 4;

pub struct NvmeDrive<'a> {
    pub port: &'a dyn Port,
    /// The namespaces that the plan names; never empty.
    pub planned: &'a BTreeSet<u32>,
    pub queue: BlockQueueLimits,
}

impl std::fmt::Debug for NvmeDrive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NvmeDrive").field("planned", &self.planned).finish_non_exhaustive()
    }
}

impl NvmeDrive<'_> {
    fn identify(&self, what: Identify) -> anyhow::Result<Vec<u8>> {
        let mut data = vec![0; IDENTIFY_BYTES];
        self.port.nvme(&identify(what), Data::In(&mut data)).with_context(|| format!("identifying {what:?}"))?;
        Ok(data)
    }

    fn controller(&self) -> anyhow::Result<Controller> {
        controller(&self.identify(Identify::Controller)?).context("the controller's identification is cut")
    }

    fn namespace(&self, nsid: u32) -> anyhow::Result<Namespace> {
        namespace(&self.identify(Identify::Namespace(nsid))?)
            .with_context(|| format!("namespace {nsid} is not one that can be formatted"))
    }

    fn log(&self) -> anyhow::Result<SanitizeLog> {
        let mut data = vec![0; SANITIZE_LOG_BYTES];
        self.port.nvme(&sanitize_log(), Data::In(&mut data)).context("reading the sanitize log")?;
        decode_sanitize_log(&data).context("the sanitize log is cut")
    }

    fn list(&self, page: impl Fn(u32) -> Identify) -> anyhow::Result<BTreeSet<u32>> {
        let mut all = BTreeSet::new();
        for _ in 0..LIST_PAGES_MAX {
            let found = namespace_list(&self.identify(page(all.last().copied().unwrap_or(0)))?);
            let is_full = found.len() == IDENTIFY_BYTES / 4;
            all.extend(found);
            if !is_full {
                break;
            }
        }
        Ok(all)
    }

    /// What a command to the whole subsystem reaches.
    fn reach(&self, controller: &Controller) -> anyhow::Result<EraseReach> {
        let active = self.list(|above| Identify::ActiveNamespaces { above })?;
        if controller.manages_namespaces {
            let allocated = self.list(|above| Identify::AllocatedNamespaces { above })?;
            return Ok(EraseReach::Namespaces(active.union(&allocated).copied().collect()));
        }
        if controller.has_siblings {
            let why = "the subsystem has other controllers, and this one does not report which namespaces they have";
            return Ok(EraseReach::Unknown(why.to_owned()));
        }
        Ok(EraseReach::Namespaces(active))
    }

    fn sanitize(&self, action: NvmeSanitizeAction) -> Result<DriveCommandProgress, MethodFailure> {
        self.port.nvme(&sanitize(action), Data::None).map(|_| DriveCommandProgress::Running).map_err(fell)
    }

    fn format(&self, erase: SecureErase) -> Result<DriveCommandProgress, MethodFailure> {
        let formats_all = self.controller().map_err(fell)?.formats_all;
        let once = if formats_all { 1 } else { self.planned.len() };
        for nsid in self.planned.iter().take(once) {
            let namespace = self.namespace(*nsid).map_err(fell)?;
            self.port.nvme(&format(*nsid, &namespace, erase), Data::None).map_err(fell)?;
        }
        Ok(DriveCommandProgress::Ended("NVMe Format completed; the drive keeps no log of it".to_owned()))
    }
}

impl Drive for NvmeDrive<'_> {
    fn examine(&self) -> anyhow::Result<Abilities> {
        let controller = self.controller()?;
        let subsystem = self.reach(&controller)?;
        let format_reach = if controller.formats_all { subsystem.clone() } else { EraseReach::Disk };
        let known = [
            (ErasureMethod::SanitizeCrypto, controller.sanitize_crypto, &subsystem),
            (ErasureMethod::SanitizeBlock, controller.sanitize_block, &subsystem),
            (ErasureMethod::SanitizeOverwrite, controller.sanitize_overwrite, &subsystem),
            (ErasureMethod::FormatCrypto, controller.knows_format && controller.formats_crypto, &format_reach),
            (ErasureMethod::FormatUserData, controller.knows_format, &format_reach),
        ];
        let offers = known.into_iter().filter(|(_, is_known, _)| *is_known);
        let offers = offers.map(|(method, _, reach)| MethodOffer { method, reach: reach.clone(), barred: None });
        let busy = controller.can_sanitize() && self.log()?.state == NvmeSanitizeProgress::Running;
        let unallocated = controller.unallocated_bytes;
        Ok(Abilities {
            offers: offers.chain(offer(self.queue)).collect(),
            rotational: self.queue.rotational,
            busy,
            hidden: (unallocated > 0)
                .then(|| format!("{unallocated} bytes that belong to no namespace"))
                .into_iter()
                .collect(),
            closed: None,
        })
    }

    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure> {
        match method {
            ErasureMethod::SanitizeCrypto => self.sanitize(NvmeSanitizeAction::Crypto),
            ErasureMethod::SanitizeBlock => self.sanitize(NvmeSanitizeAction::Block),
            ErasureMethod::SanitizeOverwrite => self.sanitize(NvmeSanitizeAction::Overwrite),
            ErasureMethod::FormatCrypto => self.format(SecureErase::Crypto),
            ErasureMethod::FormatUserData => self.format(SecureErase::UserData),
            ErasureMethod::SecureEraseEnhanced
            | ErasureMethod::SecureErase
            | ErasureMethod::WriteZeroes
            | ErasureMethod::Overwrite
            | ErasureMethod::Metadata => Err(MethodFailure::Fell(format!("NVMe has no command for {method}"))),
        }
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        let log = self.log()?;
        Ok(match log.state {
            NvmeSanitizeProgress::Running => Poll::Running { progress: Some(log.progress) },
            NvmeSanitizeProgress::Completed => Poll::Ended(log.to_string()),
            NvmeSanitizeProgress::Failed => {
                // Left at once: until then the drive takes no reads and writes.
                let left = self.undo_incomplete_erasure().err().map(|error| format!("; {error:#}")).unwrap_or_default();
                Poll::Failed(format!("{log}{left}"))
            }
            NvmeSanitizeProgress::Never => Poll::Idle,
            NvmeSanitizeProgress::Unknown(_) => Poll::Failed(log.to_string()),
        })
    }

    fn undo_incomplete_erasure(&self) -> anyhow::Result<()> {
        if !self.controller()?.can_sanitize() || self.log()?.state != NvmeSanitizeProgress::Failed {
            return Ok(());
        }
        let left = self.port.nvme(&sanitize(NvmeSanitizeAction::ExitFailureMode), Data::None);
        left.map(drop).context("a sanitize failed, and the drive refuses to leave its failure mode: replace it")
    }
}
