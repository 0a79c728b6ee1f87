//! The line that bash completes. It splits words at colons and equals signs, so it is asked for the line itself. Pure.

/// A line up to the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BashLine {
    /// The words without their quotes; the last one is being typed, and may be empty.
    pub(super) words: Vec<String>,
    /// The part of the last word that bash keeps.
    kept: String,
    /// Whether the last word has an open quote, in which nothing is escaped.
    is_quoted: bool,
}

impl BashLine {
    /// Reads the line and, behind it, the characters at which bash breaks words.
    pub(super) fn read(arguments: &[String]) -> Self {
        let line = arguments.first().map(String::as_str).unwrap_or_default();
        let breaks = arguments.get(1).map(String::as_str).unwrap_or_default();
        let (mut words, mut word, mut quote, mut is_escaped) = (Vec::new(), String::new(), None, false);
        let mut has_begun = false;
        for letter in line.chars() {
            match (quote, letter) {
                _ if is_escaped => {
                    word.push(letter);
                    is_escaped = false;
                }
                (None | Some('"'), '\\') => (is_escaped, has_begun) = (true, true),
                (Some(open), _) if open == letter => quote = None,
                (Some(_), _) => word.push(letter),
                (None, '"' | '\'') => (quote, has_begun) = (Some(letter), true),
                (None, ' ' | '\t') => {
                    if std::mem::take(&mut has_begun) {
                        words.push(std::mem::take(&mut word));
                    }
                }
                (None, _) => {
                    word.push(letter);
                    has_begun = true;
                }
            }
        }
        let is_quoted = quote.is_some();
        let is_break = |letter: char| ":=".contains(letter) && breaks.contains(letter);
        let end = if is_quoted { None } else { word.rfind(is_break) };
        let kept = end.map(|end| word[..=end].to_owned()).unwrap_or_default();
        words.push(word);
        Self { words, kept, is_quoted }
    }

    /// What bash is to put in place of the part of the word that it does not keep.
    pub(super) fn replacement(&self, value: &str) -> String {
        let value = value.strip_prefix(self.kept.as_str()).unwrap_or(value);
        if self.is_quoted {
            return value.to_owned();
        }
        let is_plain = |letter: char| letter.is_alphanumeric() || "_./:=@%+,-".contains(letter);
        let mut escaped = String::new();
        for letter in value.chars() {
            if !is_plain(letter) {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> BashLine {
        BashLine::read(&[line.to_owned(), " \t\n\"'><=;|&(:".to_owned()])
    }

    #[test]
    fn a_line_is_split_as_a_shell_does_it() {
        for (line, words) in [
            ("firesteel get ho", &["firesteel", "get", "ho"][..]),
            ("firesteel  get ", &["firesteel", "get", ""]),
            ("firesteel watch --until 'externally prov", &["firesteel", "watch", "--until", "externally prov"]),
            ("firesteel lock a --reason \"x y\" ", &["firesteel", "lock", "a", "--reason", "x y", ""]),
            ("firesteel watch --until externally\\ pro", &["firesteel", "watch", "--until", "externally pro"]),
            ("firesteel lock '' ", &["firesteel", "lock", "", ""]),
        ] {
            assert_eq!(read(line).words, words, "{line}");
        }
    }

    #[test]
    fn bash_keeps_the_part_of_a_word_before_a_break() {
        assert_eq!(read("firesteel adopt 52:54:0").replacement("52:54:00:01"), "00:01");
        assert_eq!(read("firesteel get -o").replacement("json"), "json");
        assert_eq!(read("firesteel get --output=j").replacement("--output=json"), "json");
        assert_eq!(read("firesteel watch --until e").replacement("externally provisioned"), "externally\\ provisioned");
        assert_eq!(read("firesteel watch --until 'e").replacement("externally provisioned"), "externally provisioned");
        let unbroken = BashLine::read(&["firesteel adopt 52:5".to_owned(), " ".to_owned()]);
        assert_eq!(unbroken.replacement("52:54"), "52:54");
    }
}
