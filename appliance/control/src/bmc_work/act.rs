//! What one call does with a BMC that let us in.

use firesteel_bmc::{
    BmcBootMode, BootSet, BootVia, BootWish, Error, NextBootSource, OverrideReading, PowerAction, PowerSet, PowerState,
    SystemReport as Identified,
};
use firesteel_plan::host::BmcAction;

use super::PowerCallFindings;
use crate::power::BmcSession;

/// How a host is booted, and in what mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booting<'a> {
    pub(super) via: BootVia,
    /// For protocols that have no way to leave the firmware's mode alone.
    pub(super) mode: BmcBootMode,
    /// What the owner asked for.
    pub(super) wanted_mode: Option<BmcBootMode>,
    /// What a host that boots by HTTP fetches.
    pub(super) loader: &'a str,
}

impl Booting<'_> {
    /// The override for one boot into our ramdisk. There is no image for a CD: such a host netboots, which its
    /// condition says.
    fn desired_boot(&self) -> BootWish<'_> {
        match self.via {
            BootVia::Pxe | BootVia::VirtualCd => {
                BootWish { mode: self.wanted_mode, ..BootWish::once(NextBootSource::Pxe) }
            }
            BootVia::UefiHttp => BootWish {
                mode: Some(BmcBootMode::Uefi),
                http_uri: Some(self.loader),
                ..BootWish::once(NextBootSource::UefiHttp)
            },
        }
    }
}

pub(super) async fn act(
    client: &dyn BmcSession,
    action: BmcAction,
    booting: Booting<'_>,
) -> Result<PowerCallFindings, Error> {
    let (mut was_off, mut no_override, mut once_unset, mut override_left) = (false, None, None, None);
    let note = match action {
        BmcAction::Probe => {
            let seen = client.identify().await?;
            return Ok(PowerCallFindings {
                power: Some(seen.power),
                macs: Some(macs_of(&seen)),
                ..PowerCallFindings::default()
            });
        }
        BmcAction::NetBoot => {
            let set = client.order_boot(booting.desired_boot(), booting.mode).await?;
            let power = client.power().await?;
            was_off = power == PowerState::Off;
            let reset = if was_off { PowerAction::On } else { PowerAction::ForceRestart };
            let switched = client.change_power(reset).await?;
            let boot = match set {
                BootSet::Confirmed => None,
                BootSet::Unverified { seen } => {
                    let note = format!("booting once from the network was ordered and is unverified: {seen}");
                    once_unset = Some(seen);
                    Some(note)
                }
                BootSet::NotOffered { why } => {
                    let note = format!("the host boots by its own order: the BMC has no boot override ({why})");
                    no_override = Some(why);
                    Some(note)
                }
            };
            boot.into_iter().chain(unconfirmed(&switched)).reduce(|one, other| format!("{one}; {other}"))
        }
        BmcAction::ReadOnce => return read_once(client).await,
        BmcAction::PowerOn => {
            let freed = freed(client).await;
            let switched = client.change_power(PowerAction::On).await?;
            freed.into_iter().chain(unconfirmed(&switched)).reduce(|one, other| format!("{one}; {other}"))
        }
        BmcAction::PowerOff { hard: true } => unconfirmed(&client.change_power(PowerAction::ForceOff).await?),
        BmcAction::PowerOff { hard: false } => unconfirmed(&client.change_power(PowerAction::GracefulOff).await?),
        BmcAction::Cycle => {
            let freed = freed(client).await;
            unconfirmed(&client.change_power(PowerAction::ForceRestart).await?).or(freed)
        }
        BmcAction::TakeBootBack => match client.take_boot_back().await? {
            None => None,
            Some(BootSet::Confirmed) => {
                Some("the boot override was still set after the installation, and was taken back".to_owned())
            }
            Some(BootSet::Unverified { seen: why } | BootSet::NotOffered { why }) => {
                override_left = Some(why);
                None
            }
        },
    };
    let power = Some(client.power().await?);
    Ok(PowerCallFindings {
        power,
        note,
        was_off,
        no_override,
        once_unset,
        override_left,
        ..PowerCallFindings::default()
    })
}

async fn read_once(client: &dyn BmcSession) -> Result<PowerCallFindings, Error> {
    let once_unread = match client.read_once().await? {
        OverrideReading::UsedUp => None,
        OverrideReading::Left { seen } => Some(format!("the BMC still has it: {seen}")),
        OverrideReading::Untold { why } => Some(why),
    };
    Ok(PowerCallFindings { once_unread, ..PowerCallFindings::default() })
}

/// What a BMC says against what it was told.
fn unconfirmed(set: &PowerSet) -> Option<String> {
    match set {
        PowerSet::Nothing | PowerSet::Confirmed | PowerSet::Untold => None,
        PowerSet::Unverified { seen } => Some(format!("switching power was ordered and is unverified: {seen}")),
    }
}

/// Before a boot that is not ours to direct: an override that was left over would have the host netboot. It does no
/// harm where it stays (the boot entry then sends the host to its disk), so it stops nothing.
async fn freed(client: &dyn BmcSession) -> Option<String> {
    match client.free_boot().await {
        Ok(None | Some(BootSet::Confirmed)) => None,
        Ok(Some(BootSet::Unverified { seen } | BootSet::NotOffered { why: seen })) => {
            Some(format!("taking the boot override back was ordered and is unverified: {seen}"))
        }
        Err(error) => Some(format!("the boot override of an earlier boot was not taken back: {error}")),
    }
}

fn macs_of(seen: &Identified) -> Vec<String> {
    seen.macs.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_alone_says_how_a_host_is_booted() {
        let wish = |via, wanted_mode| {
            let booting =
                Booting { via, mode: BmcBootMode::Uefi, wanted_mode, loader: "http://10.0.0.1/loader/ipxe.efi" };
            let wish = booting.desired_boot();
            (wish.target, wish.mode, wish.http_uri.map(str::to_owned), wish.is_lasting)
        };
        assert_eq!(wish(BootVia::Pxe, None), (NextBootSource::Pxe, None, None, false));
        assert_eq!(
            wish(BootVia::Pxe, Some(BmcBootMode::Legacy)),
            (NextBootSource::Pxe, Some(BmcBootMode::Legacy), None, false)
        );
        assert_eq!(wish(BootVia::VirtualCd, None), (NextBootSource::Pxe, None, None, false), "said by a condition");
        let loader = Some("http://10.0.0.1/loader/ipxe.efi".to_owned());
        assert_eq!(wish(BootVia::UefiHttp, None), (NextBootSource::UefiHttp, Some(BmcBootMode::Uefi), loader, false));
    }
}
