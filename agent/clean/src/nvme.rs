//! One NVMe controller with the namespaces that the plan names.

use std::collections::BTreeSet;

use anyhow::Context;
use firesteel_drives::{
    nvme::{
        Action, Controller, IDENTIFY_BYTES, Identify, Namespace, SANITIZE_LOG_BYTES, SanitizeLog, SecureErase, State,
        controller, decode_sanitize_log, format, identify, namespace, namespace_list, sanitize, sanitize_log,
    },
    port::{Data, Port},
};
use firesteel_sysfs::attach::Queue;

use crate::{
    climb::Fall,
    drive::{Begun, Drive, Poll, fell, offer},
    ladder::{Abilities, Method, Offer, Reach},
};

/// Pages of namespace lists that are read: 1024 namespaces each, and no drive has more.
const LIST_PAGES_MAX: usize = 4;

pub struct NvmeDrive<'a> {
    pub port: &'a dyn Port,
    /// The namespaces that the plan names; never empty.
    pub planned: &'a BTreeSet<u32>,
    pub queue: Queue,
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
    fn reach(&self, controller: &Controller) -> anyhow::Result<Reach> {
        let active = self.list(|above| Identify::ActiveNamespaces { above })?;
        if controller.manages_namespaces {
            let allocated = self.list(|above| Identify::AllocatedNamespaces { above })?;
            return Ok(Reach::Namespaces(active.union(&allocated).copied().collect()));
        }
        if controller.has_siblings {
            let why = "the subsystem has other controllers, and this one does not tell which namespaces they have";
            return Ok(Reach::Unknown(why.to_owned()));
        }
        Ok(Reach::Namespaces(active))
    }

    fn sanitize(&self, action: Action) -> Result<Begun, Fall> {
        self.port.nvme(&sanitize(action), Data::None).map(|_| Begun::Running).map_err(fell)
    }

    fn format(&self, erase: SecureErase) -> Result<Begun, Fall> {
        let formats_all = self.controller().map_err(fell)?.formats_all;
        let once = if formats_all { 1 } else { self.planned.len() };
        for nsid in self.planned.iter().take(once) {
            let namespace = self.namespace(*nsid).map_err(fell)?;
            self.port.nvme(&format(*nsid, &namespace, erase), Data::None).map_err(fell)?;
        }
        Ok(Begun::Ended("NVMe Format completed; the drive keeps no log of it".to_owned()))
    }
}

impl Drive for NvmeDrive<'_> {
    fn examine(&self) -> anyhow::Result<Abilities> {
        let controller = self.controller()?;
        let subsystem = self.reach(&controller)?;
        let format_reach = if controller.formats_all { subsystem.clone() } else { Reach::Disk };
        let known = [
            (Method::SanitizeCrypto, controller.sanitize_crypto, &subsystem),
            (Method::SanitizeBlock, controller.sanitize_block, &subsystem),
            (Method::SanitizeOverwrite, controller.sanitize_overwrite, &subsystem),
            (Method::FormatCrypto, controller.knows_format && controller.formats_crypto, &format_reach),
            (Method::FormatUserData, controller.knows_format, &format_reach),
        ];
        let offers = known.into_iter().filter(|(_, is_known, _)| *is_known);
        let offers = offers.map(|(method, _, reach)| Offer { method, reach: reach.clone(), barred: None });
        let busy = controller.can_sanitize() && self.log()?.state == State::Running;
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

    fn erase(&self, method: Method) -> Result<Begun, Fall> {
        match method {
            Method::SanitizeCrypto => self.sanitize(Action::Crypto),
            Method::SanitizeBlock => self.sanitize(Action::Block),
            Method::SanitizeOverwrite => self.sanitize(Action::Overwrite),
            Method::FormatCrypto => self.format(SecureErase::Crypto),
            Method::FormatUserData => self.format(SecureErase::UserData),
            Method::SecureEraseEnhanced
            | Method::SecureErase
            | Method::WriteZeroes
            | Method::Overwrite
            | Method::Metadata => Err(Fall::Fell(format!("NVMe has no command for {method}"))),
        }
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        let log = self.log()?;
        Ok(match log.state {
            State::Running => Poll::Running { progress: Some(log.progress) },
            State::Completed => Poll::Ended(log.to_string()),
            State::Failed => {
                // Left at once: until then the drive takes no reads and writes.
                let left = self.settle().err().map(|error| format!("; {error:#}")).unwrap_or_default();
                Poll::Failed(format!("{log}{left}"))
            }
            State::Never => Poll::Idle,
            State::Unknown(_) => Poll::Failed(log.to_string()),
        })
    }

    fn settle(&self) -> anyhow::Result<()> {
        if !self.controller()?.can_sanitize() || self.log()?.state != State::Failed {
            return Ok(());
        }
        let left = self.port.nvme(&sanitize(Action::ExitFailureMode), Data::None);
        left.map(drop).context("a sanitize failed, and the drive refuses to leave its failure mode: replace it")
    }
}
