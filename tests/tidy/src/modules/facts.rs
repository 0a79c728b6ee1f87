//! The modules of one file.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Ident, Item, ItemMod, ItemUse, Macro, Path, UseTree, VisRestricted};

use crate::source::{Source, line_of, path_attribute};

/// One module of a file: the file's own one, or one between braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleFacts {
    /// The names of the modules around it in the file, then its own; nothing for the file's own one.
    pub inside: Vec<String>,
    /// Modules that it declares and that have files of their own.
    pub children: Vec<Child>,
    pub imports: Vec<Import>,
    /// Names of the items that it defines.
    pub defined: BTreeSet<String>,
    /// Paths that its code names, those of its imports included.
    pub used: Vec<UsedPath>,
}

/// A declaration `mod name;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub name: String,
    /// The file that `#[path]` names.
    pub file: Option<String>,
}

/// One name that `use` brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The name in this module; nothing for a glob.
    pub name: Option<String>,
    pub segments: Vec<String>,
}

/// A path, and the line that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedPath {
    pub segments: Vec<String>,
    pub line: usize,
}

/// Reads the modules of a file without its tests; the file's own one comes first.
pub fn read(source: &Source) -> Vec<ModuleFacts> {
    let mut reader = Reader { done: Vec::new(), current: ModuleFacts::default() };
    reader.visit_file(&source.file);
    reader.done.insert(0, reader.current);
    reader.done
}

struct Reader {
    done: Vec<ModuleFacts>,
    current: ModuleFacts,
}

impl Reader {
    fn add_use(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Name(name) => self.import(prefix, &name.ident, &name.ident),
            UseTree::Rename(rename) => self.import(prefix, &rename.ident, &rename.rename),
            UseTree::Glob(glob) => {
                self.current.imports.push(Import { name: None, segments: prefix.clone() });
                self.current.used.push(UsedPath { segments: prefix.clone(), line: line_of(glob.star_token.spans[0]) });
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(prefix, tree)),
        }
    }

    fn import(&mut self, prefix: &[String], last: &Ident, name: &Ident) {
        let mut segments = prefix.to_vec();
        // `use a::{self}` brings `a`.
        let is_self = last == "self" && !prefix.is_empty();
        if !is_self {
            segments.push(last.to_string());
        }
        let name = if is_self && name == "self" { prefix.last().cloned() } else { Some(name.to_string()) };
        self.current.used.push(UsedPath { segments: segments.clone(), line: line_of(last.span()) });
        self.current.imports.push(Import { name, segments });
    }

    /// Looks for paths in the tokens of a macro's call.
    fn search(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.use_path(std::mem::take(&mut segments), line);
                        line = line_of(word.span());
                    }
                    segments.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.use_path(std::mem::take(&mut segments), line);
                    colons = 0;
                    self.search(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.use_path(std::mem::take(&mut segments), line);
                    colons = 0;
                }
            }
        }
        self.use_path(segments, line);
    }

    /// A single name is either defined here or comes by an import, which counts itself.
    fn use_path(&mut self, segments: Vec<String>, line: usize) {
        if segments.len() > 1 {
            self.current.used.push(UsedPath { segments, line });
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Some(name) = name_of(item) {
            self.current.defined.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_none() {
            self.current.children.push(Child { name, file: path_attribute(&module.attrs) });
            return;
        }
        let mut inside = self.current.inside.clone();
        inside.push(name);
        let outer = std::mem::replace(&mut self.current, ModuleFacts { inside, ..ModuleFacts::default() });
        visit::visit_item_mod(self, module);
        let inner = std::mem::replace(&mut self.current, outer);
        self.done.push(inner);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_use(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.use_path(segments, path.segments.first().map_or(0, |first| line_of(first.ident.span())));
        visit::visit_path(self, path);
    }

    /// Leaves out `pub(in crate::…)`, which names who may use the item.
    fn visit_vis_restricted(&mut self, _visibility: &'ast VisRestricted) {}

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.search(call.tokens.clone());
    }
}

fn name_of(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::TraitAlias(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        Item::ExternCrate(_)
        | Item::ForeignMod(_)
        | Item::Impl(_)
        | Item::Mod(_)
        | Item::Use(_)
        | Item::Verbatim(_)
        | _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::product;

    fn joined(used: &[UsedPath]) -> Vec<String> {
        used.iter().map(|path| format!("{} {}", path.line, path.segments.join("::"))).collect()
    }

    #[test]
    fn imports_and_paths_are_read_with_their_lines() {
        let text = "use a::{self, b::{C, D as E}, *};\npub(in crate::x) fn f(x: g::H<i::J>) {\n    use k::L;\n    \
                    println!(\"{}\", m::n(o), p: crate::q);\n    local();\n}\n";
        let modules = read(&product(text));
        let expected = ["1 a", "1 a::b::C", "1 a::b::D", "1 a", "2 g::H", "2 i::J", "3 k::L", "4 m::n", "4 crate::q"];
        assert_eq!(joined(&modules[0].used), expected);
        let names: Vec<Option<&str>> = modules[0].imports.iter().map(|import| import.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("C"), Some("E"), None, Some("L")]);
        assert_eq!(modules[0].defined, BTreeSet::from(["f".to_owned()]));
    }

    #[test]
    fn modules_are_read_with_those_between_braces_apart() {
        let text = "mod a;\nmod b {\n    #[path = \"z.rs\"]\n    pub mod c;\n    mod d { struct E; }\n}\nstruct F;";
        let modules = read(&product(text));
        let inside: Vec<String> = modules.iter().map(|module| module.inside.join("::")).collect();
        assert_eq!(inside, ["", "b::d", "b"]);
        assert_eq!(modules[0].children, [Child { name: "a".to_owned(), file: None }]);
        assert_eq!(modules[2].children, [Child { name: "c".to_owned(), file: Some("z.rs".to_owned()) }]);
        assert_eq!(modules[1].defined, BTreeSet::from(["E".to_owned()]));
        assert_eq!(modules[0].defined, BTreeSet::from(["F".to_owned()]));
    }
}
