//! Users and groups (`types/passwd.go`): each once, and what they list once.

use std::collections::HashSet;

use super::{ConfigLocation, Rules};

pub(super) fn check(rules: &mut Rules<'_>, passwd: &ConfigLocation<'_>) {
    let users = passwd.list("users");
    for user in &users {
        rules.unique_texts(user, "groups", &mut HashSet::new());
        rules.unique_texts(user, "sshAuthorizedKeys", &mut HashSet::new());
    }
    rules.unique(&users, "name", &mut HashSet::new());
    rules.unique(&passwd.list("groups"), "name", &mut HashSet::new());
}
