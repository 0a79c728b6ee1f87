//! The machines of a pool, as far as their hosts are known here.

use std::collections::BTreeMap;

use firesteel_plan::{HostMemory, host::HostState, instance::has_rendered};
use firesteel_resources::{BareMetalHost, host_journal::HostJournalStatus};
use firesteel_runtime::HostKey;

use super::status::PoolCounts;
use crate::{ConfigController, pools::Pools};

/// A host as its pool sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolMember {
    /// The Secret with its user data.
    pub(crate) user_data: String,
    /// What was rendered when its OS fetched its config, of each pool that it fetched.
    rendered: String,
    /// Its OS runs.
    runs: bool,
    /// Its first boot, or its installation, failed.
    failed: bool,
}

impl PoolMember {
    /// Describes a host as its newest step left it.
    pub(crate) fn of(host: &BareMetalHost, memory: &HostMemory, journal: &HostJournalStatus) -> Self {
        let user_data = host.spec.user_data.as_ref().map(|reference| reference.name.clone()).unwrap_or_default();
        let attempt = memory.applied.as_ref().filter(|_| memory.state == HostState::Provisioned).map(|one| one.attempt);
        let record = journal.instance.as_ref().filter(|record| Some(record.attempt) == attempt);
        let runs = record.is_some_and(|record| record.running_at.is_some());
        Self {
            user_data,
            rendered: record.map(|record| record.rendered.clone()).unwrap_or_default(),
            runs,
            failed: memory.failure.is_some() || (!runs && record.is_some_and(|record| record.failed.is_some())),
        }
    }
}

impl ConfigController {
    /// Counts the machines of each of these pools.
    pub(super) fn machines_of<'a>(
        &self,
        pools: &Pools,
        names: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> BTreeMap<&'a str, PoolCounts> {
        let members: Vec<(HostKey, PoolMember)> = {
            let hosts = self.hosts();
            hosts.hosts().filter_map(|(key, host)| Some((key.clone(), host.kept.member.clone()?))).collect()
        };
        names
            .map(|(pool, rendered)| {
                let of_pool = members.iter().filter(|(key, member)| pools.leads_to(key, &member.user_data, pool));
                (pool, count(of_pool, rendered))
            })
            .collect()
    }
}

fn count<'a>(members: impl Iterator<Item = &'a (HostKey, PoolMember)>, rendered: &str) -> PoolCounts {
    let mut machines = PoolCounts::default();
    for (key, member) in members {
        machines.total += 1;
        machines.ready += u32::from(member.runs);
        let is_current = has_rendered(&member.rendered, rendered);
        machines.updated += u32::from(member.runs && is_current);
        machines.under_way += u32::from(!member.runs && !member.rendered.is_empty());
        if member.failed {
            machines.degraded.push(key.to_string());
        }
    }
    machines.degraded.sort();
    machines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_current_config_when_its_os_runs_with_it() {
        let member = |name: &str, rendered: &str, runs, failed| {
            let key = HostKey { namespace: "default".into(), name: name.into() };
            (key, PoolMember { user_data: "s".into(), rendered: rendered.into(), runs, failed })
        };
        let all = [
            member("a", "rendered-x", true, false),
            member("b", "rendered-old", true, false),
            member("c", "rendered-x", false, true),
            member("d", "", false, false),
            // Of two pools.
            member("e", "rendered-other rendered-x", true, false),
        ];
        let counted = count(all.iter(), "rendered-x");
        let expected = PoolCounts { total: 5, ready: 3, updated: 2, under_way: 1, degraded: vec!["default/c".into()] };
        assert_eq!(counted, expected);
        assert_eq!(count(all.iter(), "").updated, 0, "nothing is rendered");
    }
}
