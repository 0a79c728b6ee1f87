//! Virtual media and Secure Boot in the Redfish model: the schemas VirtualMedia (with its actions InsertMedia and
//! EjectMedia) and SecureBoot. Pure.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::redfish::{LabBmcEffect, LabRedfishResponse, SystemView, collection, done, not_allowed, refuse};

/// Longest URL that is taken for an image.
const URL_BYTES_MAX: usize = 2048;

/// What is at or below `base`, a `…/VirtualMedia`, if anything is; `rest` is the path behind it.
pub(super) fn answer(
    system: &SystemView,
    method: &Method,
    base: &str,
    rest: &str,
    body: &[u8],
) -> Option<LabRedfishResponse> {
    let found = match rest {
        "" => collection("VirtualMediaCollection", base, &[format!("{base}/Cd")]),
        "/Cd" => drive(system, &format!("{base}/Cd")),
        "/Cd/Actions/VirtualMedia.InsertMedia" if method == Method::POST => return Some(insert(body)),
        "/Cd/Actions/VirtualMedia.EjectMedia" if method == Method::POST => return Some(done(LabBmcEffect::EjectMedia)),
        "/Cd/Actions/VirtualMedia.InsertMedia" | "/Cd/Actions/VirtualMedia.EjectMedia" => {
            return Some(not_allowed(method, &format!("{base}{rest}")));
        }
        _ => return None,
    };
    Some(if method == Method::GET {
        LabRedfishResponse { status: StatusCode::OK, body: Some(found), effect: None }
    } else {
        not_allowed(method, &format!("{base}{rest}"))
    })
}

fn drive(system: &SystemView, path: &str) -> Value {
    let image = system.media.as_deref();
    let name = image.and_then(|url| url.rsplit('/').next());
    json!({
        "@odata.id": path, "@odata.type": "#VirtualMedia.v1_3_0.VirtualMedia", "Id": "Cd", "Name": "Virtual CD",
        "MediaTypes": ["CD", "DVD"], "Image": image, "ImageName": name, "Inserted": image.is_some(),
        "ConnectedVia": if image.is_some() { "URI" } else { "NotConnected" }, "WriteProtected": true,
        "Actions": {
            "#VirtualMedia.InsertMedia": {"target": format!("{path}/Actions/VirtualMedia.InsertMedia")},
            "#VirtualMedia.EjectMedia": {"target": format!("{path}/Actions/VirtualMedia.EjectMedia")},
        },
    })
}

fn insert(body: &[u8]) -> LabRedfishResponse {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct InsertMediaRequest {
        image: String,
        #[serde(default = "yes")]
        inserted: bool,
        #[serde(default = "yes")]
        write_protected: bool,
    }
    let bad = |message: &str| refuse(StatusCode::BAD_REQUEST, "ActionParameterValueError", message);
    let asked: InsertMediaRequest = match serde_json::from_slice(body) {
        Ok(asked) => asked,
        Err(error) => return bad(&format!("InsertMedia: {error}")),
    };
    let is_url = ["http://", "https://"].iter().any(|scheme| asked.image.starts_with(scheme));
    if !is_url || asked.image.len() > URL_BYTES_MAX || asked.image.chars().any(char::is_control) {
        return bad("Image: the URL of an image, by http or https");
    }
    if !asked.inserted || !asked.write_protected {
        return bad("Inserted and WriteProtected: a CD is inserted, and cannot be written to");
    }
    done(LabBmcEffect::InsertMedia(asked.image))
}

fn yes() -> bool {
    true
}

/// The machines' firmware has no Secure Boot; that is their state.
pub(super) fn secure_boot(method: &Method, path: &str, body: &[u8]) -> LabRedfishResponse {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct SecureBootPatch {
        secure_boot_enable: bool,
    }
    match *method {
        Method::GET => {
            let body = json!({
                "@odata.id": path, "@odata.type": "#SecureBoot.v1_1_0.SecureBoot", "Id": "SecureBoot",
                "Name": "Secure Boot", "SecureBootEnable": false, "SecureBootCurrentBoot": "Disabled",
                "SecureBootMode": "SetupMode",
            });
            LabRedfishResponse { status: StatusCode::OK, body: Some(body), effect: None }
        }
        Method::PATCH => match serde_json::from_slice::<SecureBootPatch>(body) {
            Ok(SecureBootPatch { secure_boot_enable: false }) => {
                LabRedfishResponse { status: StatusCode::NO_CONTENT, body: None, effect: None }
            }
            Ok(_) => {
                let message = "SecureBootEnable: this firmware has no Secure Boot";
                refuse(StatusCode::BAD_REQUEST, "PropertyValueNotInList", message)
            }
            Err(error) => refuse(StatusCode::BAD_REQUEST, "PropertyValueTypeError", &error.to_string()),
        },
        _ => not_allowed(method, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_url_and_read_only() {
        for (body, effect) in [
            (r#"{"Image": "http://x/a.iso"}"#, Some(LabBmcEffect::InsertMedia("http://x/a.iso".to_owned()))),
            (
                r#"{"Image": "https://x/a", "Inserted": true}"#,
                Some(LabBmcEffect::InsertMedia("https://x/a".to_owned())),
            ),
            (r#"{"Image": "file:///etc/passwd"}"#, None),
            (r#"{"Image": "http://x/\u0007"}"#, None),
            (r#"{"Image": "http://x/a", "WriteProtected": false}"#, None),
            (r#"{"Image": 5}"#, None),
            ("", None),
        ] {
            let answer = insert(body.as_bytes());
            assert_eq!(answer.status.is_success(), effect.is_some(), "{body}");
            assert_eq!(answer.effect, effect, "{body}");
        }
    }

    #[test]
    fn secure_boot_is_off_and_stays_off() {
        let state = secure_boot(&Method::GET, "/x", b"").body;
        assert_eq!(state.and_then(|state| state["SecureBootEnable"].as_bool()), Some(false));
        let set = |body: &str| secure_boot(&Method::PATCH, "/x", body.as_bytes()).status;
        assert_eq!(set(r#"{"SecureBootEnable": false}"#), StatusCode::NO_CONTENT);
        assert_eq!(set(r#"{"SecureBootEnable": true}"#), StatusCode::BAD_REQUEST);
        assert_eq!(set("{}"), StatusCode::BAD_REQUEST);
    }
}
