//! Keeps the login of a BMC out of the texts that quote its answers. Some BMCs show the request that they refuse,
//! headers and values included, and more people read these texts than may know the password.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::BmcCredentials;

/// A shorter text stands in messages by chance.
const BYTES_MIN: usize = 4;
const INSTEAD: &str = "(hidden)";

/// Texts that are left out.
#[derive(Clone, Default)]
pub(crate) struct SecretMask(Vec<String>);

impl SecretMask {
    pub(crate) fn of(credentials: &BmcCredentials) -> Self {
        let BmcCredentials { username, password } = credentials;
        let pair = STANDARD.encode(format!("{username}:{password}"));
        Self::default().with_text(&pair).with_text(password).with_text(username)
    }

    pub(crate) fn with_text(mut self, text: &str) -> Self {
        if text.len() >= BYTES_MIN {
            self.0.push(text.to_owned());
            // One that has another in it goes whole.
            self.0.sort_by_key(|text| std::cmp::Reverse(text.len()));
        }
        self
    }

    /// The text without them.
    pub(crate) fn out_of(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, hidden| text.replace(hidden, INSTEAD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_not_told_in_any_form_that_it_was_sent_in() {
        let login = BmcCredentials { username: "admin".into(), password: "admin's \"Pä\"".into() };
        let hidden = SecretMask::of(&login).with_text("t0ken").with_text("a");
        assert_eq!(
            hidden.out_of("Basic YWRtaW46YWRtaW4ncyAiUMOkIg== of admin with admin's \"Pä\", t0ken: a value is wrong"),
            "Basic (hidden) of (hidden) with (hidden), (hidden): a value is wrong"
        );
    }
}
