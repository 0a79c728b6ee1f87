//! A warning at the edit by which a host loses the OS that it runs: another image, or none. Upstream's edit is the same,
//! and says nothing.

use crate::bare_metal_host::BareMetalHost;
use crate::bare_metal_host::image_form::unwritable;
use crate::bare_metal_host::status::ProvisioningState;

/// Says that the host is deprovisioned by this edit; `old` is the host before it.
pub(crate) fn warning(new: &BareMetalHost, old: Option<&BareMetalHost>) -> Option<String> {
    let old = old?;
    let provisioning = &old.status.as_ref()?.provisioning;
    if provisioning.state != ProvisioningState::Provisioned {
        return None;
    }
    let (before, wanted) = (old.spec.wanted_image(), new.spec.wanted_image());
    let what = match (provisioning.image.as_ref()?, wanted) {
        // Who applies the same again knows it.
        _ if before.map(|image| &image.url) == wanted.map(|image| &image.url) => return None,
        (installed, Some(wanted)) if wanted.url == installed.url => return None,
        // It ends in an error, and the OS stays.
        (_, Some(wanted)) if unwritable(wanted).is_some() => return None,
        (_, Some(_)) => "spec.image.url names another image",
        (_, None) => "spec.image is gone",
    };
    Some(format!("{what}: the host is deprovisioned, and loses its OS, unless it is locked, paused or detached"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    const INSTALLED: &str = "https://i/a";

    fn host(state: &str, image: Option<&str>) -> BareMetalHost {
        let image = image.map(|url| json!({"url": url}));
        let status = json!({"provisioning": {"state": state, "image": {"url": INSTALLED}}});
        crate::admit::decode(&json!({"spec": {"image": image}, "status": status})).unwrap()
    }

    #[test]
    fn only_the_edit_that_costs_the_os_is_warned_of() {
        let of = |old: BareMetalHost, new: Option<&str>| warning(&host("", new), Some(&old));
        let installed = || host("provisioned", Some(INSTALLED));
        assert!(of(installed(), Some("https://i/b")).unwrap().starts_with("spec.image.url names another image: "));
        assert!(of(installed(), None).unwrap().starts_with("spec.image is gone: "));
        assert_eq!(of(installed(), Some(INSTALLED)), None);
        assert_eq!(of(installed(), Some("oci://i/b")), None, "it keeps the OS");
        assert_eq!(of(host("provisioned", Some("https://i/b")), Some("https://i/b")), None, "the same again");
        assert_eq!(
            of(host("provisioned", Some("https://i/b")), Some(INSTALLED)),
            None,
            "taken back while it is locked"
        );
        for state in ["available", "provisioning", "deprovisioning"] {
            assert_eq!(of(host(state, Some(INSTALLED)), Some("https://i/b")), None, "no OS is installed: {state}");
        }
        assert_eq!(warning(&host("", Some(INSTALLED)), None), None, "a new host");
    }
}
