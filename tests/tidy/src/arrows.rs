//! `arrows.toml`: which crate may use which, and which folder.

use serde::Deserialize;

/// Where the table stands, below the repository's root.
pub const PATH: &str = "tests/tidy/arrows.toml";
/// A row with this entry lets its crate use all crates of the workspace.
const ANY: &str = "*";

/// All allowed arrows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Arrows {
    /// A row for each crate of the workspace.
    #[serde(default, rename = "crate")]
    pub crates: Vec<CrateRow>,
    /// What packages must do without.
    #[serde(default)]
    pub without: Vec<Without>,
    /// Layers inside crates.
    #[serde(default)]
    pub layers: Vec<Layers>,
}

/// What a crate may use.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CrateRow {
    /// The package.
    pub name: String,
    /// Packages of the workspace that its product may use.
    #[serde(default)]
    pub uses: Vec<String>,
    /// Packages of the workspace that its tests may use beside these.
    #[serde(default)]
    pub tests_use: Vec<String>,
}

impl CrateRow {
    /// Whether the crate's product may use another one.
    pub fn may_use(&self, other: &str) -> bool {
        self.uses.iter().any(|used| used == other || used == ANY)
    }

    /// Whether the crate's tests may use another one.
    pub fn tests_may_use(&self, other: &str) -> bool {
        self.may_use(other) || self.tests_use.iter().any(|used| used == other)
    }

    /// Every package that the row names.
    pub fn named(&self) -> impl Iterator<Item = &String> {
        self.uses.iter().filter(|used| *used != ANY)
    }
}

/// Crates that packages must do without: those of the workspace whatever the way there, those of other projects directly.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Without {
    pub crates: Vec<String>,
    pub without: Vec<String>,
    /// What it keeps the packages from.
    pub why: String,
}

/// Levels of modules in one package, from the lowest on. A module may use its own level and those below.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// The package.
    pub package: String,
    /// The modules of each level, such as `host/turn`. `host/*` is every other module in `host`, and `*` every other
    /// one of the package.
    pub levels: Vec<Vec<String>>,
}

impl Layers {
    /// The level of a module and the entry that says so. `None` for a module above or beside the levels.
    pub fn level(&self, module: &[String]) -> Option<(usize, &str)> {
        let entries =
            self.levels.iter().enumerate().flat_map(|(level, names)| names.iter().map(move |name| (level, name)));
        let fitting = entries.filter_map(|(level, name)| Some((depth(name, module)?, level, name.as_str())));
        fitting.max_by_key(|(depth, _, _)| *depth).map(|(_, level, name)| (level, name))
    }

    /// The modules that the levels name, without those that a star stands for.
    pub fn modules(&self) -> impl Iterator<Item = &String> {
        self.levels.iter().flatten().filter(|name| !name.ends_with('*'))
    }
}

/// How closely an entry fits a module: the more segments, the closer, and a star less than a name.
fn depth(entry: &str, module: &[String]) -> Option<usize> {
    let folder = entry.strip_suffix('*').map(|folder| folder.trim_end_matches('/'));
    let segments: Vec<&str> = folder.unwrap_or(entry).split('/').filter(|part| !part.is_empty()).collect();
    let is_prefix = module.len() >= segments.len() && segments.iter().zip(module).all(|(one, other)| *one == other);
    match folder {
        Some(_) => (is_prefix && module.len() > segments.len()).then_some(2 * segments.len() + 1),
        None => is_prefix.then_some(2 * segments.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_entry_says_the_level() {
        let levels = [vec!["kind"], vec!["*", "host/*"], vec!["host/turn", "kinds"]];
        let levels = levels.map(|names| names.into_iter().map(str::to_owned).collect()).to_vec();
        let layers = Layers { package: String::new(), levels };
        let level = |module: &str| {
            let module: Vec<String> = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            layers.level(&module)
        };
        assert_eq!(level("kind::inner"), Some((0, "kind")));
        assert_eq!(level("kinds"), Some((2, "kinds")));
        assert_eq!(level("host"), Some((1, "*")));
        assert_eq!(level("host::seen::deep"), Some((1, "host/*")));
        assert_eq!(level("host::turn::bmc"), Some((2, "host/turn")));
        assert_eq!(level(""), None);
        assert_eq!(layers.modules().collect::<Vec<_>>(), ["kind", "host/turn", "kinds"]);
    }

    #[test]
    fn a_row_says_what_product_and_tests_may_use() {
        let text =
            "[[crate]]\nname = \"a\"\nuses = [\"b\"]\ntests_use = [\"c\"]\n[[crate]]\nname = \"d\"\nuses = [\"*\"]\n";
        let arrows: Arrows = toml::from_str(text).expect("a table of arrows");
        let [one, all] = arrows.crates.as_slice() else { panic!("two rows: {arrows:?}") };
        assert!(one.may_use("b") && !one.may_use("c") && one.tests_may_use("c") && one.tests_may_use("b"));
        assert!(all.may_use("b") && all.named().count() == 0);
        assert!(toml::from_str::<Arrows>("[[crate]]\nname = \"a\"\nuse = []\n").is_err());
    }
}
