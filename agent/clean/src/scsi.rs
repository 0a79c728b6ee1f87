//! One SCSI disk.

use anyhow::{Context, bail};
use firesteel_drives::port::{Cdb, Data, Port};
use firesteel_drives::scsi::{
    ANSWER_BYTES, GOOD, ILLEGAL_REQUEST, SANITIZE, ScsiSanitize, Sense, decode_is_supported, is_supported,
    request_sense, sanitize, sense, test_unit_ready,
};
use firesteel_sysfs::attach::BlockQueueLimits;

use crate::disk_erasure::MethodFailure;
use crate::drive::{Drive, DriveCommandProgress, Poll, fell, offer};
use crate::ladder::{Abilities, EraseReach, ErasureMethod, MethodOffer};

pub struct ScsiDrive<'a> {
    pub port: &'a dyn Port,
    pub queue: BlockQueueLimits,
    /// Logical block: 512 or 4096.
    pub block_bytes: u32,
}

impl std::fmt::Debug for ScsiDrive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScsiDrive").field("block_bytes", &self.block_bytes).finish_non_exhaustive()
    }
}

impl ScsiDrive<'_> {
    /// Sends a command. `Ok(None)` says that it is done, `Ok(Some)` that the device has something to say.
    fn send(&self, command: &Cdb, data: Data<'_>) -> anyhow::Result<Option<Sense>> {
        let answer = self.port.scsi(command, data)?;
        match sense(&answer.sense) {
            _ if answer.status == GOOD => Ok(None),
            Some(sense) => Ok(Some(sense)),
            None => bail!("the disk refused the command with status {:#04x}", answer.status),
        }
    }

    /// Whether the disk supports a sanitize. One that cannot list its commands, as most of the cheap ones, has none.
    fn knows(&self, what: ScsiSanitize) -> anyhow::Result<bool> {
        let mut data = [0; ANSWER_BYTES];
        let refused = self.send(&is_supported(SANITIZE, what as u8), Data::In(&mut data))?;
        match refused {
            None => Ok(decode_is_supported(&data)),
            Some(sense) if sense.key == ILLEGAL_REQUEST => Ok(false),
            Some(sense) => bail!("asking for the disk's commands: {sense}"),
        }
    }

    /// Reads what the device says of itself: first by REQUEST SENSE, which alone has the progress, then by TEST UNIT
    /// READY, which keeps reporting a failure.
    fn state(&self) -> anyhow::Result<Sense> {
        let mut data = [0; ANSWER_BYTES];
        if let Some(refused) = self.send(&request_sense(), Data::In(&mut data))? {
            return Ok(refused);
        }
        let reported = sense(&data).context("the disk's sense data cannot be read")?;
        if reported.is_sanitizing() || reported.is_sanitize_failed() {
            return Ok(reported);
        }
        Ok(self.send(&test_unit_ready(), Data::None)?.unwrap_or_default())
    }

    fn begin(&self, what: ScsiSanitize) -> Result<DriveCommandProgress, MethodFailure> {
        let (command, list) = sanitize(what, self.block_bytes);
        let data = if list.is_empty() { Data::None } else { Data::Out(&list) };
        match self.send(&command, data).map_err(fell)? {
            None => Ok(DriveCommandProgress::Running),
            Some(sense) => Err(MethodFailure::Fell(format!("the disk refused it: {sense}"))),
        }
    }
}

impl Drive for ScsiDrive<'_> {
    fn examine(&self) -> anyhow::Result<Abilities> {
        let busy = self.state()?.is_sanitizing();
        let mut offers = Vec::new();
        for (method, what) in [
            (ErasureMethod::SanitizeCrypto, ScsiSanitize::Crypto),
            (ErasureMethod::SanitizeBlock, ScsiSanitize::Block),
            (ErasureMethod::SanitizeOverwrite, ScsiSanitize::Overwrite),
        ] {
            // A disk that is at it answers to little else.
            if !busy && self.knows(what)? {
                offers.push(MethodOffer { method, reach: EraseReach::Disk, barred: None });
            }
        }
        offers.extend(offer(self.queue));
        Ok(Abilities { offers, rotational: self.queue.rotational, busy, ..Abilities::default() })
    }

    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure> {
        match method {
            ErasureMethod::SanitizeCrypto => self.begin(ScsiSanitize::Crypto),
            ErasureMethod::SanitizeBlock => self.begin(ScsiSanitize::Block),
            ErasureMethod::SanitizeOverwrite => self.begin(ScsiSanitize::Overwrite),
            ErasureMethod::FormatCrypto
            | ErasureMethod::FormatUserData
            | ErasureMethod::SecureEraseEnhanced
            | ErasureMethod::SecureErase
            | ErasureMethod::WriteZeroes
            | ErasureMethod::Overwrite
            | ErasureMethod::Metadata => Err(MethodFailure::Fell(format!("SCSI has no command for {method}"))),
        }
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        let state = self.state()?;
        if state.is_sanitizing() {
            return Ok(Poll::Running { progress: state.progress });
        }
        if state.is_sanitize_failed() {
            let left = self.undo_incomplete_erasure().err().map(|error| format!("; {error:#}")).unwrap_or_default();
            return Ok(Poll::Failed(format!("{state}{left}")));
        }
        // Power-on and reset are reported once (unit attention); only a ready disk has ended.
        if state.key != 0 {
            bail!("the disk is not ready: {state}");
        }
        Ok(Poll::Ended("SCSI disk ready after SANITIZE; it keeps no log of it".to_owned()))
    }

    fn undo_incomplete_erasure(&self) -> anyhow::Result<()> {
        if !self.state()?.is_sanitize_failed() {
            return Ok(());
        }
        let (command, _) = sanitize(ScsiSanitize::ExitFailureMode, self.block_bytes);
        match self.send(&command, Data::None)? {
            None => Ok(()),
            Some(sense) => {
                bail!("a sanitize failed, and the disk refuses to leave its failure mode ({sense}): replace it")
            }
        }
    }
}
