//! Names without an owner: condition types and event reasons, which are found where each is made.
//!
//! A condition is made by `Condition::new`, by a closure `condition`, or as a row of a name, whether it is so, and a
//! reason. An event is recorded by a call in which the reason has a fixed place ([`RECORDERS`]). The name there is a
//! text, a constant, an `EventReason` or a choice between them, or it comes by a parameter: then the caller is looked
//! at as well. What is none of these is a fault, so that no name is left out in silence.

use std::collections::BTreeSet;

use firesteel_facts::EventReason;

use super::constants::{Constants, end_of_statement};
use super::names::Found;
use super::rust::{Form, Token, close_of, parts};
use super::source::Source;

/// Methods that record an event, and at which of their arguments its reason is. Each must be called somewhere.
const RECORDERS: [(&str, usize); 5] = [
    ("record_event", 2),
    ("record_about", 1),
    ("record_network_event", 0),
    ("record_halt_event", 1),
    ("record_stream_event", 1),
];
/// A closure of this name records an event.
const SHORT: &str = "tell";
/// The object that an event is made of, with its field `reason`.
const EVENT: &str = "RecordedEvent";

/// The types of all conditions.
pub(crate) fn conditions(sources: &[Source], constants: &Constants<'_>) -> Found {
    let mut found = Found::default();
    for source in sources {
        let tokens = source.tokens.as_slice();
        let mut unseen = Vec::new();
        let mut is_helped = false;
        for at in (0..tokens.len()).filter(|at| tokens[*at].is_sign('(')) {
            let before = |back: usize, word: &str| at >= back && tokens[at - back].is_word(word);
            let is_new = before(1, "new") && before(4, "Condition");
            // A closure or a function that makes conditions of one kind, where it is called.
            let is_helper = before(1, "condition") && !before(2, "fn");
            let arguments = parts(tokens, at);
            if !is_new && !is_helper && !is_row(&arguments) {
                continue;
            }
            let Some(first) = arguments.first() else { continue };
            let types = name_in(first, source, constants);
            is_helped |= is_helper && !types.is_empty();
            if types.is_empty() && is_new {
                unseen.push(at);
            }
            found.add(types, &source.place(at));
        }
        let remedy = "name it by a text or a constant, or make it by a closure `condition` whose callers do";
        found.faults.extend(unseen.into_iter().filter(|_| !is_helped).map(|at| {
            format!("{}: the type of the condition that is made here cannot be seen: {remedy}", source.place(at))
        }));
    }
    found
}

/// Whether a list begins as conditions do that are made as rows: a name, whether it is so, and a reason.
fn is_row(arguments: &[&[Token]]) -> bool {
    let [[name], [status], [reason], ..] = arguments else { return false };
    let is_status = status.is_word("true") || status.is_word("false");
    is_status && reason.form == Form::Text && (name.form == Form::Text || is_constant(&name.text))
}

/// A text in camel case, or what a constant has.
fn name_in(tokens: &[Token], source: &Source, constants: &Constants<'_>) -> BTreeSet<String> {
    match tokens {
        [token] if token.form == Form::Text && is_camel(&token.text) => BTreeSet::from([token.text.clone()]),
        [.., last] if last.form == Form::Word && is_constant(&last.text) => {
            constants.texts(&last.text, module_of(tokens), source)
        }
        _ => BTreeSet::new(),
    }
}

/// The module in `module::NAME`.
fn module_of(path: &[Token]) -> Option<&str> {
    let [.., module, one, other, _] = path else { return None };
    (one.is_sign(':') && other.is_sign(':')).then_some(module.text.as_str())
}

fn is_constant(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_camel(text: &str) -> bool {
    let begins = text.starts_with(|letter: char| letter.is_ascii_uppercase());
    begins && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The reasons of all events.
pub(crate) fn events(sources: &[Source], constants: &Constants<'_>) -> Found {
    let mut found = Found::default();
    let (mut called, mut typed) = (BTreeSet::new(), BTreeSet::new());
    for source in sources {
        for at in 1..source.tokens.len() {
            if let Some(reason) = typed_reason(&source.tokens[at..]) {
                found.add(BTreeSet::from([reason.word().to_owned()]), &source.place(at));
                typed.insert(reason);
            }
            let Some((name, argument, is_sure)) = reason_at(source, at) else { continue };
            called.insert(name);
            match reasons(argument, at, source, constants) {
                Some(names) => found.add(names, &source.place(at)),
                None if is_sure => found.faults.push(format!(
                    "{}: the reason of the event that is recorded here cannot be seen: name it by a text, a constant \
                     or a choice between texts, or teach `reasons` in tests/tests/documents/made.rs to find it",
                    source.place(at)
                )),
                None => {}
            }
        }
    }
    let all = RECORDERS.iter().map(|(name, _)| *name).chain([SHORT, EVENT]);
    found.faults.extend(all.filter(|name| !called.contains(name)).map(|name| {
        format!("nothing calls `{name}` any more: say in tests/tests/documents/made.rs what records events now")
    }));
    let unused = EventReason::ALL.iter().filter(|reason| !typed.contains(reason));
    found.faults.extend(unused.map(|reason| format!("nothing records EventReason::{reason:?} any more: take it out")));
    found
}

/// What records an event here, with the argument that is its reason, and whether it records one in any case.
fn reason_at(source: &Source, at: usize) -> Option<(&'static str, &[Token], bool)> {
    let tokens = source.tokens.as_slice();
    let token = &tokens[at];
    let open = tokens.get(at + 1)?;
    if token.is_word(EVENT) && open.is_sign('{') && !tokens[at - 1].is_word("struct") {
        let fields = parts(tokens, at + 1);
        let field = fields.into_iter().find(|field| field.first().is_some_and(|name| name.is_word("reason")))?;
        // `reason: value`, or `reason` alone.
        let value = if field.len() > 2 { &field[2..] } else { field };
        return Some((EVENT, value, true));
    }
    if !open.is_sign('(') {
        return None;
    }
    let arguments = parts(tokens, at + 1);
    let is_method = tokens[at - 1].is_sign('.') && !(at > 1 && tokens[at - 2].is_sign('.'));
    if is_method {
        let (name, place) = RECORDERS.into_iter().find(|(name, _)| token.is_word(name))?;
        return Some((name, *arguments.get(place)?, true));
    }
    // A closure of the same name, with the reason first and whether it is a warning.
    let [reason, [status], ..] = arguments.as_slice() else { return None };
    let is_status = status.is_word("true") || status.is_word("false");
    (token.is_word(SHORT) && is_status && !tokens[at - 1].is_word("fn")).then_some((SHORT, *reason, true))
}

/// The reasons that an argument may be; none where a caller gives it, `None` where they cannot be seen.
fn reasons(argument: &[Token], at: usize, source: &Source, constants: &Constants<'_>) -> Option<BTreeSet<String>> {
    let texts = texts_in(argument);
    if !texts.is_empty() {
        return Some(texts);
    }
    let value = without_conversion(argument);
    let named = name_in(value, source, constants);
    if !named.is_empty() {
        return Some(named);
    }
    match value {
        [word] if word.form == Form::Word => of_variable(&word.text, at, source),
        // Of a value that was made elsewhere with its reason.
        [.., dot, field] if dot.is_sign('.') && field.is_word("reason") => Some(BTreeSet::new()),
        [.., close] if close.is_sign(')') => of_call(value, source),
        _ => None,
    }
}

/// Texts in camel case.
fn texts_in(tokens: &[Token]) -> BTreeSet<String> {
    let texts = tokens.iter().filter(|token| token.form == Form::Text && is_camel(&token.text));
    texts.map(|token| token.text.clone()).collect()
}

/// The reason that a path `EventReason::…` names, which begins here.
fn typed_reason(tokens: &[Token]) -> Option<EventReason> {
    let [owner, one, other, variant, ..] = tokens else { return None };
    let is_path = owner.is_word("EventReason") && one.is_sign(':') && other.is_sign(':');
    EventReason::ALL.iter().copied().find(|reason| is_path && variant.is_word(&format!("{reason:?}")))
}

/// Strips what borrows, copies or spells the value.
fn without_conversion(argument: &[Token]) -> &[Token] {
    let mut value = match argument {
        [borrow, rest @ ..] if borrow.is_sign('&') => rest,
        _ => argument,
    };
    while let [rest @ .., dot, name, open, close] = value
        && dot.is_sign('.')
        && ["to_owned", "clone", "as_str", "word"].iter().any(|word| name.is_word(word))
        && open.is_sign('(')
        && close.is_sign(')')
    {
        value = rest;
    }
    value
}

/// What a variable may be: nothing where it is a parameter, else the texts that it is made of.
fn of_variable(name: &str, at: usize, source: &Source) -> Option<BTreeSet<String>> {
    let tokens = source.tokens.as_slice();
    let function = source.function_at(at)?;
    if tokens[function.parameters.clone()].iter().any(|token| token.is_word(name)) {
        return Some(BTreeSet::new());
    }
    let lets = (function.body.start..at).rev().filter(|place| tokens[*place].is_word("let"));
    for place in lets {
        let end = end_of_statement(tokens, place);
        let statement = &tokens[place..end];
        let Some(equals) = statement.iter().position(|token| token.is_sign('=')) else { continue };
        let (pattern, value) = statement.split_at(equals);
        if pattern.iter().any(|token| token.is_word(name)) {
            return Some(texts_in(value)).filter(|texts| !texts.is_empty());
        }
    }
    None
}

/// The texts of the functions of the same file that have the name of the one that is called.
fn of_call(value: &[Token], source: &Source) -> Option<BTreeSet<String>> {
    let closes_last = |at: &usize| value[*at].is_sign('(') && close_of(value, *at) + 1 == value.len();
    let open = (0..value.len()).find(closes_last)?;
    let name = value.get(open.checked_sub(1)?)?;
    let meant = source.functions.iter().filter(|function| name.is_word(&function.name));
    let texts: BTreeSet<String> = meant.flat_map(|function| texts_in(&source.tokens[function.body.clone()])).collect();
    Some(texts).filter(|texts| !texts.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> [Source; 1] {
        [Source::of("appliance/src/a.rs", text)]
    }

    fn events_in(text: &str) -> (Vec<String>, usize) {
        let sources = source(text);
        let found = events(&sources, &Constants::of(&sources));
        // Those that are called nowhere are left out: each case calls one alone.
        let unseen = found.faults.iter().filter(|fault| fault.contains("cannot be seen")).count();
        (found.names.into_keys().collect(), unseen)
    }

    #[test]
    fn reasons_are_found_in_each_form() {
        let cases: [(&str, &[&str], usize); 11] = [
            ("fn a() { if b { EventReason::Attached } else { EventReason::Detached } }", &["Attached", "Detached"], 0),
            ("fn a() { s.record_about(r, \"Direct\", x); }", &["Direct"], 0),
            ("fn a() { s.record_about(r, if b { \"One\" } else { \"Other\" }, x); }", &["One", "Other"], 0),
            ("const R: &str = \"Kept\"; fn a() { self.record_event(key, &uid, R, true, x); }", &["Kept"], 0),
            (
                "fn a() { let (reason, text) = match b { C => (\"One\", 1), D => (\"Two\", 2) }; \
              s.record_network_event(reason, true, text); }",
                &["One", "Two"],
                0,
            ),
            ("fn a(reason: &str) { let o = RecordedEvent { regarding, reason: reason.to_owned(), message }; }", &[], 0),
            (
                "fn a() { let o = RecordedEvent { regarding, reason: event.reason.word().to_owned(), message }; }",
                &[],
                0,
            ),
            ("fn text(self) -> &'static str { \"Word\" } fn a() { s.record_about(r, why.text(), x); }", &["Word"], 0),
            ("fn a() { let mut tell = |reason, b, m| c; tell(\"Closed\", false, format!(\"x\")) }", &["Closed"], 0),
            ("fn a() { self.tell(decided, sets); notes.push(..event(now, \"Free\", x)); }", &[], 0),
            ("fn a() { s.record_about(r, unknown, x); }", &[], 1),
        ];
        for (text, names, unseen) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(events_in(text), (names, unseen), "{text}");
        }
    }

    #[test]
    fn conditions_are_found_in_each_form() {
        let cases: [(&str, &[&str], usize); 6] = [
            ("fn a() { Condition::new(\"Ready\", b, \"R\", \"\") }", &["Ready"], 0),
            ("const T: &str = \"Held\"; fn a() { Condition::new(T, true, \"R\", \"\"); }", &["Held"], 0),
            ("fn a() { vec![(\"Updated\", true, \"\", x), (\"none\", 1, \"\")] }", &["Updated"], 0),
            ("fn a() { let condition = |t, b| Condition::new(t, b, r, m); condition(\"Known\", true) }", &["Known"], 0),
            ("fn a() { other(\"Ready\", b); Conditional::new(\"No\", b) }", &[], 0),
            ("fn a() { Condition::new(kind, b, \"R\", \"\") }", &[], 1),
        ];
        for (text, names, unseen) in cases {
            let sources = source(text);
            let found = conditions(&sources, &Constants::of(&sources));
            assert_eq!(found.names.into_keys().collect::<Vec<_>>(), names, "{text}");
            assert_eq!(found.faults.len(), unseen, "{text}: {:?}", found.faults);
        }
    }
}
