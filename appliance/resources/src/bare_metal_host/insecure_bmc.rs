//! What an owner gave up: a BMC whose certificate is taken unseen, or that is spoken to in the clear. It works, and
//! is said at admission and, for as long as it is so, by a condition.

use crate::bare_metal_host::address;
use crate::bare_metal_host::spec::BareMetalHostSpec;
use crate::condition::Condition;

/// The condition's type; present while it is false.
pub const TYPE: &str = "BMCTrusted";

/// The reason and the words, where the BMC's login is not protected on its way.
#[must_use]
pub fn lack(spec: &BareMetalHostSpec) -> Option<(&'static str, &'static str)> {
    let bmc = spec.usable_bmc().filter(|bmc| !address::is_ipmi(&bmc.address))?;
    if address::is_plain_http(&bmc.address) {
        return Some((
            "PlainHTTP",
            "spec.bmc.address asks for HTTP: a machine between the appliance and the BMC can read its password",
        ));
    }
    let text = "spec.bmc.disableCertificateVerification takes any certificate: a machine between the appliance and \
                the BMC can read its password; give the BMC's CA by `firesteel serve --bmc-ca` instead";
    bmc.disable_certificate_verification.then_some(("VerificationDisabled", text))
}

/// The warning for the client that stores the host.
#[must_use]
pub fn warning(spec: &BareMetalHostSpec) -> Option<String> {
    lack(spec).map(|(_, text)| text.to_owned())
}

/// The condition for the status.
#[must_use]
pub fn condition(spec: &BareMetalHostSpec) -> Option<Condition> {
    lack(spec).map(|(reason, text)| Condition::new(TYPE, false, reason, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bare_metal_host::spec::BmcDetails;

    #[test]
    fn what_was_given_up_is_said() {
        let lack = |address: &str, disable_certificate_verification| {
            let bmc =
                BmcDetails { address: address.into(), credentials_name: "s".into(), disable_certificate_verification };
            let spec = BareMetalHostSpec { bmc: Some(bmc), ..BareMetalHostSpec::default() };
            super::lack(&spec).map(|(reason, _)| reason)
        };
        assert_eq!(lack("redfish://192.0.2.5/", false), None);
        assert_eq!(lack("redfish://192.0.2.5/", true), Some("VerificationDisabled"));
        assert_eq!(lack("ilo5-redfish+http://192.0.2.5/", false), Some("PlainHTTP"));
        assert_eq!(lack("ipmi://192.0.2.5", true), None, "it has no certificate");
        assert_eq!(lack("", true), None);
    }
}
