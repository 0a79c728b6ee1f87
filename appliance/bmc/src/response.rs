//! An answer of a BMC: what its status means, and what of it may be shown.

use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName};
use serde::de::DeserializeOwned;

use crate::body;
use crate::error::{Error, plain_text};
use crate::model::{error_text, has_message_id};
use crate::secret_mask::SecretMask;

pub(crate) struct BmcResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Keeps the login out of what is shown.
    pub(crate) hidden: SecretMask,
}

impl BmcResponse {
    /// Turns the status into an error, which quotes the service; `what` names the request for people.
    pub(crate) fn accepted(self, what: &str, path: &str) -> Result<Self, Error> {
        let said = error_text(&self.body).map(|text| self.mask_secrets(&text));
        self.checked_answer(what, path, said)
    }

    /// Does so without a quotation, for what is not known to be a Redfish service: an address may lead to anything that
    /// the appliance reaches.
    pub(crate) fn accepted_unquoted(self, what: &str, path: &str) -> Result<Self, Error> {
        self.checked_answer(what, path, None)
    }

    fn checked_answer(self, what: &str, path: &str, said: Option<String>) -> Result<Self, Error> {
        let status = self.status.as_u16();
        let reason = self.status.canonical_reason().unwrap_or("no reason");
        let message = said.unwrap_or_else(|| reason.to_owned());
        match status {
            200..=299 => Ok(self),
            401 => Err(Error::Unauthorized),
            403 => Err(Error::Forbidden { message }),
            404 => Err(Error::NotFound { path: path.to_owned() }),
            429 | 503 => Err(Error::Busy { status }),
            501 | 405 => Err(Error::Unsupported { what: format!("{what} ({message})") }),
            _ => Err(Error::Refused { what: what.to_owned(), status, message }),
        }
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let detail = body::not_json(self.header(&CONTENT_TYPE), &self.body, &body::place_of(&error));
            Error::BadAnswer { what: format!("GET {path}"), detail: self.mask_secrets(&detail) }
        })
    }

    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// What the BMC said, for people.
    pub(crate) fn mask_secrets(&self, text: &str) -> String {
        plain_text(&self.hidden.out_of(text))
    }

    /// Decodes the body; `None` if the BMC does not have or show the resource.
    pub(crate) fn json_if_there<T: DeserializeOwned>(&self) -> Option<T> {
        if self.status.is_success() { serde_json::from_slice(&self.body).ok() } else { None }
    }

    pub(crate) fn etag(&self) -> Option<String> {
        self.header(&ETAG).map(str::to_owned)
    }

    /// What the BMC says in words.
    pub(crate) fn message(&self) -> Option<String> {
        error_text(&self.body)
    }

    /// Whether the BMC says why, and one of its reasons is this.
    pub(crate) fn has_message_id(&self, message_id: &str) -> bool {
        has_message_id(&self.body, message_id)
    }
}
