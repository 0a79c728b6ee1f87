//! The index of a ramdisk's modules: names, aliases, what is needed before and after.
//!
//! Pure: text in, names out. The grammar is that of `depmod`'s files. Module names are compared
//! with `_` for `-`, as the kernel does.

use std::collections::{BTreeMap, BTreeSet};

/// Chains of modules are a dozen long; a damaged index must not send us round in circles.
const DEPTH_MAX: usize = 64;

/// What the four text files of a modules' folder say.
#[derive(Debug, Default)]
pub struct Index {
    modules: BTreeMap<String, ModuleIndexEntry>,
    /// Pattern (with `_`) and module, in the order of the file.
    aliases: Vec<(String, String)>,
    builtin: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct ModuleIndexEntry {
    path: String,
    needs: Vec<String>,
    soft_before: Vec<String>,
    soft_after: Vec<String>,
}

/// Reads any text as each of the files, and asks; must neither panic nor loop.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let index = Index::parse(&text, &text, &text, &text);
    for word in text.split_whitespace().take(16) {
        for module in index.resolve(word) {
            drop(index.load_order(&module));
        }
    }
}

impl Index {
    /// Parses the contents of `modules.dep`, `modules.alias`, `modules.softdep` and `modules.builtin`. Lines that make
    /// no sense are passed over.
    pub fn parse(dependencies: &str, aliases: &str, soft: &str, builtin: &str) -> Self {
        let mut index = Self::default();
        for (path, needs) in dependencies.lines().filter_map(|line| line.split_once(':')) {
            let needs = needs.split_whitespace().map(name_of_path).collect();
            index.modules.insert(
                name_of_path(path),
                ModuleIndexEntry { path: path.to_owned(), needs, ..ModuleIndexEntry::default() },
            );
        }
        for line in aliases.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(pattern), Some(module)) = (words.next(), words.next(), words.next()) {
                index.aliases.push((normal(pattern), normal(module)));
            }
        }
        for line in soft.lines() {
            index.add_soft(line);
        }
        index.builtin = builtin.lines().filter(|line| !line.is_empty()).map(name_of_path).collect();
        index
    }

    fn add_soft(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (Some("softdep"), Some(module)) = (words.next(), words.next()) else { return };
        let Some(module) = self.modules.get_mut(&normal(module)) else { return };
        let mut after = false;
        for word in words {
            match word {
                "pre:" => after = false,
                "post:" => after = true,
                name if after => module.soft_after.push(normal(name)),
                name => module.soft_before.push(normal(name)),
            }
        }
    }

    pub fn is_builtin(&self, name: &str) -> bool {
        self.builtin.contains(&normal(name))
    }

    /// The module's file, below the modules' folder.
    pub fn path(&self, module: &str) -> Option<&str> {
        self.modules.get(module).map(|module| module.path.as_str())
    }

    /// Whether any module is for `wanted`.
    pub fn matches(&self, wanted: &str) -> bool {
        !self.resolve(wanted).is_empty()
    }

    /// The modules that `wanted` stands for: the one of this name, else all whose alias fits.
    pub fn resolve(&self, wanted: &str) -> Vec<String> {
        let wanted = normal(wanted);
        if self.modules.contains_key(&wanted) {
            return vec![wanted];
        }
        let mut found: Vec<String> = Vec::new();
        for (pattern, module) in &self.aliases {
            if !found.contains(module) && fits(pattern.as_bytes(), wanted.as_bytes()) {
                found.push(module.clone());
            }
        }
        found
    }

    /// `module` with everything that comes before and after it, each once.
    pub fn load_order(&self, module: &str) -> Vec<String> {
        let mut order = Vec::new();
        self.add_to_order(module, DEPTH_MAX, &mut BTreeSet::new(), &mut order);
        order
    }

    fn add_to_order(&self, name: &str, depth: usize, seen: &mut BTreeSet<String>, order: &mut Vec<String>) {
        let Some(module) = self.modules.get(name) else { return };
        if depth == 0 || !seen.insert(name.to_owned()) {
            return;
        }
        let soft = |names: &[String]| names.iter().flat_map(|name| self.resolve(name)).collect::<Vec<_>>();
        // `needs` names the first to load last, and each needed module brings its own soft needs.
        for before in soft(&module.soft_before).iter().chain(module.needs.iter().rev()) {
            self.add_to_order(before, depth - 1, seen, order);
        }
        order.push(name.to_owned());
        for after in &soft(&module.soft_after) {
            self.add_to_order(after, depth - 1, seen, order);
        }
    }
}

fn name_of_path(path: &str) -> String {
    let file = path.trim().rsplit('/').next().unwrap_or_default();
    normal(file.split(".ko").next().unwrap_or(file))
}

/// Underscores for dashes, but not within brackets, where a dash is a range.
fn normal(text: &str) -> String {
    let mut in_brackets = false;
    text.chars()
        .map(|c| {
            in_brackets = c == '[' || (in_brackets && c != ']');
            if c == '-' && !in_brackets { '_' } else { c }
        })
        .collect()
}

/// Shell-like match with `*`, `?` and `[…]`, without backtracking further than the last star.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        let step = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(_), Some(byte)) => fits_one(&pattern[p..], *byte),
            (None, Some(_)) | (Some(_), None) => None,
        };
        if let Some(length) = step {
            p += length;
            t += 1;
        } else {
            let Some((after_star, from)) = retry.filter(|(_, from)| *from < text.len()) else { return false };
            retry = Some((after_star, from + 1));
            (p, t) = (after_star, from + 1);
        }
    }
}

/// How many bytes of the pattern stand for `byte`, if they do.
fn fits_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|c| *c == b']')?;
            let mut class = &rest[..end];
            let mut found = false;
            while let Some((first, tail)) = class.split_first() {
                if let [b'-', last, tail @ ..] = tail {
                    found |= (*first..=*last).contains(&byte);
                    class = tail;
                } else {
                    found |= *first == byte;
                    class = tail;
                }
            }
            found.then_some(end + 2)
        }
        [exact, ..] => (*exact == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, text, expected) in [
            ("pci:v00008086d000010D3sv*sd*bc*sc*i*", "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00", true),
            ("pci:v00008086d000010D3sv*sd*bc*sc*i*", "pci:v00008086d000010D4sv00008086sd00000000bc02sc00i00", false),
            ("pci:v*d*sv*sd*bc01sc08i02*", "pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02", true),
            ("usb:v1d0[0-2]*", "usb:v1d02dc", true),
            ("usb:v1d0[0-2]*", "usb:v1d03dc", false),
            ("usb:v1d0[0-2", "usb:v1d00", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn circles_end() {
        let index =
            Index::parse("k/a.ko: k/b.ko\nk/b.ko: k/a.ko\n", "", "softdep a pre: b post: b\nsoftdep b pre: a\n", "");
        assert_eq!(index.load_order("a"), ["b", "a"]);
    }

    #[test]
    fn dashes_and_underscores_are_the_same() {
        let index = Index::parse("k/ata-piix.ko:\n", "alias of:N*Tacme,a-b ata-piix\n", "", "k/x-y.ko\n");
        assert_eq!(index.resolve("ata-piix"), ["ata_piix"]);
        assert_eq!(index.resolve("of:NxTacme,a-b"), ["ata_piix"]);
        assert!(index.is_builtin("x-y") && index.is_builtin("x_y"));
    }

    proptest! {
        #[test]
        fn survives_any_text(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            check(&bytes);
        }

        #[test]
        fn survives_any_index(lines in proptest::collection::vec("(alias|softdep|k/a.ko:|k/b.ko:) (pre:|post:|a|b|k/a.ko|k/b.ko|[*?\\[\\]a-]{1,6}) (a|b|k/b.ko)", 0..12)) {
            check(lines.join("\n").as_bytes());
        }

        #[test]
        fn a_star_fits_any_tail(head in "[a-z:]{0,8}", tail in "[a-zA-Z0-9:]{0,12}") {
            let whole = format!("{head}{tail}");
            let pattern = format!("{head}*");
            prop_assert!(fits(pattern.as_bytes(), whole.as_bytes()));
            let with_end = format!("{head}*#");
            prop_assert!(!fits(with_end.as_bytes(), whole.as_bytes()));
        }
    }
}
