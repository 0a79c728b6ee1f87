//! Whether a paragraph begins as a sentence does.

use super::words;

/// Says why this is no sentence.
pub(super) fn why(paragraph: &str) -> Option<String> {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let [first, rest @ ..] = words.as_slice() else { return None };
    if words::starts_as_fragment(paragraph) {
        return Some(format!("begins with `{}`, so its subject is missing", opening(first, rest)));
    }
    if words::is_value(first)
        && (first.ends_with(':') || rest.first().is_none_or(|next| words::is_joint(&words::bare(next))))
    {
        return Some(format!("begins with {}, so its verb is missing", first.trim_end_matches(':')));
    }
    if is_label(first) && !rest.is_empty() {
        return why_of(rest);
    }
    why_of(&words)
}

/// Whether a word is a label, such as the number of a clause, and not the start of code with a space in it.
fn is_label(word: &str) -> bool {
    word.ends_with(':') && word.matches('`').count() != 1
}

fn opening(first: &str, rest: &[&str]) -> String {
    match (first, rest) {
        ("The", [second, ..]) => format!("The {}", words::bare(second)),
        _ => first.to_owned(),
    }
}

fn why_of(words: &[&str]) -> Option<String> {
    let [first, rest @ ..] = words else { return None };
    let word = words::bare(first);
    if first.starts_with(['`', '[', '"']) {
        return None;
    }
    let next = rest.first().map(|next| words::bare(next)).unwrap_or_default();
    if words::is_leading(&word) && !begins_noun(&word, &next) && !main_clause_follows(words) {
        return Some(format!("begins with `{first}` and has no main clause behind a comma"));
    }
    if words::is_description(&word) && stands_alone(first, &word, rest) {
        return Some(format!("begins with `{first}`, which describes nothing"));
    }
    words::is_command(&word, &next).then(|| format!("begins with the command `{first}`"))
}

/// Whether a leading word begins a noun all the same: `At most 20 characters.`, `Not all hosts answered.`
fn begins_noun(word: &str, next: &str) -> bool {
    match word {
        "at" => ["least", "most"].contains(&next),
        "not" => ["all", "each", "every", "one"].contains(&next),
        _ => false,
    }
}

/// Whether an adjective or a participle has no noun behind it.
fn stands_alone(first: &str, word: &str, rest: &[&str]) -> bool {
    let Some(next) = rest.first().map(|next| words::bare(next)) else { return true };
    let is_cut = first.ends_with(['.', ',', ';', ':']);
    // "Never returns": the verb is there.
    let is_adverb = ["always", "never", "only"].contains(&word);
    let has_verb = is_adverb && words::is_finite(&next);
    let lacks_noun = words::is_joint(&next) || (is_adverb && words::is_description(&next));
    (is_cut || lacks_noun) && !has_verb && !words::may_be_noun_before(word, &next)
}

/// Whether the first sentence goes on behind a comma with a subject and its verb.
fn main_clause_follows(words: &[&str]) -> bool {
    let is_end = |word: &&&str| word.ends_with(['.', ';', ':', '?']);
    let end = words.iter().position(|word| is_end(&word)).map_or(words.len(), |end| end + 1);
    let sentence = &words[..end];
    let commas = sentence.iter().enumerate().filter(|(_, word)| word.ends_with(','));
    commas.into_iter().any(|(comma, _)| is_main_clause(&sentence[comma + 1..]))
}

fn is_main_clause(words: &[&str]) -> bool {
    let bare: Vec<String> = words.iter().map(|word| words::bare(word)).collect();
    let Some(first) = bare.first() else { return false };
    let next = bare.get(1).map(String::as_str).unwrap_or_default();
    if words::is_subordinate(first) || (words::is_leading(first) && !begins_noun(first, next)) {
        return false;
    }
    // The subject comes first.
    let verb = bare.iter().skip(1).position(|word| words::is_finite(word)).map(|at| at + 1);
    let subordinate = bare.iter().position(|word| words::is_subordinate(word));
    verb.is_some_and(|verb| subordinate.is_none_or(|subordinate| verb < subordinate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_found() {
        let cases = [
            ("Of its newest inspection.", "begins with `Of`, so its subject is missing"),
            ("The same for a claim.", "begins with `The same`, so its subject is missing"),
            ("Likewise, of a disk.", "begins with `Likewise,`, so its subject is missing"),
            ("`None`: too short.", "begins with `None`, so its verb is missing"),
            ("`None` where there is none.", "begins with `None`, so its verb is missing"),
            ("For everybody.", "begins with `For` and has no main clause behind a comma"),
            ("As the user wrote it, of which some is left.", "begins with `As` and has no main clause behind a comma"),
            ("Pure: from 1.", "begins with `from` and has no main clause behind a comma"),
            ("With the kernel; the disk is never told.", "begins with `With` and has no main clause behind a comma"),
            ("Written before the head.", "begins with `Written`, which describes nothing"),
            ("Not a request.", "begins with `Not` and has no main clause behind a comma"),
            ("Sorted.", "begins with `Sorted.`, which describes nothing"),
            ("Absent while it is polled.", "begins with `Absent`, which describes nothing"),
            ("Never empty; the last one is written now.", "begins with `Never`, which describes nothing"),
            ("Return the lease.", "begins with the command `Return`"),
        ];
        for (text, expected) in cases {
            assert_eq!(why(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn sentences_and_names_of_items_are_left_alone() {
        let cases = [
            "Returns the lease.",
            "The lease of a known host.",
            "When the host was last inspected.",
            "Whether a name is one of this host's.",
            "After a start, not all hosts have answered yet.",
            "If the channel is full, the sender waits.",
            "At most 20 characters.",
            "Not all bytes of a file were sent for this token.",
            "Set of disks.",
            "Shared libraries of a program.",
            "Failed installations of this image in a row.",
            "Never panics, whatever the bytes.",
            "Pure: the exit is a person's word.",
            "`host:channel:target:lun` of a disk.",
            "`FILE:LINE: CHANGE`; each is there once.",
            "Name servers of the network.",
            "Report of the agent.",
        ];
        for text in cases {
            assert_eq!(why(text), None, "{text}");
        }
    }
}
