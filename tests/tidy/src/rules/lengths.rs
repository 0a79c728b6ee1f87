//! Lengths of files and functions.

use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use crate::rule::{Hit, Rule};
use crate::source::{Source, line_of};

/// Most lines of product code in a file, empty ones apart.
pub const PRODUCT_LINES_MAX: usize = 400;
/// Most lines of a file with its tests, and of a file of tests.
pub const FILE_LINES_MAX: usize = 800;
/// Most lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 60;
/// Most lines of a function of tests, which may list many cases.
pub const TEST_LINES_MAX: usize = 120;

/// Finds a file whose product is too long. Takes a source without its tests.
pub fn check_product(source: &Source) -> Vec<Hit> {
    let is_counted = |(index, line): &(usize, &str)| !line.trim().is_empty() && !source.is_test_line(index + 1);
    let count = source.text.lines().enumerate().filter(is_counted).count();
    let text = format!("{count} lines that are not empty, tests apart; {PRODUCT_LINES_MAX} are allowed");
    hit_if(count > PRODUCT_LINES_MAX, source, text)
}

/// Finds a file that is too long, whatever is in it.
pub fn check_file(source: &Source) -> Vec<Hit> {
    let count = source.text.lines().count();
    hit_if(count > FILE_LINES_MAX, source, format!("{count} lines; {FILE_LINES_MAX} are allowed, with tests"))
}

fn hit_if(is_hit: bool, source: &Source, text: String) -> Vec<Hit> {
    let hit = || Hit { rule: Rule::FileLength, path: source.path.clone(), line: 1, item: String::new(), text };
    is_hit.then(hit).into_iter().collect()
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub line: usize,
    pub line_count: usize,
}

/// Measures every function of a source, those of tests included.
pub fn functions(source: &Source) -> Vec<Function> {
    let mut functions = Functions(Vec::new());
    functions.visit_file(&source.file);
    functions.0
}

/// Finds functions that are too long. Takes the source without its tests, which may be longer, and all functions.
pub fn check_functions(source: &Source, is_test: bool, functions: &[Function]) -> Vec<Hit> {
    let hit = |Function { name, line, line_count }: &Function| {
        let is_test = is_test || source.is_test_line(*line);
        let max = if is_test { TEST_LINES_MAX } else { FUNCTION_LINES_MAX };
        let text = format!("`{name}` has {line_count} lines; {max} are allowed");
        let hit = Hit { rule: Rule::FunctionLength, path: source.path.clone(), line: *line, item: name.clone(), text };
        (*line_count > max).then_some(hit)
    };
    functions.iter().filter_map(hit).collect()
}

struct Functions(Vec<Function>);

impl Functions {
    fn measure(&mut self, signature: &Signature, body: &Block) {
        let line = line_of(signature.fn_token.span);
        let line_count = line_of(body.brace_token.span.close()) - line + 1;
        self.0.push(Function { name: signature.ident.to_string(), line, line_count });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{product, texts};

    fn found(text: &str, is_test: bool) -> Vec<String> {
        let mut source = Source::parse("a.rs", text.to_owned()).expect("a test writes Rust");
        let functions = functions(&source);
        source.remove_tests();
        let hits = check_functions(&source, is_test, &functions);
        hits.into_iter().map(|hit| format!("{} {}", hit.line, hit.text)).collect()
    }

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "x();\n".repeat(lines - 2))
    }

    #[test]
    fn long_functions_are_found_wherever_they_stand() {
        let (long, short) = (function("a", 61), function("b", 60));
        let text =
            format!("{long}{short}impl A {{\n{long}{short}}}\ntrait B {{\nfn c();\n{long}}}\nfn d() {{\n{long}}}\n");
        let expected = [
            "1 `a` has 61 lines; 60 are allowed",
            "123 `a` has 61 lines; 60 are allowed",
            "247 `a` has 61 lines; 60 are allowed",
            "309 `d` has 63 lines; 60 are allowed",
            "310 `a` has 61 lines; 60 are allowed",
        ];
        assert_eq!(found(&text, false), expected);
    }

    #[test]
    fn functions_of_tests_may_be_longer() {
        let cases = format!("{}{}", function("a", 120), function("b", 121));
        let expected = "`b` has 121 lines; 120 are allowed";
        assert_eq!(found(&cases, true), [format!("121 {expected}")]);
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{\n{cases}}}\n"), false), [format!("123 {expected}")]);
    }

    #[test]
    fn comments_count_in_a_file_and_empty_lines_and_tests_do_not() {
        let full = "// x\n\n".repeat(PRODUCT_LINES_MAX - 1);
        let tests = "#[cfg(test)]\nmod tests {\n    fn x() {}\n}\n";
        let at_most = format!("{full}fn a() {{}}\n{tests}");
        assert_eq!(texts(&check_product(&product(&at_most))), Vec::<&str>::new());
        let over = format!("{at_most}fn b() {{}}\n");
        let expected = "401 lines that are not empty, tests apart; 400 are allowed";
        assert_eq!(texts(&check_product(&product(&over))), [expected]);
    }

    #[test]
    fn tests_count_in_the_whole_file() {
        let full = "//\n".repeat(FILE_LINES_MAX);
        assert_eq!(check_file(&product(&full)), []);
        let over = format!("{full}\n");
        assert_eq!(texts(&check_file(&product(&over))), ["801 lines; 800 are allowed, with tests"]);
    }
}
