//! What an edit of the Provisioning object starts, adjusts and stops. A service whose settings are the same is not
//! touched; one that can change while it runs is adjusted, so that no lease, transfer or agent is lost.

use crate::services::{ServiceName, ServicePlan};

/// A change of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceStep {
    Stop(ServiceName),
    Start(ServiceName),
    /// Gives new settings to a service that goes on.
    Adjust(ServiceName),
}

/// How the wanted settings of one service differ from those that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettingsChange {
    None,
    Appears,
    Goes,
    /// Only values that change while it runs.
    Soft,
    /// Needs other sockets.
    Hard,
}

/// Decides the steps from what runs to what is wanted: first what stops, last service first, then what is adjusted and
/// what starts.
#[must_use]
pub fn service_steps(running: &ServicePlan, wanted: &ServicePlan) -> Vec<ServiceStep> {
    let changes = ServiceName::ALL.map(|name| (name, change(name, running, wanted)));
    let stops =
        changes.iter().rev().filter(|(_, change)| matches!(change, SettingsChange::Goes | SettingsChange::Hard));
    let mut steps: Vec<ServiceStep> = stops.map(|(name, _)| ServiceStep::Stop(*name)).collect();
    for (name, change) in changes {
        match change {
            SettingsChange::Appears | SettingsChange::Hard => steps.push(ServiceStep::Start(name)),
            SettingsChange::Soft => steps.push(ServiceStep::Adjust(name)),
            SettingsChange::None | SettingsChange::Goes => {}
        }
    }
    steps
}

fn change(name: ServiceName, running: &ServicePlan, wanted: &ServicePlan) -> SettingsChange {
    match name {
        ServiceName::Address => compare(running.address.as_ref(), wanted.address.as_ref(), |_, _| false),
        ServiceName::Http => compare(running.http.as_ref(), wanted.http.as_ref(), |_, _| false),
        ServiceName::ImageCache => compare(running.image_cache.as_ref(), wanted.image_cache.as_ref(), |_, _| true),
        ServiceName::Sensors => compare(running.sensors.as_ref(), wanted.sensors.as_ref(), |_, _| true),
        ServiceName::Tftp => compare(running.tftp.as_ref(), wanted.tftp.as_ref(), |_, _| false),
        ServiceName::Dhcp => compare(running.dhcp.as_ref(), wanted.dhcp.as_ref(), |old, new| {
            (&old.link, old.address) == (&new.link, new.address)
        }),
    }
}

fn compare<T: PartialEq>(running: Option<&T>, wanted: Option<&T>, is_soft: impl Fn(&T, &T) -> bool) -> SettingsChange {
    match (running, wanted) {
        (None, None) => SettingsChange::None,
        (None, Some(_)) => SettingsChange::Appears,
        (Some(_), None) => SettingsChange::Goes,
        (Some(old), Some(new)) if old == new => SettingsChange::None,
        (Some(old), Some(new)) if is_soft(old, new) => SettingsChange::Soft,
        (Some(_), Some(_)) => SettingsChange::Hard,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::services::{DhcpPlan, KeptAddress, SensorPlan, ServedLink, TftpPlan};
    use ServiceName::{Address, Dhcp, Http, ImageCache, Sensors, Tftp};
    use ServiceStep::{Adjust, Start, Stop};

    fn plan(link: u32, last: u8) -> ServicePlan {
        let address = Ipv4Addr::new(10, 77, 0, last);
        let link = ServedLink { name: "s0".to_owned(), index: link };
        ServicePlan {
            address: Some(KeptAddress { link: link.clone(), address, prefix_length: Some(24) }),
            http: Some(address),
            tftp: Some(TftpPlan { link: link.clone(), address }),
            dhcp: Some(DhcpPlan {
                link,
                address,
                network: Ipv4Addr::new(10, 77, 0, 0),
                prefix_length: 24,
                range: (Ipv4Addr::new(10, 77, 0, 10), Ipv4Addr::new(10, 77, 0, 20)),
                gateway: None,
                dns: false,
                ntp: Vec::new(),
            }),
            ..ServicePlan::default()
        }
    }

    fn managed() -> ServicePlan {
        plan(3, 1)
    }

    fn unmanaged() -> ServicePlan {
        ServicePlan { dhcp: None, ..managed() }
    }

    fn disabled() -> ServicePlan {
        ServicePlan { tftp: None, ..unmanaged() }
    }

    /// An edit, what ran before, what is wanted after, and what that does.
    type EditRow = (&'static str, ServicePlan, ServicePlan, Vec<ServiceStep>);

    fn with_dhcp(edit: impl Fn(&mut DhcpPlan)) -> ServicePlan {
        let mut plan = managed();
        plan.dhcp.iter_mut().for_each(edit);
        plan
    }

    fn edits_of_the_mode() -> Vec<EditRow> {
        let all = vec![Start(Address), Start(Http), Start(Tftp), Start(Dhcp)];
        let none = vec![Stop(Dhcp), Stop(Tftp), Stop(Http), Stop(Address)];
        vec![
            ("nothing", managed(), managed(), vec![]),
            ("the first object", ServicePlan::default(), managed(), all),
            ("the object goes", managed(), ServicePlan::default(), none),
            ("Managed to Unmanaged", managed(), unmanaged(), vec![Stop(Dhcp)]),
            ("Unmanaged to Disabled", unmanaged(), disabled(), vec![Stop(Tftp)]),
            ("Managed to Disabled", managed(), disabled(), vec![Stop(Dhcp), Stop(Tftp)]),
            ("Disabled to Managed", disabled(), managed(), vec![Start(Tftp), Start(Dhcp)]),
        ]
    }

    fn edits_of_values() -> Vec<EditRow> {
        let server = Ipv4Addr::new(192, 0, 2, 1);
        let cached = ServicePlan { image_cache: Some("http://a".to_owned()), ..managed() };
        let another = ServicePlan { image_cache: Some("http://b".to_owned()), ..managed() };
        let sensors = |every_s| ServicePlan { sensors: Some(SensorPlan { every_s, with_alerts: true }), ..managed() };
        vec![
            ("range", managed(), with_dhcp(|dhcp| dhcp.range.1 = Ipv4Addr::new(10, 77, 0, 30)), vec![Adjust(Dhcp)]),
            ("gateway", managed(), with_dhcp(|dhcp| dhcp.gateway = Some(server)), vec![Adjust(Dhcp)]),
            ("DNS", managed(), with_dhcp(|dhcp| dhcp.dns = true), vec![Adjust(Dhcp)]),
            ("NTP", managed(), with_dhcp(|dhcp| dhcp.ntp = vec![server]), vec![Adjust(Dhcp)]),
            ("an OS image", managed(), cached.clone(), vec![Start(ImageCache)]),
            ("another OS image", cached.clone(), another, vec![Adjust(ImageCache)]),
            ("no OS image", cached, managed(), vec![Stop(ImageCache)]),
            ("sensors", managed(), sensors(60), vec![Start(Sensors)]),
            ("sensors less often", sensors(60), sensors(120), vec![Adjust(Sensors)]),
        ]
    }

    fn edits_of_the_link() -> Vec<EditRow> {
        let stops = [Stop(Dhcp), Stop(Tftp), Stop(Http), Stop(Address)];
        let starts = [Start(Address), Start(Http), Start(Tftp), Start(Dhcp)];
        let without_link = ServicePlan { address: None, tftp: None, dhcp: None, ..managed() };
        vec![
            ("another address", managed(), plan(3, 2), [stops, starts].concat()),
            ("the interface vanished", managed(), without_link.clone(), vec![Stop(Dhcp), Stop(Tftp), Stop(Address)]),
            ("and returned", without_link, plan(9, 1), vec![Start(Address), Start(Tftp), Start(Dhcp)]),
            (
                "it was replaced between two looks",
                managed(),
                plan(9, 1),
                vec![Stop(Dhcp), Stop(Tftp), Stop(Address), Start(Address), Start(Tftp), Start(Dhcp)],
            ),
        ]
    }

    #[test]
    fn an_edit_starts_and_stops_exactly_what_it_changes() {
        for (edit, running, wanted, steps) in
            edits_of_the_mode().into_iter().chain(edits_of_values()).chain(edits_of_the_link())
        {
            assert_eq!(service_steps(&running, &wanted), steps, "{edit}");
        }
    }
}
