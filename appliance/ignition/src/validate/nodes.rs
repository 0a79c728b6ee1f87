//! Files, directories and links (`types/node.go`, `file.go`, `directory.go`, `storage.go`, `mode.go`).

use std::collections::{HashMap, HashSet};

use super::resource::{self, ResourceUse};
use super::{ConfigLocation, Rules, path};

const MODE_MAX: i64 = 0o7777;
/// setuid, setgid and sticky: Ignition drops them before 3.6.
const MODE_SPECIAL: i64 = 0o7000;

pub(super) fn check(rules: &mut Rules<'_>, storage: &ConfigLocation<'_>) {
    let (files, directories, links) = (storage.list("files"), storage.list("directories"), storage.list("links"));
    // One path is one node, whatever its kind.
    let mut seen = HashSet::new();
    for list in [&directories, &files, &links] {
        for node in list {
            rules.error_if_some(node, "path", path::fault(node.text("path").unwrap_or_default()));
            for owner in [node.object("user"), node.object("group")] {
                if owner.has("id") && owner.filled("name").is_some() {
                    rules.error(&owner, "", "has an id and a name: one of them is enough");
                }
            }
        }
        rules.unique(list, "path", &mut seen);
    }
    for directory in &directories {
        mode(rules, directory);
    }
    for file in &files {
        mode(rules, file);
        contents(rules, file);
    }
    below_links(rules, [&directories, &files, &links]);
    let directories = directories.iter().map(|directory| directory.text("path").unwrap_or_default()).collect();
    for link in &links {
        target(rules, link, &directories);
    }
}

fn mode(rules: &mut Rules<'_>, node: &ConfigLocation<'_>) {
    let Some(mode) = node.whole("mode") else { return };
    if !(0..=MODE_MAX).contains(&mode) {
        rules.error(node, "mode", "must be from 0 to 4095 (decimal for octal 7777)");
    } else if mode & MODE_SPECIAL != 0 {
        rules.warning(node, "mode", "has setuid, setgid or sticky bits, which work from spec 3.6 on only");
    }
}

fn contents(rules: &mut Rules<'_>, file: &ConfigLocation<'_>) {
    let contents = file.object("contents");
    resource::check(rules, &contents, ResourceUse::Contents);
    // May stand twice: it is appended twice.
    for append in file.list("append") {
        resource::check(rules, &append, ResourceUse::Contents);
    }
    if file.is("overwrite", true) && !contents.has("source") {
        rules.error(file, "overwrite", "must not be true without contents.source");
    }
}

/// Nothing may stand below a link of the config: where it would come to lie is not said.
fn below_links(rules: &mut Rules<'_>, lists: [&[ConfigLocation<'_>]; 3]) {
    let mut tree = PathTree::default();
    for link in lists[2] {
        tree.insert(link.text("path").unwrap_or_default());
    }
    for node in lists.into_iter().flatten() {
        if tree.is_below(node.text("path").unwrap_or_default()) {
            rules.error(node, "path", "leads through a link of the config");
        }
    }
}

/// Paths by their parts, so that a config of nothing but long paths takes no longer than others. Parts that follow one
/// another have numbers, from that of the root on: nothing here is as deep as a path is long.
#[derive(Default)]
struct PathTree<'p> {
    next: HashMap<(usize, &'p str), usize>,
    ends: HashSet<usize>,
}

impl<'p> PathTree<'p> {
    fn insert(&mut self, path: &'p str) {
        let mut at = 0;
        for part in path.split('/') {
            let new = self.next.len() + 1;
            at = *self.next.entry((at, part)).or_insert(new);
        }
        self.ends.insert(at);
    }

    /// Whether one of the paths, and a slash, begin this one.
    fn is_below(&self, path: &str) -> bool {
        let mut at = 0;
        for part in path.split('/') {
            if self.ends.contains(&at) {
                return true;
            }
            match self.next.get(&(at, part)) {
                Some(next) => at = *next,
                None => return false,
            }
        }
        false
    }
}

fn target(rules: &mut Rules<'_>, link: &ConfigLocation<'_>, directories: &HashSet<&str>) {
    // Up to 3.2 an empty target is a link to nothing.
    if link.filled("target").is_none() && rules.minor >= 3 {
        return rules.error(link, "target", "is needed");
    }
    if !link.is("hard", true) {
        return;
    }
    for owner in ["user", "group"] {
        if link.object(owner).has("id") || link.object(owner).has("name") {
            rules.warning(link, owner, "is ignored for a hard link");
        }
    }
    let target = link.text("target").unwrap_or_default();
    let target = match path::clean(target) {
        absolute if absolute.starts_with('/') => absolute,
        // Ignition takes it from the link itself, not from the link's directory.
        _ => path::join(link.text("path").unwrap_or_default(), target),
    };
    if directories.contains(target.as_str()) {
        rules.error(link, "target", "is a directory of the config, to which there is no hard link");
    }
}
