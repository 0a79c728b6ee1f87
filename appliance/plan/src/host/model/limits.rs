//! Every time limit of a host's states, with its reason. Deadlines are extended by progress.

use jiff::SignedDuration;

use crate::host::model::{memory::IssuedPlan, orders::PlanKind};

/// The limits in force. Tests and slow (emulated) machines set others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTimeouts {
    /// Power-on to hello. Large servers test their memory for up to 15 minutes; upstream tries a
    /// boot again after 1200 s.
    pub hello: SignedDuration,
    /// A boot that was silent for so long is explained by a hint: what usually keeps a host from its next stage. No error:
    /// large servers say nothing for minutes, so that only [`Self::hello`] ends the wait.
    pub boot_hint: SignedDuration,
    /// An installed OS that was handed over, or fetched its config, and has not gone on for so long is explained by a hint
    /// as well. A slow firmware and a first boot that works take less in most cases.
    pub first_boot_hint: SignedDuration,
    /// An agent that reports every 2 s and says nothing for this long has crashed or hangs. Longer
    /// than a switch's spanning tree needs after a link flap.
    pub quiet: SignedDuration,
    /// [`Self::quiet`] of an agent that erases. Cut off, it holds its work and gives up by itself after half an hour
    /// (`REPLY_LOST` of the protocol); twice that, so that no erasure is ended by a reset that need not be.
    pub erase_quiet: SignedDuration,
    /// An agent that was not heard for so long may be gone: the next request for its host's boot script begins another
    /// attempt. A host that restarts needs about as long until it asks.
    pub silent: SignedDuration,
    /// A step that reports but gets nowhere. A read-back of a slow, failing disk moves more often.
    pub stall: SignedDuration,
    /// [`Self::stall`] of an erasure: a drive that erases itself shows nothing of it until the end. ATA's longest
    /// estimate is 508 minutes (ACS-4, IDENTIFY DEVICE words 89 and 90); half as much again. An agent that was asked to
    /// stop, and one that fell silent while its drive erased itself, is waited for as long, with the power left alone.
    pub erase_stall: SignedDuration,
    /// An obstacle that stays the same for so long is taken for one that stays, where the host is to go: its deletion
    /// goes on without what the obstacle is in the way of. Long enough to put a Secret back.
    pub obstacle: SignedDuration,
    /// An import of an image that receives nothing.
    pub image_stall: SignedDuration,
    /// An image that waits for others, of which none ends: the largest one is hashed in an hour.
    pub image_queue: SignedDuration,
    /// One call to a BMC, all retries of the driver included (upstream: 120 s for a power change).
    pub bmc_call: SignedDuration,
    /// Refused logins at a BMC's account are counted for so long: as long as common BMCs lock one.
    pub login_window: SignedDuration,
    /// Most refused logins at one account within [`Self::login_window`]; common BMCs lock it at the fifth.
    pub logins_refused_max: usize,
    /// A soft power-off turns into a hard one (upstream).
    pub soft_off: SignedDuration,
    /// Power is looked at this often while a host that is to boot is not seen to be on.
    pub boot_look: SignedDuration,
    /// A host that is to boot and was off for so long at every look does not boot. Slow power supplies
    /// and BMCs that answer from a cache need up to half of it.
    pub boot_off: SignedDuration,
    /// A power change shows at the BMC (upstream).
    pub power_change: SignedDuration,
    /// [`Self::power_change`] after an agent that erased has said that it switches its host off: a machine that
    /// imitates the host is not to have time until the host is switched off for another reason.
    pub wipe_off: SignedDuration,
    /// More than one machine claims to be a host: so long a person may take to say which is. A weekday without anyone
    /// who looks; then the attempt ends.
    pub claimants: SignedDuration,
    /// Time after a cut of the power in which messages of the host itself still arrive.
    pub claim_grace: SignedDuration,
    /// The time after a power cut in which claimants that still report are heard. Each reports within 2 s, or tries
    /// again within 10 s.
    pub claim_listen: SignedDuration,
    /// Power is looked at this often in a steady state (upstream).
    pub power_poll: SignedDuration,
    /// Power is looked at this often while it changes.
    pub power_poll_changing: SignedDuration,
    /// Hand-over to the OS's own report. Ignition, a first boot and a slow POST fit twice.
    pub running: SignedDuration,
    /// An inspection older than this is repeated before a disk is chosen: people swap disks.
    pub inspection_fresh: SignedDuration,
    /// A missing Secret is looked for again (upstream).
    pub secret_retry: SignedDuration,
    /// Looks at a host that nothing happens to (upstream: unmanaged and detached hosts).
    pub slow_poll: SignedDuration,
    /// Looks at an agent that works; its reports wake the planner earlier.
    pub work_poll: SignedDuration,
    /// A host that waits for a slot looks again, if it was not woken (upstream: a minute or two).
    pub slot_poll: SignedDuration,
    /// Failed installations before a person has to look (upstream).
    pub provision_failures_max: u32,
    /// Failures to clean or to switch off before a deletion goes on without (upstream).
    pub delete_failures_max: u32,
}

impl Default for HostTimeouts {
    fn default() -> Self {
        Self {
            hello: SignedDuration::from_secs(1200),
            boot_hint: SignedDuration::from_secs(60),
            first_boot_hint: SignedDuration::from_mins(5),
            quiet: SignedDuration::from_mins(5),
            silent: SignedDuration::from_secs(60),
            erase_quiet: SignedDuration::from_hours(1),
            stall: SignedDuration::from_mins(30),
            erase_stall: SignedDuration::from_mins(762),
            obstacle: SignedDuration::from_mins(30),
            image_stall: SignedDuration::from_mins(10),
            image_queue: SignedDuration::from_hours(4),
            bmc_call: SignedDuration::from_secs(120),
            login_window: SignedDuration::from_mins(10),
            logins_refused_max: 4,
            soft_off: SignedDuration::from_secs(180),
            boot_look: SignedDuration::from_secs(20),
            boot_off: SignedDuration::from_secs(60),
            power_change: SignedDuration::from_secs(120),
            wipe_off: SignedDuration::from_secs(60),
            claimants: SignedDuration::from_hours(24),
            claim_grace: SignedDuration::from_secs(10),
            claim_listen: SignedDuration::from_secs(30),
            power_poll: SignedDuration::from_secs(60),
            power_poll_changing: SignedDuration::from_secs(5),
            running: SignedDuration::from_mins(30),
            inspection_fresh: SignedDuration::from_hours(1),
            secret_retry: SignedDuration::from_secs(10),
            slow_poll: SignedDuration::from_mins(10),
            work_poll: SignedDuration::from_secs(30),
            slot_poll: SignedDuration::from_secs(60),
            provision_failures_max: 5,
            delete_failures_max: 3,
        }
    }
}

impl HostTimeouts {
    /// How long an agent that has this plan may say nothing.
    #[must_use]
    pub fn quiet_with(&self, issued: Option<&IssuedPlan>) -> SignedDuration {
        if erases(issued) { self.erase_quiet } else { self.quiet }
    }

    /// How long an agent may work on this plan without getting anywhere.
    #[must_use]
    pub fn stall_with(&self, issued: Option<&IssuedPlan>) -> SignedDuration {
        if erases(issued) { self.erase_stall } else { self.stall }
    }
}

fn erases(issued: Option<&IssuedPlan>) -> bool {
    issued.is_some_and(|issued| matches!(issued.plan, PlanKind::Erase(_)))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::disk::{CleaningMethod, DiskIdentity, NextOwner};
    use crate::host::model::orders::ErasePlan;

    #[test]
    fn an_erasure_alone_may_be_silent_and_stand_still_for_long() {
        let erase = PlanKind::Erase(ErasePlan {
            method: CleaningMethod::Quick,
            disks: Vec::new(),
            next: NextOwner::Same,
            own_names: Vec::new(),
            overridden: Vec::new(),
            named: Vec::new(),
        });
        let limits = HostTimeouts::default();
        for (plan, quiet_s, stall_s) in [
            (None, 300, 1800),
            (Some(PlanKind::Inspect), 300, 1800),
            (Some(PlanKind::Clean { disk: DiskIdentity::default() }), 300, 1800),
            (Some(PlanKind::PowerOff), 300, 1800),
            (Some(erase), 3600, 45_720),
        ] {
            let at = Timestamp::UNIX_EPOCH;
            let issued = plan.map(|plan| IssuedPlan { number: 1, plan, issued_at: at, stopped: None });
            let found = (limits.quiet_with(issued.as_ref()), limits.stall_with(issued.as_ref()));
            let expected = (SignedDuration::from_secs(quiet_s), SignedDuration::from_secs(stall_s));
            assert_eq!(found, expected, "{issued:?}");
        }
    }
}
