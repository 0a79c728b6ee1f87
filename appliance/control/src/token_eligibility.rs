//! Who asks for a boot script, and whether that may be the machine whose MAC it names.
//!
//! ```text
//!   script(request, from) ─► BootDecisions::asked: who holds the address, and by which rule it is judged
//!                              └─► BootDecisions::admit: Observation::ask of the host's attempt
//!                                    ├─► Ok: a token may be made
//!                                    └─► Err: timeline, condition and log say both addresses; no token
//! ```

use std::net::IpAddr;

use firesteel_boot::{AddressHolder, AskerMismatch, AskerRule, BootAsker, BootEntry, BootScriptRequest, Observation};
use firesteel_facts::Mac;

use crate::{NetworkEvent, boot::BootDecisions};

impl BootDecisions {
    /// Says from where this MAC's script is asked for, and how that is judged.
    pub(crate) fn asked(&self, mac: Mac, from: IpAddr) -> BootScriptRequest {
        let (macs, takes_any) = {
            let views = self.shared.views();
            let view = views.by_mac.get(&mac).and_then(|key| views.hosts.get(key));
            let macs = view.map_or_else(|| vec![mac], |view| view.macs.clone());
            (macs, view.is_some_and(|view| view.boots_from_any_address))
        };
        let holder = match self.network.leaseholder(from) {
            Some(holder) if macs.contains(&holder) => AddressHolder::Host,
            Some(other) => AddressHolder::Other(other),
            None => AddressHolder::Unleased,
        };
        let rule = if takes_any { AskerRule::FirstAsker } else { self.host_network.now().asker_rule };
        let leased = self.network.leased_addresses(&macs).into_iter().map(IpAddr::V4).collect();
        BootScriptRequest { from, holder, rule, leased }
    }

    /// Judges an asker for an entry that comes with a token; any asker gets what comes without one.
    pub(crate) fn admit(
        &self,
        mac: Mac,
        entry: &BootEntry,
        asked: &BootScriptRequest,
    ) -> Result<Option<BootAsker>, AskerMismatch> {
        let judged = if let BootEntry::Agent { attempt, .. } = entry {
            self.admit_to_attempt(mac, *attempt, asked)
        } else if *entry == BootEntry::Discovery {
            Observation::default().ask(asked).map(Some)
        } else {
            Ok(None)
        };
        if let Err(mismatch) = &judged {
            self.network.note(mac, NetworkEvent::AddressMismatch { text: mismatch.to_string() });
        }
        judged
    }

    fn admit_to_attempt(
        &self,
        mac: Mac,
        attempt: u64,
        asked: &BootScriptRequest,
    ) -> Result<Option<BootAsker>, AskerMismatch> {
        let (judged, is_news) = {
            let mut views = self.shared.views();
            let key = views.by_mac.get(&mac).cloned();
            let Some(view) = key.and_then(|key| views.hosts.get_mut(&key)) else { return Ok(None) };
            if view.observation.attempt() != attempt {
                view.observation = Observation::of(attempt);
            }
            let was_shown = view.observation.mismatch().is_some();
            let judged = view.observation.ask(asked).map(Some);
            (judged, was_shown != view.observation.mismatch().is_some())
        };
        if is_news {
            self.shared.wake_owner(mac);
        }
        judged
    }
}
