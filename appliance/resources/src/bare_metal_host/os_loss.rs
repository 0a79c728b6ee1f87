//! A warning at the edit by which a host loses the OS that it runs: another image, or none. Upstream's edit is the same,
//! and says nothing.

use crate::bare_metal_host::BareMetalHost;
use crate::bare_metal_host::status::ProvisioningState;

/// Says that the host is deprovisioned by this edit; `old` is the host before it.
pub(crate) fn warning(new: &BareMetalHost, old: Option<&BareMetalHost>) -> Option<String> {
    let old = old?;
    let state = old.status.as_ref()?.provisioning.state;
    if state != ProvisioningState::Provisioned {
        return None;
    }
    let before = old.spec.wanted_image()?;
    match new.spec.wanted_image() {
        Some(wanted) if wanted.url == before.url => None,
        Some(_) => Some(
            "spec.image.url names another image: the host is deprovisioned first, and loses the OS that is installed"
                .to_owned(),
        ),
        None => Some("spec.image is gone: the host is deprovisioned, and loses the OS that is installed".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn host(state: &str, image: Option<&str>) -> BareMetalHost {
        let image = image.map(|url| json!({"url": url}));
        let host = json!({"spec": {"image": image}, "status": {"provisioning": {"state": state}}});
        crate::admit::decode(&host).unwrap()
    }

    #[test]
    fn only_the_edit_that_costs_the_os_is_warned_of() {
        let of = |state: &str, new: Option<&str>| warning(&host("", new), Some(&host(state, Some("https://i/a"))));
        assert!(of("provisioned", Some("https://i/b")).unwrap().starts_with("spec.image.url names another image"));
        assert!(of("provisioned", None).unwrap().starts_with("spec.image is gone"));
        assert_eq!(of("provisioned", Some("https://i/a")), None);
        for state in ["available", "provisioning", "deprovisioning"] {
            assert_eq!(of(state, Some("https://i/b")), None, "no OS is installed while a host is {state}");
        }
        assert_eq!(warning(&host("", Some("https://i/a")), None), None, "a new host");
    }
}
