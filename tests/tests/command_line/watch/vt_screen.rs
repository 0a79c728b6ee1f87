//! What a terminal shows of the bytes that a program wrote.
//!
//! It knows what a terminal may be sent here, and takes everything else for a fault: a sequence that came out of a
//! status, and not out of the program, is one.

/// A terminal without its glass.
#[derive(Debug)]
pub(crate) struct VtScreen {
    width: usize,
    height: usize,
    /// The page that is drawn on, line by line.
    page: Vec<Vec<char>>,
    /// The program's texts outside the other page.
    pub(crate) printed: String,
    row: usize,
    column: usize,
    sequence: Option<String>,
    /// Bytes of a letter that is not complete.
    rest: Vec<u8>,
    pub(crate) is_other_page: bool,
    pub(crate) is_cursor_shown: bool,
    pub(crate) does_wrap: bool,
    /// Each picture that was complete: lines without the spaces at their ends.
    pub(crate) pictures: Vec<String>,
    /// What no terminal of this kind may be sent.
    pub(crate) faults: Vec<String>,
}

impl VtScreen {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            page: vec![vec![' '; width]; height],
            printed: String::new(),
            row: 0,
            column: 0,
            sequence: None,
            rest: Vec::new(),
            is_other_page: false,
            is_cursor_shown: true,
            does_wrap: true,
            pictures: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Changes the size; what is on the page stays as far as there is room.
    pub(crate) fn resize(&mut self, width: usize, height: usize) {
        self.page.resize(height, Vec::new());
        self.page.iter_mut().for_each(|line| line.resize(width, ' '));
        (self.width, self.height) = (width, height);
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let valid = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&rest[..valid]).into_owned();
        self.rest = rest[valid..].to_vec();
        text.chars().for_each(|letter| self.letter(letter));
    }

    fn letter(&mut self, letter: char) {
        if let Some(mut sequence) = self.sequence.take() {
            let is_start = sequence.is_empty();
            sequence.push(letter);
            if (is_start && letter == '[') || (!is_start && !('@'..='~').contains(&letter)) {
                self.sequence = Some(sequence);
            } else {
                self.end_sequence(&sequence);
            }
            return;
        }
        match letter {
            '\x1b' => self.sequence = Some(String::new()),
            '\r' => self.column = 0,
            '\n' if self.is_other_page => self.faults.push("a line feed may scroll the page".to_owned()),
            '\n' => self.printed.push('\n'),
            _ if letter.is_control() => self.faults.push(format!("{letter:?}")),
            _ if self.is_other_page => self.put(letter),
            _ => self.printed.push(letter),
        }
    }

    fn put(&mut self, letter: char) {
        if self.column >= self.width {
            self.faults.push(format!("line {} is too long at {letter:?}", self.row));
            return;
        }
        self.page[self.row][self.column] = letter;
        self.column += 1;
    }

    fn end_sequence(&mut self, sequence: &str) {
        match sequence {
            "[?1049h" => self.is_other_page = true,
            "[?1049l" => self.is_other_page = false,
            "[?25h" => self.is_cursor_shown = true,
            "[?25l" => self.is_cursor_shown = false,
            "[?7l" => self.does_wrap = false,
            "[?7h" => {
                self.does_wrap = true;
                let picture = self.picture();
                self.pictures.push(picture);
            }
            "[K" => self.erase(self.row, self.column),
            "[J" => {
                self.erase(self.row, self.column);
                (self.row + 1..self.height).for_each(|row| self.erase(row, 0));
            }
            "[2J" => (0..self.height).for_each(|row| self.erase(row, 0)),
            "[H" => (self.row, self.column) = (0, 0),
            _ => self.end_other_sequence(sequence),
        }
    }

    fn end_other_sequence(&mut self, sequence: &str) {
        let inner = sequence.get(1..sequence.len() - 1).unwrap_or_default();
        let numbers: Option<Vec<usize>> = inner.split(';').map(|number| number.parse().ok()).collect();
        match (sequence.chars().last(), numbers.as_deref()) {
            (Some('H'), Some([row, column])) if (1..=self.height).contains(row) => {
                (self.row, self.column) = (row - 1, column - 1);
            }
            // Colours.
            (Some('m'), Some(_)) => {}
            _ => self.faults.push(format!("ESC {sequence:?}")),
        }
    }

    fn erase(&mut self, row: usize, column: usize) {
        let width = self.width;
        self.page[row][column.min(width)..].fill(' ');
    }

    fn picture(&self) -> String {
        let lines: Vec<String> = self.page.iter().map(|line| line.iter().collect::<String>()).collect();
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect::<String>().trim_end().to_owned()
    }
}

#[test]
fn a_picture_is_what_was_drawn_last_and_what_is_odd_is_a_fault() {
    let mut screen = VtScreen::new(5, 2);
    screen.take(b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[1;1Habcde\x1b[2;1H\x1b[1mx\x1b[0m\x1b[K\x1b[?7h");
    screen.take(b"\x1b[?7l\x1b[1;1Hf\x1b[K\x1b[2;1H\xe2\x80");
    screen.take(b"\xa6\x1b[?7h");
    assert_eq!((screen.pictures.join("/"), screen.faults.len()), ("abcde\nx/f\n…".to_owned(), 0));
    screen.take(b"\x1b[?25h\x1b[?1049lend\r\n");
    assert_eq!((screen.printed.as_str(), screen.is_other_page, screen.is_cursor_shown), ("end\n", false, true));
    screen.take(b"\x1b[31q\x1b]\x07\x1b[?1049h\x1b[1;1Habcdef\x1b[9;1H");
    assert_eq!(screen.faults.len(), 5, "{:?}", screen.faults);
}
