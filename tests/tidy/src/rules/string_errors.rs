//! Results whose error is a text.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{
    AngleBracketedGenericArguments, GenericArgument, GenericParam, ImplItemType, ItemType, Path, PathArguments,
    PathSegment, Type,
};

use crate::rule::{Hit, Rule};
use crate::source::{Source, line_of};

/// Folders of the command line. It may end in text, for a person reads it.
const COMMAND_LINE: [&str; 2] = ["appliance/cli/src/", "qemu/src/cli"];
/// Names with two parameters of which the second one is an error.
const RESULTS: [&str; 3] = ["Result", "Ok", "Err"];
/// What a crate's items call their own associated error.
const ASSOCIATED: [&str; 2] = ["Err", "Error"];

/// What a file says about errors; aliases may stand in other files of its crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorTypes {
    /// Each result with the name of its error's type.
    results: Vec<NamedPlace>,
    /// Each type that is named without a second parameter, which may be an alias of such a result.
    named: Vec<NamedPlace>,
    /// Aliases of results, with the name of the error's type.
    result_aliases: Vec<(String, String)>,
    /// Aliases of one other type.
    plain_aliases: Vec<(String, String)>,
    /// Associated errors that are texts.
    associated: Vec<NamedPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedPlace {
    name: String,
    line: usize,
}

/// Reads which types of errors a file names.
pub fn read(source: &Source) -> ErrorTypes {
    let mut types = Types::default();
    types.visit_file(&source.file);
    types.found
}

/// Finds results whose error is a text. Takes the files of one crate.
pub fn check(files: &[(&str, &ErrorTypes)]) -> Vec<Hit> {
    let mut texts: BTreeSet<&str> = BTreeSet::from(["String"]);
    let aliases: Vec<&(String, String)> = files.iter().flat_map(|(_, types)| &types.plain_aliases).collect();
    // An alias may be one of another alias.
    while let Some((alias, _)) =
        aliases.iter().find(|(alias, of)| texts.contains(of.as_str()) && !texts.contains(&**alias))
    {
        texts.insert(alias);
    }
    let result_aliases = files.iter().flat_map(|(_, types)| &types.result_aliases);
    let results: BTreeSet<&str> =
        result_aliases.filter(|(_, error)| texts.contains(error.as_str())).map(|(alias, _)| alias.as_str()).collect();
    let is_product = |(path, _): &&(&str, &ErrorTypes)| !COMMAND_LINE.iter().any(|folder| path.starts_with(folder));
    files.iter().filter(is_product).flat_map(|(path, types)| hits(path, types, &texts, &results)).collect()
}

fn hits(path: &str, types: &ErrorTypes, texts: &BTreeSet<&str>, results: &BTreeSet<&str>) -> Vec<Hit> {
    let hit = |place: &NamedPlace, text: String| Hit {
        rule: Rule::StringError,
        path: path.to_owned(),
        line: place.line,
        item: place.name.clone(),
        text,
    };
    let direct = types.results.iter().filter(|place| texts.contains(place.name.as_str()));
    let direct = direct.map(|place| hit(place, format!("`Result<_, {}>`", place.name)));
    let by_alias = types.named.iter().filter(|place| results.contains(place.name.as_str()));
    let by_alias = by_alias.map(|place| hit(place, format!("`{}` is a result whose error is a text", place.name)));
    let associated = types.associated.iter().map(|place| hit(place, format!("`type {} = String`", place.name)));
    direct.chain(by_alias).chain(associated).collect()
}

#[derive(Default)]
struct Types {
    found: ErrorTypes,
}

impl Types {
    fn add_alias(&mut self, alias: &ItemType) {
        let name = alias.ident.to_string();
        let Some(path) = path_of(&alias.ty) else { return };
        let Some(last) = path.segments.last() else { return };
        match error_of(last) {
            // `type Checked<T, E = String> = Result<T, E>`
            Some(error) => {
                let error = default_of(alias, &error).unwrap_or(error);
                self.found.result_aliases.push((name, error));
            }
            None if last.arguments.is_none() => self.found.plain_aliases.push((name, last.ident.to_string())),
            None => {}
        }
    }
}

/// The default of an alias' parameter.
fn default_of(alias: &ItemType, parameter: &str) -> Option<String> {
    alias.generics.params.iter().find_map(|generic| {
        let GenericParam::Type(generic) = generic else { return None };
        let is_it = generic.ident == parameter;
        generic.default.as_ref().filter(|_| is_it).and_then(|(_, default)| name_of(default))
    })
}

fn path_of(kind: &Type) -> Option<&Path> {
    if let Type::Path(path) = kind { Some(&path.path) } else { None }
}

/// The last name of a type without parameters.
fn name_of(kind: &Type) -> Option<String> {
    let last = path_of(kind)?.segments.last()?;
    last.arguments.is_none().then(|| last.ident.to_string())
}

/// The name of the error's type in `Result<_, Error>`.
fn error_of(segment: &PathSegment) -> Option<String> {
    let is_result = RESULTS.iter().any(|name| segment.ident == name);
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    is_result.then(|| second_of(arguments)).flatten()
}

fn second_of(arguments: &AngleBracketedGenericArguments) -> Option<String> {
    let GenericArgument::Type(kind) = arguments.args.iter().nth(1)? else { return None };
    name_of(kind)
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_type(&mut self, alias: &'ast ItemType) {
        self.add_alias(alias);
        visit::visit_item_type(self, alias);
    }

    fn visit_impl_item_type(&mut self, associated: &'ast ImplItemType) {
        let is_error = ASSOCIATED.iter().any(|name| associated.ident == name);
        if is_error && name_of(&associated.ty).is_some_and(|name| name == "String") {
            let line = line_of(associated.ident.span());
            self.found.associated.push(NamedPlace { name: associated.ident.to_string(), line });
        }
        visit::visit_impl_item_type(self, associated);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if let Some(last) = path.segments.last() {
            let line = line_of(last.ident.span());
            if let Some(name) = error_of(last) {
                self.found.results.push(NamedPlace { name, line });
            } else if !RESULTS.iter().any(|name| last.ident == name) && is_type_name(last) {
                self.found.named.push(NamedPlace { name: last.ident.to_string(), line });
            }
        }
        visit::visit_path(self, path);
    }
}

/// Whether this may be an alias without an error of its own.
fn is_type_name(segment: &PathSegment) -> bool {
    let has_second = matches!(&segment.arguments, PathArguments::AngleBracketed(arguments) if arguments.args.len() > 1);
    !has_second && segment.ident.to_string().starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::product;

    fn found(path: &str, files: &[&str]) -> Vec<String> {
        let types: Vec<ErrorTypes> = files.iter().map(|text| read(&product(text))).collect();
        let named: Vec<(&str, &ErrorTypes)> = types.iter().map(|types| (path, types)).collect();
        check(&named).into_iter().map(|hit| format!("{} {}", hit.line, hit.text)).collect()
    }

    #[test]
    fn texts_as_errors_are_found_wherever_a_type_stands() {
        let text = "fn a(f: impl Fn() -> Result<(), String>) -> std::result::Result<u8, std::string::String> {\n\
                    let x: Result<Vec<u8>, String> = y.collect::<Result<_, String>>();\nOk::<(), String>(())\n}\n\
                    struct B { x: Option<Result<Result<u8, String>, u8>> }\nimpl FromStr for B {\n    type Err = String;\n}";
        let result = "`Result<_, String>`";
        let expected = [1, 1, 2, 2, 3, 5].map(|line| format!("{line} {result}"));
        let found = found("a.rs", &[text]);
        assert_eq!(found[..6], expected);
        assert_eq!(found[6..], ["7 `type Err = String`"]);
    }

    #[test]
    fn aliases_are_followed_over_files() {
        let aliases = "type Why = Reason;\ntype Reason = String;\ntype Checked<T, E = Why> = Result<T, E>;\n\
                       type Ended = Result<(), Reason>;";
        let uses = "fn a() -> Result<u8, Why> {}\nfn b() -> Checked<u8> {}\nfn c() -> crate::Ended {}\n\
                    fn d() -> Checked<u8, Error> {}";
        let expected = [
            "4 `Result<_, Reason>`",
            "1 `Result<_, Why>`",
            "2 `Checked` is a result whose error is a text",
            "3 `Ended` is a result whose error is a text",
        ];
        assert_eq!(found("a.rs", &[aliases, uses]), expected);
    }

    #[test]
    fn enums_texts_as_values_and_the_command_line_are_left_alone() {
        let text = "fn a() -> Result<String, Error> {}\nfn b() -> Result<String> {}\nfn c() -> Map<u8, String> {}\n\
                    type Answer = Result<String, Error>;\nfn d() -> Answer {}\ntype Name = String;\n\
                    impl FromStr for B {\n    type Err = Error;\n    type Output = String;\n}";
        assert_eq!(found("a.rs", &[text]), Vec::<String>::new());
        assert_eq!(found("appliance/cli/src/x.rs", &["fn a() -> Result<(), String> {}"]), Vec::<String>::new());
    }
}
