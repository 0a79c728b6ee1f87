//! How the config server is set up, by flags of the process.

use std::net::Ipv4Addr;

use firesteel_boot::HostNetwork;
use firesteel_handoff::ConfigOrigins;
use firesteel_ignition::stub::managed_stub::{CONFIG_PORT, Endpoint, MakeError};
use jiff::SignedDuration;

/// How long a new OS may take from its installation to its config; long, because a host may be
/// shut down in between. What bounds its harm is that *running* ends it.
pub const TOKEN_DAYS_DEFAULT: u16 = 30;

/// Is set by flags of the process.
#[derive(Clone, Debug)]
pub struct ConfigSettings {
    /// How managed stubs name this appliance; its address on the provisioning network where nothing is said.
    pub host: Option<String>,
    /// The port of the listener with TLS.
    pub port: u16,
    /// The port of the listener without TLS; by default there is none.
    pub plain_port: Option<u16>,
    /// Every client gets a pool's config, with or without a token.
    pub without_token: bool,
    /// The time from the installation to the token's deadline, which `firesteel extend-token` can put off.
    pub token_life: SignedDuration,
}

impl Default for ConfigSettings {
    fn default() -> Self {
        Self {
            host: None,
            port: CONFIG_PORT,
            plain_port: None,
            without_token: false,
            token_life: SignedDuration::from_hours(24 * i64::from(TOKEN_DAYS_DEFAULT)),
        }
    }
}

impl ConfigSettings {
    /// # Errors
    /// When [`Self::host`] is neither a name nor an address.
    pub(crate) fn origins(&self, network: &HostNetwork) -> Result<ConfigOrigins, MakeError> {
        let at = network.endpoints;
        let address = Ipv4Addr::to_string(&at.address);
        let own = Endpoint::new(&address, self.port)?;
        let named = self.host.as_deref().map(|host| Endpoint::new(host, self.port)).transpose()?;
        let is_name = self.host.as_deref().is_some_and(|host| {
            host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_err()
        });
        // The name outlives an address, where hosts can look it up (S1.18). Without DNS a stub names the address.
        let managed = named.clone().filter(|_| !is_name || network.hosts_have_dns).unwrap_or_else(|| own.clone());
        let mut endpoints = vec![managed.clone()];
        for other in [Some(own), named, Some(Endpoint::new(&address, at.agent_port)?)].into_iter().flatten() {
            if !endpoints.contains(&other) {
                endpoints.push(other);
            }
        }
        let mut urls: Vec<String> = endpoints.iter().map(Endpoint::configs).collect();
        let plain = self.plain_port.map(|port| format!("http://{address}:{port}/config/"));
        if let Some(port) = self.plain_port {
            let plain = |endpoint: &Endpoint| {
                let url = endpoint.configs().replacen("https://", "http://", 1);
                url.replacen(&format!(":{}/", self.port), &format!(":{port}/"), 1)
            };
            let all: Vec<String> =
                endpoints.iter().map(plain).filter(|url| url.contains(&format!(":{port}/"))).collect();
            urls.extend(all);
        }
        Ok(ConfigOrigins { urls, endpoints, managed, plain })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_boot::{AskerRule, Endpoints};

    use super::*;

    fn network(hosts_have_dns: bool) -> HostNetwork {
        let endpoints = Endpoints { address: Ipv4Addr::new(192, 0, 2, 1), http_port: 8080, agent_port: 8443 };
        HostNetwork { endpoints, asker_rule: AskerRule::Lease, hosts_have_dns, work_hold: None }
    }

    #[test]
    fn a_stub_names_what_its_host_can_reach() {
        let managed = |host: Option<&str>, hosts_have_dns| {
            let settings = ConfigSettings { host: host.map(str::to_owned), ..ConfigSettings::default() };
            settings.origins(&network(hosts_have_dns)).unwrap().managed.configs()
        };
        assert_eq!(managed(None, true), "https://192.0.2.1:22623/config/");
        assert_eq!(managed(Some("api-int.example"), true), "https://api-int.example:22623/config/");
        assert_eq!(managed(Some("api-int.example"), false), "https://192.0.2.1:22623/config/");
        assert_eq!(managed(Some("2001:db8::1"), false), "https://[2001:db8::1]:22623/config/");
        assert_eq!(managed(Some("192.0.2.9"), false), "https://192.0.2.9:22623/config/");
        let wrong = ConfigSettings { host: Some("https://x/".into()), ..ConfigSettings::default() };
        assert!(wrong.origins(&network(false)).is_err());
    }

    #[test]
    fn a_config_is_ours_at_every_listener_that_there_is() {
        let plain = ConfigSettings {
            host: Some("config.example".into()),
            plain_port: Some(22624),
            ..ConfigSettings::default()
        };
        let origins = plain.origins(&network(false)).unwrap();
        assert_eq!(origins.plain.as_deref(), Some("http://192.0.2.1:22624/config/"));
        let mut urls = origins.urls;
        urls.sort();
        assert_eq!(
            urls,
            [
                "http://192.0.2.1:22624/config/",
                "http://config.example:22624/config/",
                "https://192.0.2.1:22623/config/",
                "https://192.0.2.1:8443/config/",
                "https://config.example:22623/config/",
            ]
        );
        assert_eq!(ConfigSettings::default().origins(&network(false)).unwrap().urls.len(), 2);
    }
}
