//! What a host's config gets from the appliance: the nonce that its OS sends back, and the CA.

use firesteel_boot::BootTokenClaims;
use firesteel_ignition::NewFile;
use firesteel_runtime::HostKey;

use crate::ConfigController;

/// What a host's config gets from the appliance.
pub(crate) const FILES: [&str; 2] = ["/etc/firesteel/instance.json", "/etc/firesteel/ca.crt"];

impl ConfigController {
    /// What the unit in the new OS needs to report back, at [`FILES`].
    pub(crate) fn instance_files(&self, key: &HostKey, claims: &BootTokenClaims) -> Vec<NewFile> {
        let config = self.config();
        let instance = serde_json::json!({
            "nonce": config.instance_key.nonce(&claims.subject, claims.attempt),
            "reportUrl": format!("{}/running", config.host_network.now().endpoints.agent_base()),
            "host": claims.subject,
            "name": key.name,
        });
        vec![
            NewFile { path: FILES[0].to_owned(), mode: 0o600, contents: instance.to_string().into_bytes() },
            NewFile { path: FILES[1].to_owned(), mode: 0o644, contents: config.handles.trust.pem().into_bytes() },
        ]
    }
}
