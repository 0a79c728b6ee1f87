//! Words at the start of a doc comment, by what they say about it.

/// What leads a fragment whatever follows, and may not begin any line of a comment.
const FRAGMENTS: [&str; 5] = ["of", "also", "likewise", "ditto", "same"];

/// What leads a part of a sentence; its subject must follow behind a comma.
const LEADING: [&str; 53] = [
    "after", "against", "although", "among", "and", "as", "at", "because", "before", "behind", "below", "beneath",
    "beside", "besides", "between", "beyond", "but", "by", "during", "except", "for", "from", "if", "in", "inside",
    "instead", "into", "like", "nor", "not", "off", "on", "onto", "or", "out", "outside", "over", "per", "since", "so",
    "than", "through", "to", "under", "unless", "unlike", "until", "up", "upon", "while", "with", "within", "without",
];

/// What only describes; a noun must follow.
const ADJECTIVES: [&str; 24] = [
    "absent",
    "alive",
    "always",
    "deprecated",
    "due",
    "empty",
    "equal",
    "false",
    "free",
    "idempotent",
    "known",
    "missing",
    "never",
    "only",
    "present",
    "pure",
    "ready",
    "safe",
    "true",
    "unique",
    "unknown",
    "unset",
    "valid",
    "whole",
];

/// Participles that do not end in `ed`.
const PARTICIPLES: [&str; 26] = [
    "begun", "bound", "built", "chosen", "cut", "done", "drawn", "driven", "found", "given", "held", "kept", "left",
    "made", "meant", "put", "read", "said", "seen", "sent", "set", "shown", "taken", "thrown", "told", "written",
];

/// Words in `ed` that are nouns.
const NOUNS_IN_ED: [&str; 8] = ["bed", "embed", "feed", "hundred", "need", "seed", "shed", "speed"];

/// Participles that are nouns as well, where `of` follows.
const ALSO_NOUNS: [&str; 5] = ["cut", "left", "put", "read", "set"];

/// What cannot begin a noun, so that the adjective or participle before it stands alone.
const JOINTS: [&str; 57] = [
    "about", "after", "again", "against", "and", "as", "at", "because", "before", "behind", "below", "beneath",
    "beside", "between", "beyond", "but", "by", "during", "except", "for", "from", "if", "in", "inside", "into",
    "like", "nor", "not", "of", "off", "on", "once", "only", "onto", "or", "out", "outside", "over", "per", "since",
    "so", "than", "to", "together", "too", "under", "unless", "until", "up", "when", "where", "while", "with",
    "within", "without", "yet", "last",
];

/// Words before a noun; a verb right before one of them is a command.
const DETERMINERS: [&str; 18] = [
    "a", "all", "an", "another", "any", "each", "every", "it", "its", "no", "that", "the", "their", "them", "these",
    "this", "those", "what",
];

/// Verbs in the form of a command.
const COMMANDS: [&str; 66] = [
    "add", "allow", "answer", "append", "apply", "ask", "begin", "boot", "build", "call", "change", "check", "clean",
    "clear", "close", "compute", "convert", "copy", "count", "create", "delete", "drop", "end", "erase", "fetch",
    "find", "forget", "get", "give", "go", "hand", "keep", "leave", "let", "list", "load", "look", "make", "measure",
    "move", "name", "note", "open", "parse", "print", "put", "read", "record", "remove", "replace", "report",
    "restart", "return", "run", "say", "send", "serve", "set", "show", "start", "stop", "store", "take", "tell", "use",
    "write",
];

/// Verbs that may be the finite one of a clause.
const FINITE: [&str; 21] = [
    "are", "can", "cannot", "could", "did", "do", "does", "had", "has", "have", "is", "may", "might", "must", "need",
    "shall", "should", "was", "were", "will", "would",
];

/// What begins a clause that is not the main one, or goes on with a list.
const SUBORDINATES: [&str; 16] = [
    "and", "as", "but", "if", "nor", "or", "so", "than", "that", "what", "when", "where", "which", "while", "who",
    "whose",
];

/// Values that stand for a whole sentence.
const VALUES: [&str; 6] = ["`None`", "`Some`", "`true`", "`false`", "`Ok`", "`Err`"];

/// Whether a line begins as only a fragment does.
pub(super) fn starts_as_fragment(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return false };
    match first {
        "The" => words.next().is_some_and(|second| bare(second) == "same"),
        _ => first.starts_with(char::is_uppercase) && FRAGMENTS.contains(&bare(first).as_str()),
    }
}

pub(super) fn is_leading(word: &str) -> bool {
    LEADING.contains(&word)
}

/// Whether a word only describes, so that what it describes must follow.
pub(super) fn is_description(word: &str) -> bool {
    let is_regular = word.len() > "ed".len() + 2 && word.ends_with("ed") && !NOUNS_IN_ED.contains(&word);
    is_regular || ADJECTIVES.contains(&word) || PARTICIPLES.contains(&word)
}

pub(super) fn may_be_noun_before(word: &str, next: &str) -> bool {
    next == "of" && ALSO_NOUNS.contains(&word)
}

pub(super) fn is_joint(word: &str) -> bool {
    JOINTS.contains(&word)
}

pub(super) fn is_command(word: &str, next: &str) -> bool {
    COMMANDS.contains(&word) && DETERMINERS.contains(&next)
}

/// Whether a word may be the verb of a clause, behind its subject.
pub(super) fn is_finite(word: &str) -> bool {
    FINITE.contains(&word) || (word.len() > 3 && word.ends_with('s') && !word.ends_with("ss"))
}

pub(super) fn is_subordinate(word: &str) -> bool {
    SUBORDINATES.contains(&word)
}

pub(super) fn is_value(word: &str) -> bool {
    VALUES.iter().any(|value| word.trim_end_matches([':', ',', ';', '.']) == *value)
}

/// A word in small letters, without the signs around it.
pub(super) fn bare(word: &str) -> String {
    word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase()
}
