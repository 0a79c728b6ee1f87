//! Whether a machine is the one that a host was inspected as. The boot token decides which host an agent speaks
//! for; the SMBIOS UUID tells when another machine has come to use the host's MAC, and when two hosts call
//! themselves the same. Pure.

use firesteel_plan::host::{IdentityDoubt, State};

use crate::{HostKey, views::Views};

/// UUIDs that makers leave in by the thousand.
const PLACEHOLDERS: [&str; 4] = [
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "03000200-0400-0500-0006-000700080009",
    "12345678-1234-5678-90ab-cddeefaabbcc",
];

/// The UUID in lower case, if it tells machines apart.
pub(crate) fn telling(uuid: &str) -> Option<String> {
    let uuid = uuid.trim().to_ascii_lowercase();
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_uuid && !PLACEHOLDERS.contains(&uuid.as_str())).then_some(uuid)
}

/// Whether an agent of `said` may speak for a host that was inspected as `known`; otherwise why not. A host that
/// is to be inspected may have become another machine.
pub(crate) fn may_speak(known: &str, said: &str, state: &State) -> Result<(), String> {
    match state {
        State::New | State::Unmanaged | State::Registering | State::Inspecting => return Ok(()),
        State::Preparing
        | State::Available
        | State::Provisioning
        | State::Provisioned
        | State::ExternallyProvisioned
        | State::Deprovisioning
        | State::PoweringOff
        | State::Deleting => {}
    }
    match (telling(known), telling(said)) {
        (Some(known), Some(said)) if known != said => Err(format!(
            "a machine with the SMBIOS UUID {said} boots with this host's MAC, and the host was inspected as {known}: \
             it was refused. If the host's board was replaced, run `firesteel retry`; if not, find that machine"
        )),
        _ => Ok(()),
    }
}

impl Views {
    /// What is doubtful about a host's identity.
    pub(crate) fn doubt(&self, key: &HostKey) -> Option<IdentityDoubt> {
        let view = self.hosts.get(key)?;
        if let Some(text) = &view.impostor {
            return Some(IdentityDoubt::AnotherMachine(text.clone()));
        }
        let uuid = view.machine.as_ref()?;
        let twin = self.hosts.iter().filter(|(other, twin)| *other != key && twin.machine.as_ref() == Some(uuid));
        let (twin, _) = twin.min_by_key(|(other, _)| *other)?;
        Some(IdentityDoubt::Shared { uuid: uuid.clone(), with: twin.to_string() })
    }

    /// Takes in as what a host was inspected; whoever may have it or have had it in common is to be looked at again.
    pub(crate) fn learn_machine(&mut self, key: &HostKey, uuid: &str) -> Vec<HostKey> {
        let now = telling(uuid);
        let Some(view) = self.hosts.get_mut(key).filter(|view| view.machine != now) else { return Vec::new() };
        let before = std::mem::replace(&mut view.machine, now.clone());
        let concerns = |machine: &Option<String>| machine.is_some() && (*machine == now || *machine == before);
        let others = self.hosts.iter().filter(|(other, view)| *other != key && concerns(&view.machine));
        others.map(|(other, _)| other.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::HostView;

    const A: &str = "4c4c4544-0046-3310-8051-b4c04f564432";
    const B: &str = "4C4C4544-0046-3310-8051-B4C04F564433";

    #[test]
    fn another_machine_speaks_for_nobody_unless_it_is_to_be_inspected() {
        assert_eq!(may_speak(A, A, &State::Available), Ok(()));
        assert_eq!(may_speak(&A.to_uppercase(), A, &State::Available), Ok(()));
        assert!(may_speak(A, B, &State::Provisioning).is_err_and(|why| why.contains(&B.to_ascii_lowercase())));
        assert_eq!(may_speak(A, B, &State::Inspecting), Ok(()), "the board may have been replaced");
        for said in ["", "none", "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009"] {
            assert_eq!(may_speak(A, said, &State::Available), Ok(()), "it says nothing: {said}");
            assert_eq!(may_speak(said, A, &State::Available), Ok(()));
        }
    }

    #[test]
    fn hosts_with_one_uuid_name_each_other() {
        let mut views = Views::new(1);
        let key = |name: &str| HostKey { namespace: "default".into(), name: name.into() };
        for name in ["a", "b", "c"] {
            views.hosts.insert(key(name), HostView::default());
        }
        assert!(views.learn_machine(&key("a"), A).is_empty());
        assert_eq!(views.doubt(&key("a")), None);
        assert_eq!(views.learn_machine(&key("b"), &A.to_uppercase()), [key("a")], "the other one is looked at");
        let shared = |with: &str| Some(IdentityDoubt::Shared { uuid: A.into(), with: format!("default/{with}") });
        assert_eq!((views.doubt(&key("a")), views.doubt(&key("b"))), (shared("b"), shared("a")));
        assert!(views.learn_machine(&key("b"), A).is_empty(), "told once");
        assert!(views.learn_machine(&key("c"), "00000000-0000-0000-0000-000000000000").is_empty());
        assert_eq!(views.learn_machine(&key("b"), B), [key("a")]);
        assert_eq!(views.doubt(&key("a")), None);
    }
}
