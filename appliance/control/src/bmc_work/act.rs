//! What one call does with a BMC that let us in.

use firesteel_bmc::{
    BmcBootMode, BootSet, BootVia, Error, NextBootSource, OverrideReading, PowerAction, PowerSet, PowerState,
    SystemReport as Identified, WantedBootOverride,
};
use firesteel_plan::host::BmcAction;

use super::PowerCallFindings;
use crate::power::BmcSession;

/// How a host is booted, and in what mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booting<'a> {
    pub(super) via: BootVia,
    /// The firmware's mode, for protocols that have no way to leave it alone.
    pub(super) mode: BmcBootMode,
    /// What the owner asked for.
    pub(super) wanted_mode: Option<BmcBootMode>,
    /// What a host that boots by HTTP fetches.
    pub(super) loader: &'a str,
}

impl Booting<'_> {
    /// The override for one boot into our ramdisk. There is no image for a CD: such a host netboots, which its
    /// condition says.
    fn desired_boot(&self) -> WantedBootOverride<'_> {
        match self.via {
            BootVia::Pxe | BootVia::VirtualCd => {
                WantedBootOverride { mode: self.wanted_mode, ..WantedBootOverride::once(NextBootSource::Pxe) }
            }
            BootVia::UefiHttp => WantedBootOverride {
                mode: Some(BmcBootMode::Uefi),
                http_uri: Some(self.loader),
                ..WantedBootOverride::once(NextBootSource::UefiHttp)
            },
        }
    }
}

pub(super) async fn act(
    client: &dyn BmcSession,
    action: BmcAction,
    booting: Booting<'_>,
) -> Result<PowerCallFindings, Error> {
    let found = match action {
        BmcAction::Probe | BmcAction::Inspect => {
            let seen = client.identify().await?;
            let (power, macs) = (Some(seen.power), Some(macs_of(&seen)));
            return Ok(PowerCallFindings { power, macs, system_uuid: seen.uuid, ..PowerCallFindings::default() });
        }
        BmcAction::ReadOnce => return read_once(client).await,
        BmcAction::NetBoot => net_boot(client, booting).await?,
        BmcAction::PowerOn => {
            let freed = freed(client).await;
            let switched = client.change_power(PowerAction::On).await?;
            noted(joined(freed, unconfirmed(&switched)))
        }
        BmcAction::PowerOff { hard: true } => noted(unconfirmed(&client.change_power(PowerAction::ForceOff).await?)),
        BmcAction::PowerOff { hard: false } => {
            noted(unconfirmed(&client.change_power(PowerAction::GracefulOff).await?))
        }
        BmcAction::Cycle => {
            let freed = freed(client).await;
            noted(unconfirmed(&client.change_power(PowerAction::ForceRestart).await?).or(freed))
        }
        BmcAction::TakeBootBack => match client.take_boot_back().await? {
            None => noted(None),
            Some(BootSet::Confirmed) => {
                let text = "the boot override was still set after the installation, and was taken back";
                noted(Some(text.to_owned()))
            }
            Some(BootSet::Unverified { seen: why } | BootSet::NotOffered { why }) => {
                PowerCallFindings { override_left: Some(why), ..PowerCallFindings::default() }
            }
        },
    };
    Ok(PowerCallFindings { power: Some(client.power().await?), ..found })
}

fn noted(note: Option<String>) -> PowerCallFindings {
    PowerCallFindings { note, ..PowerCallFindings::default() }
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    one.into_iter().chain(other).reduce(|one, other| format!("{one}; {other}"))
}

async fn net_boot(client: &dyn BmcSession, booting: Booting<'_>) -> Result<PowerCallFindings, Error> {
    let set = client.order_boot(booting.desired_boot(), booting.mode).await?;
    let was_off = client.power().await? == PowerState::Off;
    let reset = if was_off { PowerAction::On } else { PowerAction::ForceRestart };
    let switched = client.change_power(reset).await?;
    let (boot, once_unset, no_override) = match set {
        BootSet::Confirmed => (None, None, None),
        BootSet::Unverified { seen } => {
            let note = format!("booting once from the network was ordered and is unverified: {seen}");
            (Some(note), Some(seen), None)
        }
        BootSet::NotOffered { why } => {
            let note = format!("the host boots by its own order: the BMC has no boot override ({why})");
            (Some(note), None, Some(why))
        }
    };
    let note = joined(boot, unconfirmed(&switched));
    Ok(PowerCallFindings { note, was_off, no_override, once_unset, ..PowerCallFindings::default() })
}

async fn read_once(client: &dyn BmcSession) -> Result<PowerCallFindings, Error> {
    let once_unread = match client.read_once().await? {
        OverrideReading::UsedUp => None,
        OverrideReading::Left { seen } => Some(format!("the BMC still has it: {seen}")),
        OverrideReading::Unconfirmed { why } => Some(why),
    };
    Ok(PowerCallFindings { once_unread, ..PowerCallFindings::default() })
}

/// Returns what a BMC says that differs from the order that it got.
fn unconfirmed(set: &PowerSet) -> Option<String> {
    match set {
        PowerSet::Nothing | PowerSet::Confirmed | PowerSet::Unconfirmed => None,
        PowerSet::Unverified { seen } => Some(format!("switching power was ordered and is unverified: {seen}")),
    }
}

/// Takes back an override that was left over before a boot that is not ours to direct: the host would netboot by it. It
/// does no harm where it stays (the boot entry then sends the host to its disk), so it stops nothing.
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
