//! Arrows between the layers of a crate, with re-exports followed to the module that defines an item.

use crate::arrows::{self, Arrows, Layers};
use crate::manifest::Package;
use crate::modules::{Place, Resolver, Unit};
use crate::rule::{Hit, Rule};

/// Finds paths that lead from a layer to one above it, and layers that are not there.
pub fn check(packages: &[Package], units: &[Unit<'_>], resolver: &Resolver<'_>, arrows: &Arrows) -> Vec<Hit> {
    let mut hits = Vec::new();
    for layers in &arrows.layers {
        let package = packages.iter().position(|package| package.name == layers.package);
        let is_it = |unit: &&Unit<'_>| unit.library.is_some() && Some(unit.package) == package;
        let lost = lost(layers, units.iter().find(is_it));
        hits.extend(lost.iter().map(|module| in_table(layers, &format!("has no module {module}: correct its name"))));
        let of_package = |(_, unit): &(usize, &Unit<'_>)| Some(unit.package) == package;
        let own = units.iter().enumerate().filter(of_package);
        hits.extend(own.flat_map(|(index, unit)| upward(layers, index, unit, resolver)));
    }
    hits
}

/// The modules of the levels that the library does not have.
fn lost<'l>(layers: &'l Layers, unit: Option<&Unit<'_>>) -> Vec<&'l String> {
    let exists = |name: &str| {
        let path: Vec<String> = name.split('/').map(str::to_owned).collect();
        unit.is_some_and(|unit| unit.modules.contains_key(&path))
    };
    layers.modules().filter(|name| !exists(name)).collect()
}

/// Paths of a unit that lead to a higher level.
fn upward(layers: &Layers, index: usize, unit: &Unit<'_>, resolver: &Resolver<'_>) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (module, place) in &unit.modules {
        let Some((level, from)) = layers.level(module) else { continue };
        for path in &place.facts.used {
            let target = resolver.resolve(index, module, &path.segments).filter(|target| target.unit == index);
            let above =
                target.and_then(|Place { module, .. }| layers.level(&module)).filter(|(other, _)| *other > level);
            let Some((_, to)) = above else { continue };
            let item = format!("{from} -> {to}");
            let text = format!("{item}: `{}` leads up", path.segments.join("::"));
            hits.push(Hit { rule: Rule::FolderArrow, path: place.file.to_owned(), line: path.line, item, text });
        }
    }
    hits
}

fn in_table(layers: &Layers, what: &str) -> Hit {
    let (path, item) = (arrows::PATH.to_owned(), layers.package.clone());
    Hit { rule: Rule::FolderArrow, path, line: 1, text: format!("{item} {what}"), item }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::{ModuleFacts, read, units};
    use crate::rules::testing::{product, texts};

    fn found(levels: &[&[&str]]) -> Vec<Hit> {
        let sources = [
            ("a/src/lib.rs", "pub mod model; mod codec; mod serve; pub use serve::Page; pub use model::Kind;"),
            (
                "a/src/model.rs",
                "use crate::Page;\nuse crate::Kind;\npub struct Kind;\n#[cfg(test)] use crate::serve::x;",
            ),
            ("a/src/codec.rs", "use crate::model::Kind;\nfn f() { json!({ \"a\": super::serve::page() }); }"),
            ("a/src/serve.rs", "pub struct Page; use crate::{codec::f, model::Kind};"),
        ];
        let modules: Vec<Vec<ModuleFacts>> = sources.iter().map(|(_, text)| read(&product(text))).collect();
        let files = sources.iter().map(|(path, _)| *path).zip(modules.iter().map(Vec::as_slice)).collect();
        let packages = [Package { name: "a".to_owned(), folder: "a".to_owned(), ..Package::default() }];
        let units = units(&packages, &files);
        let levels = levels.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect();
        let layers = vec![Layers { package: "a".to_owned(), levels }];
        check(&packages, &units, &Resolver::new(&units), &Arrows { layers, ..Arrows::default() })
    }

    #[test]
    fn arrows_to_a_higher_layer_are_found() {
        let hits = found(&[&["model"], &["codec"], &["serve"]]);
        let expected = ["codec -> serve: `super::serve::page` leads up", "model -> serve: `crate::Page` leads up"];
        assert_eq!(texts(&hits), expected);
        assert_eq!((hits[0].path.as_str(), hits[0].line, hits[1].line), ("a/src/codec.rs", 2, 1));
    }

    #[test]
    fn arrows_down_and_on_one_level_are_left_alone() {
        assert_eq!(found(&[&["model", "codec", "serve"]]), []);
        assert_eq!(found(&[&["serve"], &["codec"]]).len(), 1);
    }

    #[test]
    fn layers_that_are_not_there_are_found() {
        assert_eq!(texts(&found(&[&["model"], &["later"]])), ["a has no module later: correct its name"]);
    }
}
