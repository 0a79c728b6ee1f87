//! GRUB's scripts, taken apart into words with their places (GRUB manual, section 6.1 "Writing full configuration
//! files directly"): blanks part words; quotes, double quotes and backslashes join them; `;`, `|`, `&`, `<`, `>` and
//! line ends part commands; a comment begins where a word could.

use std::ops::Range;

use super::LoaderError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: GrubToken,
    pub(super) place: Range<usize>,
    /// Counts from 1.
    pub(super) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GrubToken {
    Word(GrubWord),
    /// The end of a line.
    End,
    /// The sign `;`.
    Semicolon,
    /// Something else that parts commands.
    Other,
    Comment,
}

/// A word without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GrubWord {
    pub(super) text: String,
    /// Names of variables in it; the text has them as they are written.
    pub(super) variables: Vec<String>,
    /// Whether it stands without quotes and backslashes, so that it may be a keyword.
    pub(super) is_plain: bool,
    /// Goes on after a line end.
    pub(super) is_continued: bool,
}

/// Takes a script apart.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, LoaderError> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(letter) = lexer.peek() {
        let (start, line) = (lexer.at, lexer.line);
        let kind = match letter {
            ' ' | '\t' | '\r' => {
                lexer.take();
                continue;
            }
            '\n' => {
                lexer.take();
                GrubToken::End
            }
            ';' => {
                lexer.take();
                GrubToken::Semicolon
            }
            '|' | '&' | '<' | '>' => {
                lexer.take();
                GrubToken::Other
            }
            '#' => {
                while lexer.peek().is_some_and(|letter| letter != '\n') {
                    lexer.take();
                }
                GrubToken::Comment
            }
            _ => GrubToken::Word(lexer.word()?),
        };
        tokens.push(Token { kind, place: start..lexer.at, line });
    }
    Ok(tokens)
}

fn push(word: &mut GrubWord, letter: char) {
    word.is_continued |= letter == '\n';
    word.text.push(letter);
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn word(&mut self) -> Result<GrubWord, LoaderError> {
        let mut word = GrubWord { is_plain: true, ..GrubWord::default() };
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' => break,
                '\'' => self.quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => self.escaped(&mut word)?,
                '$' => self.variable(&mut word),
                other => {
                    word.text.push(other);
                    self.take();
                }
            }
        }
        Ok(word)
    }

    fn letter_in_quotes(&mut self, line: usize) -> Result<char, LoaderError> {
        self.take().ok_or(LoaderError::Line { line, what: "a quotation mark on it has no end" })
    }

    fn quoted(&mut self, word: &mut GrubWord) -> Result<(), LoaderError> {
        let line = self.line;
        word.is_plain = false;
        self.take();
        loop {
            match self.letter_in_quotes(line)? {
                '\'' => return Ok(()),
                letter => push(word, letter),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut GrubWord) -> Result<(), LoaderError> {
        let line = self.line;
        word.is_plain = false;
        self.take();
        loop {
            if self.peek() == Some('$') {
                self.variable(word);
                continue;
            }
            match self.letter_in_quotes(line)? {
                '"' => return Ok(()),
                '\\' => match self.letter_in_quotes(line)? {
                    letter @ ('$' | '"' | '\\') => word.text.push(letter),
                    '\n' => word.is_continued = true,
                    letter => word.text.extend(['\\', letter]),
                },
                letter => push(word, letter),
            }
        }
    }

    fn escaped(&mut self, word: &mut GrubWord) -> Result<(), LoaderError> {
        let line = self.line;
        word.is_plain = false;
        self.take();
        match self.take() {
            Some('\n') => word.is_continued = true,
            Some(letter) => word.text.push(letter),
            None => return Err(LoaderError::Line { line, what: "it ends in a backslash" }),
        }
        Ok(())
    }

    /// A variable stays as it is written: nothing here knows its value.
    fn variable(&mut self, word: &mut GrubWord) {
        let start = self.at;
        self.take();
        if self.peek() == Some('{') {
            while let Some(letter) = self.peek().filter(|letter| !matches!(letter, '\n' | ' ')) {
                self.take();
                if letter == '}' {
                    break;
                }
            }
        } else {
            while self.peek().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                self.take();
            }
        }
        let written = &self.text[start..self.at];
        word.text.push_str(written);
        let name = written.trim_start_matches(['$', '{']).trim_end_matches('}');
        if !name.is_empty() {
            word.variables.push(name.to_owned());
        }
    }
}
