//! One ATA drive behind a SCSI-ATA translator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use firesteel_drives::ata::{
    AtaIdentifyData, AtaSanitize, AtaStatusRegisters, PASSWORD, SECTOR_BYTES, SanitizeState, Security, answer,
    configuration_overlay, decode_configuration_overlay, decode_identity, identify, native_max, sanitize,
    sanitize_state, security,
};
use firesteel_drives::port::{Cdb, Data, Port};
use firesteel_drives::scsi;
use firesteel_sysfs::attach::BlockQueueLimits;

use crate::disk_erasure::MethodFailure;
use crate::drive::{Drive, DriveCommandProgress, Poll, chain, fell, offer};
use crate::ladder::{Abilities, EraseReach, ErasureMethod, MethodOffer};

/// What a person can do about a frozen drive.
const FROZEN: &str = "the firmware froze the drive's security; power-cycle the drive, or switch the freeze off in the \
                      firmware's set-up";

pub struct AtaDrive<'a> {
    port: &'a dyn Port,
    queue: BlockQueueLimits,
    /// A password of ours may be set.
    is_ours: AtomicBool,
}

impl std::fmt::Debug for AtaDrive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtaDrive").field("is_ours", &self.is_ours).finish_non_exhaustive()
    }
}

impl<'a> AtaDrive<'a> {
    #[must_use]
    pub fn new(port: &'a dyn Port, queue: BlockQueueLimits) -> Self {
        Self { port, queue, is_ours: AtomicBool::new(false) }
    }

    fn identity(&self) -> anyhow::Result<AtaIdentifyData> {
        let mut data = [0; SECTOR_BYTES];
        self.send(&identify(), Data::In(&mut data)).context("identifying the drive")?;
        decode_identity(&data).context("the drive's identification has a wrong checksum")
    }

    /// A command that succeeds or fails, without registers.
    fn send(&self, command: &Cdb, data: Data<'_>) -> anyhow::Result<()> {
        let answer = self.port.scsi(command, data)?;
        if answer.status == scsi::GOOD {
            return Ok(());
        }
        match scsi::sense(&answer.sense) {
            Some(sense) => bail!("the drive refused it: {sense}"),
            None => bail!("the drive refused it with status {:#04x}", answer.status),
        }
    }

    /// A command whose registers come back.
    fn ask(&self, command: &Cdb) -> anyhow::Result<AtaStatusRegisters> {
        let said = self.port.scsi(command, Data::None)?;
        scsi::sense(&said.sense).as_ref().and_then(answer).context("the drive's registers did not come back")
    }

    fn security(&self, command: Security) -> anyhow::Result<()> {
        let (command, block) = security(command);
        match &block {
            Some(block) => self.send(&command, Data::Out(block)),
            None => self.send(&command, Data::None),
        }
    }

    fn sanitize_state(&self) -> anyhow::Result<SanitizeState> {
        Ok(sanitize_state(&self.ask(&sanitize(AtaSanitize::Status)).context("asking how the sanitize stands")?))
    }

    /// Areas beyond the blocks that reads and writes reach.
    fn hidden(&self, identity: &AtaIdentifyData) -> Vec<String> {
        let mut hidden = Vec::new();
        let mut end = identity.blocks;
        let mut add = |last: anyhow::Result<u64>, behind: &str| match last {
            Ok(last) if last.saturating_add(1) > end => {
                hidden.push(format!("{} blocks behind {behind}", last.saturating_add(1) - end));
                end = last.saturating_add(1);
            }
            Ok(_) => {}
            Err(error) => {
                hidden.push(format!("blocks behind {behind}, if there are any ({})", chain(error.as_ref())));
            }
        };
        if identity.has_host_protected_area {
            add(self.native_max(false), "a host protected area");
        }
        if identity.has_accessible_max {
            add(self.native_max(true), "an accessible maximum address");
        }
        if identity.has_configuration_overlay {
            add(self.overlay_max(), "a device configuration overlay");
        }
        hidden
    }

    fn native_max(&self, heir: bool) -> anyhow::Result<u64> {
        let answer = self.ask(&native_max(heir))?;
        if answer.is_error() {
            bail!("the drive did not report its native size");
        }
        Ok(answer.lba)
    }

    fn overlay_max(&self) -> anyhow::Result<u64> {
        let mut data = [0; SECTOR_BYTES];
        self.send(&configuration_overlay(), Data::In(&mut data))?;
        decode_configuration_overlay(&data).context("the answer is cut")
    }

    /// Password, prepare, erase: the erase itself takes the password away again. Whatever fails, the
    /// password goes before this returns, or the rung is stuck and says so.
    fn secure_erase(&self, enhanced: bool) -> Result<DriveCommandProgress, MethodFailure> {
        let before = self.identity().map_err(fell)?;
        if let Some(why) = bars_secure_erase(&before) {
            return Err(MethodFailure::Fell(why));
        }
        self.is_ours.store(true, Ordering::Relaxed);
        let timeout = before.timeout(enhanced);
        let erased = self
            .security(Security::SetPassword)
            .context("setting the password that an erase needs")
            .and_then(|()| self.security(Security::ErasePrepare).context("preparing the erase"))
            .and_then(|()| self.security(Security::Erase { enhanced, timeout }).context("erasing"));
        // A drive that says that it erased itself and kept the password did not.
        let kept = self.identity().map(|after| after.security.enabled);
        self.undo_incomplete_erasure().map_err(|error| MethodFailure::Stuck(chain(error.as_ref())))?;
        erased.map_err(fell)?;
        if kept.map_err(fell)? {
            return Err(MethodFailure::Fell("the drive ended the erase with its password still set".to_owned()));
        }
        Ok(DriveCommandProgress::Ended("ATA SECURITY ERASE UNIT completed; the drive keeps no log of it".to_owned()))
    }

    fn begin(&self, what: AtaSanitize) -> Result<DriveCommandProgress, MethodFailure> {
        let answer = self.ask(&sanitize(what)).map_err(fell)?;
        if answer.is_error() {
            return Err(match sanitize_state(&answer) {
                SanitizeState::Failed(why) => MethodFailure::Fell(why.to_owned()),
                SanitizeState::Frozen => MethodFailure::Fell("the drive is frozen against sanitizes".to_owned()),
                SanitizeState::Idle | SanitizeState::Running(_) | SanitizeState::Completed => {
                    MethodFailure::Fell("the drive refused it".to_owned())
                }
            });
        }
        Ok(DriveCommandProgress::Running)
    }
}

fn bars_secure_erase(identity: &AtaIdentifyData) -> Option<String> {
    let state = identity.security;
    if state.frozen {
        return Some(FROZEN.to_owned());
    }
    (state.enabled || state.locked).then(|| "the drive has a foreign password".to_owned())
}

impl Drive for AtaDrive<'_> {
    fn examine(&self) -> anyhow::Result<Abilities> {
        let identity = self.identity()?;
        let state = if identity.sanitize { self.sanitize_state()? } else { SanitizeState::Idle };
        let frozen = (state == SanitizeState::Frozen).then(|| FROZEN.replace("security", "sanitizes"));
        let barred = bars_secure_erase(&identity);
        let security = identity.security;
        let known = [
            (ErasureMethod::SanitizeCrypto, identity.sanitize_crypto, &frozen),
            (ErasureMethod::SanitizeBlock, identity.sanitize_block, &frozen),
            (ErasureMethod::SanitizeOverwrite, identity.sanitize_overwrite, &frozen),
            (ErasureMethod::SecureEraseEnhanced, security.supported && security.enhanced_erase, &barred),
            (ErasureMethod::SecureErase, security.supported, &barred),
        ];
        let offers = known.into_iter().filter(|(_, is_known, _)| *is_known);
        let offers =
            offers.map(|(method, _, barred)| MethodOffer { method, reach: EraseReach::Disk, barred: barred.clone() });
        let busy = matches!(state, SanitizeState::Running(_));
        Ok(Abilities {
            offers: offers.chain(offer(self.queue)).collect(),
            rotational: self.queue.rotational,
            busy,
            hidden: if busy { Vec::new() } else { self.hidden(&identity) },
            closed: security.locked.then(|| "the drive is locked with a foreign password".to_owned()),
        })
    }

    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure> {
        match method {
            ErasureMethod::SanitizeCrypto => self.begin(AtaSanitize::Crypto),
            ErasureMethod::SanitizeBlock => self.begin(AtaSanitize::Block),
            ErasureMethod::SanitizeOverwrite => self.begin(AtaSanitize::Overwrite),
            ErasureMethod::SecureEraseEnhanced => self.secure_erase(true),
            ErasureMethod::SecureErase => self.secure_erase(false),
            ErasureMethod::FormatCrypto
            | ErasureMethod::FormatUserData
            | ErasureMethod::WriteZeroes
            | ErasureMethod::Overwrite
            | ErasureMethod::Metadata => Err(MethodFailure::Fell(format!("ATA has no command for {method}"))),
        }
    }

    fn expected(&self, method: ErasureMethod) -> Option<Duration> {
        let enhanced = match method {
            ErasureMethod::SecureEraseEnhanced => true,
            ErasureMethod::SecureErase => false,
            ErasureMethod::SanitizeCrypto
            | ErasureMethod::SanitizeBlock
            | ErasureMethod::SanitizeOverwrite
            | ErasureMethod::FormatCrypto
            | ErasureMethod::FormatUserData
            | ErasureMethod::WriteZeroes
            | ErasureMethod::Overwrite
            | ErasureMethod::Metadata => return None,
        };
        // A drive that does not answer here reports that when the erase is sent.
        self.identity().ok()?.expected(enhanced)
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        let answer = self.ask(&sanitize(AtaSanitize::Status)).context("asking how the sanitize stands")?;
        let said = format!("ATA sanitize status: count {:04x}h, lba {:012x}h", answer.count, answer.lba);
        Ok(match sanitize_state(&answer) {
            SanitizeState::Running(progress) => Poll::Running { progress: Some(progress) },
            SanitizeState::Completed => Poll::Ended(said),
            SanitizeState::Idle | SanitizeState::Frozen => Poll::Idle,
            SanitizeState::Failed(why) => {
                // Left at once: until then the drive takes no reads and writes.
                let left = self.undo_incomplete_erasure().err().map(|error| format!("; {error:#}")).unwrap_or_default();
                Poll::Failed(format!("{said}: {why}{left}"))
            }
        })
    }

    fn undo_incomplete_erasure(&self) -> anyhow::Result<()> {
        let mut identity = self.identity()?;
        // First: a locked drive aborts SANITIZE DEVICE, also where no sanitize failed, and one in failure mode takes
        // this.
        if identity.security.locked {
            // An earlier run of ours may have lost power between password and erase. One try: after five
            // wrong ones the drive takes none before its next power cycle.
            self.security(Security::Unlock).context(
                "the drive is locked with a foreign password; unlock it, or erase it with the master password",
            )?;
            self.is_ours.store(true, Ordering::Relaxed);
            identity = self.identity()?;
        }
        if identity.sanitize && matches!(self.sanitize_state()?, SanitizeState::Failed(_)) {
            let answer = self.ask(&sanitize(AtaSanitize::ClearFailure))?;
            if answer.is_error() {
                bail!("a sanitize failed, and the drive refuses to leave its failure mode: replace it");
            }
        }
        if !identity.security.enabled {
            self.is_ours.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let disabled = self.security(Security::DisablePassword);
        if disabled.is_err() && !self.is_ours.load(Ordering::Relaxed) {
            // Somebody else's password on an open drive: it bars the secure erase, nothing else.
            return Ok(());
        }
        disabled.with_context(|| {
            let password = String::from_utf8_lossy(PASSWORD).into_owned();
            format!("the user password {password:?}, which the erase needed, could not be taken away")
        })?;
        if self.identity()?.security.enabled {
            bail!("the drive did not give up its password {:?}", String::from_utf8_lossy(PASSWORD));
        }
        self.is_ours.store(false, Ordering::Relaxed);
        Ok(())
    }
}
