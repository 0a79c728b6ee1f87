//! LVM's configuration text (lvm2, libdm/libdm-config.c): sections in braces, `key = value`, lists in brackets, and
//! comments. Reads what it can: a text that breaks off gives what stood before. Pure and bounded.

/// Sections in sections; real texts have four.
const DEPTH_MAX: u32 = 8;
/// Sections, keys and values of one text; a group with 1000 volumes has 20,000.
const NODES_MAX: usize = 500_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LvmValue {
    Text(String),
    Number(i64),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    values: Vec<(String, Vec<LvmValue>)>,
    pub(super) sections: Vec<Self>,
}

impl Section {
    pub(super) fn values(&self, key: &str) -> &[LvmValue] {
        self.values.iter().find(|(name, _)| name == key).map_or(&[], |(_, values)| values)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.values(key).iter().find_map(LvmValue::as_text)
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.values(key).iter().find_map(LvmValue::as_number)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Self> {
        self.sections.iter().find(|section| section.name == name)
    }
}

impl LvmValue {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }

    pub(super) fn as_number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Text(_) => None,
        }
    }
}

/// The text as one section, and whether it was read to its end.
pub(super) fn parse(text: &str) -> (Section, bool) {
    let mut reader = LvmTextParser { rest: text, nodes: 0 };
    let mut root = Section::default();
    let is_whole = reader.section(&mut root, 0).is_some();
    (root, is_whole)
}

struct LvmTextParser<'a> {
    rest: &'a str,
    nodes: usize,
}

impl<'a> LvmTextParser<'a> {
    /// Reads up to the brace that closes the section, or at the top to the end; `None` where the text is broken.
    fn section(&mut self, into: &mut Section, depth: u32) -> Option<()> {
        loop {
            self.skip();
            if self.rest.trim_start_matches('\0').is_empty() {
                return (depth == 0).then_some(());
            }
            if self.take('}') {
                return (depth > 0).then_some(());
            }
            self.count()?;
            let name = self.word()?.to_owned();
            self.skip();
            if self.take('{') {
                let mut inner = Section { name, ..Section::default() };
                let ended = if depth < DEPTH_MAX { self.section(&mut inner, depth + 1) } else { None };
                into.sections.push(inner);
                ended?;
            } else if self.take('=') {
                let mut values = Vec::new();
                let ended = self.values(&mut values);
                into.values.push((name, values));
                ended?;
            } else {
                return None;
            }
        }
    }

    fn values(&mut self, into: &mut Vec<LvmValue>) -> Option<()> {
        self.skip();
        if !self.take('[') {
            into.push(self.value()?);
            return Some(());
        }
        loop {
            self.skip();
            if self.take(']') {
                return Some(());
            }
            self.count()?;
            into.push(self.value()?);
            self.skip();
            let _has_more = self.take(',');
        }
    }

    fn value(&mut self) -> Option<LvmValue> {
        if self.take('"') {
            return self.quoted();
        }
        let word = self.word()?;
        Some(word.parse().map_or_else(|_| LvmValue::Text(word.to_owned()), LvmValue::Number))
    }

    fn quoted(&mut self) -> Option<LvmValue> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(LvmValue::Text(text));
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                character => text.push(character),
            }
        }
        None
    }

    /// Letters up to what ends a name or number.
    fn word(&mut self) -> Option<&'a str> {
        let is_end = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | '=' | ',' | '"' | '#' | '\0');
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Blanks and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.find('\n').map_or("", |end| &comment[end..]);
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn count(&mut self) -> Option<()> {
        self.nodes += 1;
        (self.nodes <= NODES_MAX).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_values_and_lists() {
        let (root, is_whole) = parse(
            "vg {\nid = \"a-b\"\t# not \"this\"\nseqno = 7\nflags = []\nstripes = [\n\"pv0\", 0,\n\"pv1\", 12\n]\n\
             inner { name = \"a \\\"b\\\"\" }\n}\n# Generated\ncontents = \"Text Format Volume Group\"\n\0\0",
        );
        assert!(is_whole);
        let group = &root.sections[0];
        assert_eq!((group.name.as_str(), group.text("id"), group.number("seqno")), ("vg", Some("a-b"), Some(7)));
        assert_eq!(group.values("flags"), []);
        assert_eq!(group.values("stripes").len(), 4);
        assert_eq!(group.section("inner").and_then(|inner| inner.text("name")), Some("a \"b\""));
        assert_eq!(root.text("contents"), Some("Text Format Volume Group"));
    }

    #[test]
    fn a_broken_text_gives_what_stood_before() {
        for broken in ["vg {\nid = \"a\"\nx", "vg {\nid = \"a\"\n", "vg {\nid = \"a\"\n= 3 }", "vg { id = \"a\" b [ }"]
        {
            let (root, is_whole) = parse(broken);
            assert!(!is_whole, "{broken}");
            assert_eq!(root.sections[0].text("id"), Some("a"), "{broken}");
        }
        assert!(!parse(&"a {".repeat(1000)).1, "as deep as the stack");
        assert!(parse("").1);
    }
}
