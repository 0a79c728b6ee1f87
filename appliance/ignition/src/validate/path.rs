//! Paths as Go's `path` package sees them, and the rule for those of a config (`types/path.go`).

/// Why Ignition would not take this path; `None` when it would.
pub(super) fn fault(path: &str) -> Option<&'static str> {
    let inner = path.strip_prefix('/');
    match inner {
        None if path.is_empty() => Some("is needed"),
        None => Some("is not an absolute path"),
        Some("") => None,
        Some(inner) if inner.split('/').any(|part| matches!(part, "" | "." | "..")) => {
            Some("must be in its shortest form: without //, /., /.. and a slash at its end")
        }
        Some(_) => None,
    }
}

/// The shortest form (`path.Clean`), where `..` of the root is the root.
pub(super) fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if is_absolute => {}
            (part, _) => parts.push(part),
        }
    }
    match (is_absolute, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".to_owned(),
        (false, path) => path,
    }
}

/// Both as one, in its shortest form (`path.Join`).
pub(super) fn join(base: &str, path: &str) -> String {
    match (base, path) {
        ("", "") => String::new(),
        ("", one) | (one, "") => clean(one),
        (base, path) => clean(&format!("{base}/{path}")),
    }
}

/// What follows the last dot of the last part, with the dot (`path.Ext`).
pub(super) fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map_or("", |dot| &name[dot..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        for (path, wanted) in [
            ("", "."),
            ("/", "/"),
            ("/..", "/"),
            ("/a/../../b", "/b"),
            ("a/..", "."),
            ("../a/./b//c/..", "../a/b"),
            ("a/../../b", "../b"),
            ("../../a", "../../a"),
            ("/a/", "/a"),
        ] {
            assert_eq!(clean(path), wanted, "{path:?}");
            assert_eq!(fault(path).is_none(), path.starts_with('/') && path == wanted, "{path:?}");
        }
        assert_eq!([extension("a.b/c"), extension("a/.b"), extension("x.y.z"), extension("x.")], ["", ".b", ".z", "."]);
    }
}
