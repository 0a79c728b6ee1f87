//! The text files by which the agent (or modprobe) finds a module and what it needs.
//!
//! Names and grammar are those of `depmod`, so that Debian's tools can read the files in a rescue shell.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::tree::ModuleTree;

/// `modules.dep`: one line per module, `PATH: PATHS OF ALL THAT IT NEEDS`, the first needed one last.
pub(crate) fn dependencies(tree: &ModuleTree, chosen: &BTreeSet<String>) -> String {
    let mut out = String::new();
    for name in chosen {
        let Some(module) = tree.get(name) else { continue };
        out.push_str(&module.path);
        out.push(':');
        let mut needed = Vec::new();
        add_needed(tree, name, &mut needed);
        for name in needed.iter().rev().filter(|needed| *needed != name) {
            if let Some(module) = tree.get(name) {
                out.push(' ');
                out.push_str(&module.path);
            }
        }
        out.push('\n');
    }
    out
}

/// Depth first: what is needed stands before what needs it.
fn add_needed(tree: &ModuleTree, name: &str, order: &mut Vec<String>) {
    let Some(module) = tree.get(name) else { return };
    for needed in &module.info.depends {
        if !order.contains(needed) {
            add_needed(tree, needed, order);
        }
    }
    if !order.iter().any(|known| known == name) {
        order.push(name.to_owned());
    }
}

/// `modules.alias`: `alias PATTERN MODULE`.
pub(crate) fn aliases(tree: &ModuleTree, chosen: &BTreeSet<String>) -> String {
    let mut out = String::new();
    for name in chosen {
        for alias in tree.get(name).into_iter().flat_map(|module| &module.info.aliases) {
            // A pattern with a space would run into its module; none exists.
            if !alias.contains(char::is_whitespace) {
                append(&mut out, format_args!("alias {alias} {name}\n"));
            }
        }
    }
    out
}

/// `modules.softdep`: `softdep MODULE pre: … post: …`.
pub(crate) fn soft_dependencies(tree: &ModuleTree, chosen: &BTreeSet<String>) -> String {
    let mut out = String::new();
    for name in chosen {
        let Some(module) = tree.get(name) else { continue };
        let (before, after) = (&module.info.soft_before, &module.info.soft_after);
        if before.is_empty() && after.is_empty() {
            continue;
        }
        append(&mut out, format_args!("softdep {name}"));
        for (label, names) in [("pre:", before), ("post:", after)] {
            if !names.is_empty() {
                append(&mut out, format_args!(" {label} {}", names.join(" ")));
            }
        }
        out.push('\n');
    }
    out
}

fn append(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).unwrap_or_else(|_| unreachable!("writing to a string cannot fail"));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;

    #[test]
    fn text_is_what_depmod_would_write() {
        let mut tree = ModuleTree::default();
        for (path, fields) in [
            ("kernel/a.ko", [("depends", "b,c"), ("alias", "pci:v1*"), ("softdep", "pre: d post: e")].as_slice()),
            ("kernel/b.ko", &[("depends", "c")]),
            ("kernel/c-c.ko", &[]),
            ("kernel/c.ko", &[("alias", "fs-c")]),
        ] {
            tree.add(path, fixture::module(fields)).unwrap();
        }
        let chosen = tree.closure(["a"]).unwrap();
        assert_eq!(
            dependencies(&tree, &chosen),
            "kernel/a.ko: kernel/b.ko kernel/c.ko\nkernel/b.ko: kernel/c.ko\nkernel/c.ko:\n"
        );
        assert_eq!(aliases(&tree, &chosen), "alias pci:v1* a\nalias fs-c c\n");
        assert_eq!(soft_dependencies(&tree, &chosen), "softdep a pre: d post: e\n");
    }
}
