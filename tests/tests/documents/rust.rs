//! Rust as tokens: enough of its grammar to find calls, constants and their texts, whatever the formatting.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A name or a keyword.
    Word,
    /// What stands in a literal between quotes, with its escapes as they are written.
    Text,
    Number,
    /// One letter that is none of these.
    Sign,
}

/// One token, and the number of its line, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) form: Form,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.form == Form::Word && self.text == word
    }

    pub(crate) fn is_sign(&self, sign: char) -> bool {
        self.form == Form::Sign && self.text.chars().eq([sign])
    }

    pub(crate) fn opens(&self) -> bool {
        ['(', '[', '{'].into_iter().any(|sign| self.is_sign(sign))
    }

    pub(crate) fn closes(&self) -> bool {
        [')', ']', '}'].into_iter().any(|sign| self.is_sign(sign))
    }
}

/// Reads a source without its comments.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let letters: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { letters: &letters, at: 0, line: 1, tokens: Vec::new() };
    while let Some(letter) = lexer.peek(0) {
        match letter {
            _ if letter.is_whitespace() => lexer.step(1),
            '/' if lexer.peek(1) == Some('/') => lexer.skip_line(),
            '/' if lexer.peek(1) == Some('*') => lexer.skip_comment(),
            '"' => lexer.plain_text(),
            '\'' => lexer.character(),
            _ if is_word_letter(letter) => lexer.word(),
            _ => {
                lexer.push(Form::Sign, letter.to_string());
                lexer.step(1);
            }
        }
    }
    lexer.tokens
}

fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[derive(Debug)]
struct Lexer<'a> {
    letters: &'a [char],
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn step(&mut self, count: usize) {
        for _ in 0..count {
            self.line += usize::from(self.peek(0) == Some('\n'));
            self.at += 1;
        }
    }

    fn push(&mut self, form: Form, text: String) {
        self.tokens.push(Token { form, text, line: self.line });
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.step(1);
        }
    }

    /// Comments of this form may stand in each other.
    fn skip_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.step(2);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.step(2);
                }
                (Some(_), _) => self.step(1),
                (None, _) => return,
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A name, a number, or a text with a prefix.
    fn word(&mut self) {
        let mut word = String::new();
        while let Some(letter) = self.peek(0).filter(|letter| is_word_letter(*letter)) {
            word.push(letter);
            self.at += 1;
        }
        let hashes = (0..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
        match word.as_str() {
            "r" | "br" | "cr" if self.peek(hashes) == Some('"') => self.raw_text(hashes),
            "b" | "c" if self.peek(0) == Some('"') => self.plain_text(),
            _ => {
                let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
                self.push(if is_number { Form::Number } else { Form::Word }, word);
            }
        }
    }

    fn plain_text(&mut self) {
        let line = self.line;
        let mut text = String::new();
        self.step(1);
        while let Some(letter) = self.peek(0).filter(|letter| *letter != '"') {
            if letter != '\\' {
                text.push(letter);
                self.step(1);
            } else if self.peek(1) == Some('\n') {
                // The text goes on at the next line's first letter.
                self.step(1);
                while self.peek(0).is_some_and(char::is_whitespace) {
                    self.step(1);
                }
            } else {
                text.push(letter);
                text.extend(self.peek(1));
                self.step(2);
            }
        }
        self.step(1);
        self.tokens.push(Token { form: Form::Text, text, line });
    }

    fn raw_text(&mut self, hashes: usize) {
        let line = self.line;
        let mut text = String::new();
        self.step(hashes + 1);
        while let Some(letter) = self.peek(0) {
            let is_end = letter == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if is_end {
                break;
            }
            text.push(letter);
            self.step(1);
        }
        self.step(hashes + 1);
        self.tokens.push(Token { form: Form::Text, text, line });
    }

    /// A letter in quotes, or the quote of a lifetime; neither is of use.
    fn character(&mut self) {
        if self.peek(1) == Some('\\') {
            // The letter behind the backslash may be a quote.
            self.step(3);
            while self.peek(0).is_some_and(|letter| letter != '\'') {
                self.step(1);
            }
            self.step(1);
        } else if self.peek(2) == Some('\'') {
            self.step(3);
        } else {
            self.step(1);
        }
    }
}

/// Leaves out what `#[cfg(test)]` stands before.
pub(crate) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let ahead = tokens[at..].iter().map(|token| token.text.as_str()).take(MARK.len());
        if ahead.eq(MARK) {
            at = end_of_item(tokens, at + MARK.len());
        } else {
            kept.push(token.clone());
            at += 1;
        }
    }
    kept
}

/// Behind the item that begins here.
fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        if token.is_sign('{') {
            return close_of(tokens, at) + 1;
        }
        if token.is_sign(';') {
            return at + 1;
        }
        at = if token.opens() { close_of(tokens, at) + 1 } else { at + 1 };
    }
    at
}

/// Where the bracket closes that opens here.
pub(crate) fn close_of(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len().saturating_sub(1)
}

/// The parts between the commas of the bracket that opens here.
pub(crate) fn parts(tokens: &[Token], open: usize) -> Vec<&[Token]> {
    let close = close_of(tokens, open);
    let mut parts = Vec::new();
    let mut start = open + 1;
    let mut at = start;
    while at < close {
        if tokens[at].is_sign(',') {
            parts.push(&tokens[start..at]);
            start = at + 1;
        }
        at = if tokens[at].opens() { close_of(tokens, at) + 1 } else { at + 1 };
    }
    if start < close {
        parts.push(&tokens[start..close]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).into_iter().map(|token| format!("{:?} {}", token.form, token.text)).collect()
    }

    #[test]
    fn texts_names_and_comments_are_told_apart() {
        let source = concat!(
            "fn a<'b>() { // \"no\"\n /* \"no /* no */ \" */ x('\"', '\\'', b'\"', ",
            "r#\"raw \" text\"#, \"a\\\n   b \\\" c\", 1_0) }",
        );
        let expected = "Word fn|Word a|Sign <|Word b|Sign >|Sign (|Sign )|Sign {|Word x|Sign (|Sign ,|Sign ,|Word b|\
                        Sign ,|Text raw \" text|Sign ,|Text ab \\\" c|Sign ,|Number 1_0|Sign )|Sign }";
        assert_eq!(words(source).join("|"), expected);
        let lines: Vec<usize> = tokens("a\n\"b\nc\"\nd").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn tests_are_left_out_and_parts_are_those_of_one_bracket() {
        let source = "#[cfg(test)] mod no; a(1, b(2, 3), [4, 5],); #[cfg(test)] #[allow(x)] fn no(y: [u8; 2]) { z } c";
        let kept = without_tests(&tokens(source));
        let texts: Vec<&str> = kept.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(texts.join(""), "a(1,b(2,3),[4,5],);c");
        let joined = |part: &&[Token]| part.iter().map(|token| token.text.as_str()).collect::<String>();
        assert_eq!(parts(&kept, 1).iter().map(joined).collect::<Vec<_>>(), ["1", "b(2,3)", "[4,5]"]);
    }
}
