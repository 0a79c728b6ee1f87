//! Hellos that do not count: the host's next step sees at once that its agent was refused, and why (S0.25).

use std::net::IpAddr;

use firesteel_boot::{Purpose, UnseenBoot};
use firesteel_plan::host::RefusedHello;
use firesteel_runtime::HostKey;
use firesteel_wire::{RefusalReason, RefusalReply};

use crate::agents::AgentConversations;
use crate::refusals::refusal;

impl AgentConversations {
    /// Refuses a boot that was not seen: nothing is bound, and the next boot of the host gets another number.
    pub(crate) fn refuse_unseen(&self, key: &HostKey, attempt: u64, why: &UnseenBoot, remote: IpAddr) -> RefusalReply {
        self.shared.metrics.agent_refused();
        self.warn_of_refusal(key, attempt, Some(remote), &format!("could not take a hello: {why}"));
        self.note_refused(key, attempt, format!("this boot was not seen: {why}"));
        refusal(RefusalReason::BadToken, &format!("this boot was not seen: {why}; boot again from the network"))
    }

    /// Refuses a token that does not open. One of ours names its host, whose next step sees it.
    pub(crate) fn refuse_token(&self, token: &str, refused: RefusalReply, remote: IpAddr) -> RefusalReply {
        if let Ok(claims) = self.sealer.read(token, Purpose::Agent)
            && let Ok(key) = self.host_of(&claims)
        {
            self.shared.metrics.agent_refused();
            let why = "its token has expired";
            self.warn_of_refusal(&key, claims.attempt, Some(remote), &format!("could not take a hello: {why}"));
            self.note_refused(&key, claims.attempt, why.to_owned());
        }
        refused
    }

    /// Has the host's next step, which follows at once, look at a hello that was refused.
    fn note_refused(&self, key: &HostKey, attempt: u64, why: String) {
        let at = self.shared.now();
        if let Some(view) = self.shared.views().hosts.get_mut(key) {
            view.refused_hello = Some(RefusedHello { attempt, at, why });
        }
        self.shared.queue.wake(key);
    }
}
