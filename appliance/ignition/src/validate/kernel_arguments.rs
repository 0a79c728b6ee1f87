//! Kernel arguments (`types/kargs.go`): each in one of the two lists, and there once.

use std::collections::HashSet;

use super::{ConfigLocation, Rules};

pub(super) fn check(rules: &mut Rules<'_>, arguments: &ConfigLocation<'_>) {
    let mut seen = HashSet::new();
    rules.unique_texts(arguments, "shouldExist", &mut seen);
    rules.unique_texts(arguments, "shouldNotExist", &mut seen);
}
