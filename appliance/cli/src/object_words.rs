//! The objects that a command is about, as kubectl takes them: `KIND`, `KIND NAME…`, `KIND/NAME…` and `KIND,KIND`. Pure.

use super::kinds::{self, CliKind};
use super::usage::wrong_use;

/// Objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct KindSelection {
    pub(crate) kind: CliKind,
    /// The names of the objects; without any, all are meant.
    pub(crate) names: Vec<String>,
}

/// Reads the words behind a verb.
///
/// # Errors
/// When there is no such kind, or the words mix the two ways to name an object.
pub(crate) fn read(words: &[String]) -> anyhow::Result<Vec<KindSelection>> {
    let Some((first, names)) = words.split_first() else {
        return Err(wrong_use("the kind is missing: write KIND, KIND NAME or KIND/NAME, such as `hosts`"));
    };
    if words.iter().any(|word| word.contains('/')) {
        let mut found: Vec<KindSelection> = Vec::new();
        for word in words {
            let Some((kind, name)) = word.split_once('/').filter(|(kind, name)| !kind.is_empty() && is_name(name))
            else {
                let text =
                    format!("{word:?} is not of the form KIND/NAME, as the others are: write all of them so, or none");
                return Err(wrong_use(text));
            };
            let kind = kinds::by_name(kind)?;
            match found.last_mut().filter(|last| last.kind.resource() == kind.resource()) {
                Some(last) => last.names.push(name.to_owned()),
                None => found.push(KindSelection { kind, names: vec![name.to_owned()] }),
            }
        }
        return Ok(found);
    }
    let kind = if names.is_empty() { kinds::alone } else { kinds::by_name };
    let kinds: Vec<CliKind> = first.split(',').map(kind).collect::<Result<_, _>>()?;
    if kinds.len() > 1 && !names.is_empty() {
        return Err(wrong_use(format!("{first} are several kinds: name objects of them as KIND/NAME")));
    }
    if let Some(odd) = names.iter().find(|name| name.is_empty()) {
        return Err(wrong_use(format!("{odd:?} cannot be the name of an object of {first}")));
    }
    Ok(kinds.into_iter().map(|kind| KindSelection { kind, names: names.to_vec() }).collect())
}

/// Checks that an object is named: for verbs that are about single objects.
///
/// # Errors
/// When a kind stands alone.
pub(crate) fn need_names(verb: &str, selections: &[KindSelection]) -> anyhow::Result<()> {
    match selections.iter().find(|selection| selection.names.is_empty()) {
        None => Ok(()),
        Some(selection) => {
            let word = selection.kind.word();
            Err(wrong_use(format!(
                "the name is missing: write `firesteel {verb} {word} NAME`; `firesteel get {word}` shows the names"
            )))
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> anyhow::Result<Vec<String>> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let found = super::read(&words)?;
        Ok(found.iter().map(|one| format!("{}:{}", one.kind.plural, one.names.join("+"))).collect())
    }

    #[test]
    fn objects_are_named_in_each_of_kubectls_ways() {
        for (words, found) in [
            (&["hosts"][..], &["baremetalhosts:"][..]),
            (&["host", "a", "b"], &["baremetalhosts:a+b"]),
            (&["host/a", "hosts/b", "secret/c"], &["baremetalhosts:a+b", "secrets:c"]),
            (&["hosts,secrets"], &["baremetalhosts:", "secrets:"]),
        ] {
            assert_eq!(read(words).unwrap(), found, "{words:?}");
        }
    }

    #[test]
    fn words_that_do_not_fit_are_refused() {
        for (words, why) in [
            (&[][..], "the kind is missing"),
            (&["racks"], "there is no kind"),
            (&["host/a", "b"], "\"b\" is not of the form KIND/NAME"),
            (&["hosts", "host/a"], "\"hosts\" is not of the form"),
            (&["host/"], "not of the form"),
            (&["host/a/b"], "not of the form"),
            (&["hosts,secrets", "a"], "several kinds"),
            (&["hosts,"], "there is no kind \"\""),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.to_string().contains(why) && error.is::<super::super::usage::UsageError>(), "{error}");
        }
        let error = need_names("wait", &super::read(&["hosts".to_owned()]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("firesteel wait hosts NAME"), "{error}");
    }
}
