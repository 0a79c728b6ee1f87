//! One path of a template, as in `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

use super::JsonPathError;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    /// `$`: the whole value, also in a range.
    Root,
    Field(String),
    /// Counts from the end if it is negative.
    Index(i64),
    /// `*`: all items of a list, or all values of an object.
    All,
    Filter(PathFilter),
}

/// `[?(@.type=="Ready")]`: the items that pass a test.
#[derive(Clone, Debug, PartialEq)]
struct PathFilter {
    path: JsonPath,
    /// The operator and what the value is compared with; without them the value has to be there.
    test: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    LessOrEqual,
    GreaterOrEqual,
    Less,
    Greater,
}

/// The operators, those that begin like another one first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl JsonPath {
    /// Reads a path; the dot at its start may be left out.
    ///
    /// # Errors
    /// When the text is no path that is understood.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        let fault = |why: &str| JsonPathError::new(text, why);
        let mut steps = Vec::new();
        let mut rest = text;
        if let Some(after) = rest.strip_prefix('$') {
            steps.push(PathStep::Root);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('@') {
            rest = after;
        }
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let end = end_of_bracket(inside).ok_or_else(|| fault("a bracket is not closed"))?;
                steps.push(bracket(text, inside[..end].trim())?);
                rest = &inside[end + 1..];
                continue;
            }
            if rest.starts_with("..") {
                return Err(fault("`..` is not understood: write the whole path"));
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
            if rest.is_empty() {
                break;
            }
            let (name, after) = name(rest);
            if name.is_empty() {
                if rest.starts_with('[') {
                    continue;
                }
                return Err(fault("a name is missing"));
            }
            if let Some(odd) = name.chars().find(|letter| " {}()'\"=<>!&|,?".contains(*letter)) {
                return Err(fault(&format!(
                    "{odd:?} cannot stand in a name: put the name into quotes, as in ['NAME']"
                )));
            }
            steps.push(if name == "*" { PathStep::All } else { PathStep::Field(name) });
            rest = after;
        }
        Ok(Self(steps))
    }

    /// Returns the values that the path leads to, from `current` or, if it begins so, from `root`.
    pub(crate) fn find<'a>(&self, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
        let mut values = vec![current];
        for step in &self.0 {
            values = values.into_iter().flat_map(|value| step.find(root, value)).collect();
        }
        values
    }
}

impl PathStep {
    fn find<'a>(&self, root: &'a Value, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Root => vec![root],
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let length = value.as_array().map_or(0, Vec::len);
                let from_end = usize::try_from(index.unsigned_abs()).ok().and_then(|back| length.checked_sub(back));
                let at = if *index < 0 { from_end } else { usize::try_from(*index).ok() };
                at.and_then(|at| value.get(at)).into_iter().collect()
            }
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            },
            Self::Filter(filter) => {
                let items = value.as_array().into_iter().flatten();
                items.filter(|item| filter.passes(root, item)).collect()
            }
        }
    }
}

impl PathFilter {
    fn parse(whole: &str, text: &str) -> Result<Self, JsonPathError> {
        for joint in ["&&", "||"] {
            if text.contains(joint) {
                return Err(JsonPathError::new(
                    whole,
                    format!("`{joint}` is not understood in a filter: write one test"),
                ));
            }
        }
        let found = COMPARISONS.iter().filter_map(|(word, how)| Some((text.find(word)?, *word, *how)));
        // The first operator counts; of those at one place, the longest.
        let found = found.min_by_key(|(at, word, _)| (*at, std::cmp::Reverse(word.len())));
        let (path, test) = match found {
            None => (text, None),
            Some((at, word, how)) => (&text[..at], Some((how, literal(whole, text[at + word.len()..].trim())?))),
        };
        let path = path.trim();
        if !path.starts_with(['@', '$']) {
            return Err(JsonPathError::new(whole, "a filter begins with @, as in [?(@.type==\"Ready\")]"));
        }
        Ok(Self { path: JsonPath::parse(path)?, test })
    }

    fn passes(&self, root: &Value, item: &Value) -> bool {
        let found = self.path.find(root, item);
        match &self.test {
            None => !found.is_empty(),
            Some((how, with)) => found.into_iter().any(|value| how.holds(value, with)),
        }
    }
}

impl Comparison {
    fn holds(self, value: &Value, with: &Value) -> bool {
        let order = match (value, with) {
            (Value::Number(one), Value::Number(other)) => one.as_f64().partial_cmp(&other.as_f64()),
            (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
            (one, other) => {
                return match self {
                    Self::Equal => one == other,
                    Self::NotEqual => one != other,
                    Self::LessOrEqual | Self::GreaterOrEqual | Self::Less | Self::Greater => false,
                };
            }
        };
        order.is_some_and(|order| match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::LessOrEqual => order.is_le(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::Greater => order.is_gt(),
        })
    }
}

/// The step that stands between brackets.
fn bracket(whole: &str, inside: &str) -> Result<PathStep, JsonPathError> {
    let fault = |why: &str| Err(JsonPathError::new(whole, why));
    if inside == "*" {
        return Ok(PathStep::All);
    }
    if let Some(test) = inside.strip_prefix("?(").and_then(|test| test.strip_suffix(')')) {
        return Ok(PathStep::Filter(PathFilter::parse(whole, test)?));
    }
    if let Ok(index) = inside.parse() {
        return Ok(PathStep::Index(index));
    }
    if inside.starts_with(['\'', '"']) {
        return match quoted(inside) {
            Some(name) => Ok(PathStep::Field(name)),
            None => fault("a union or an unclosed quote is not understood: write one name, as in ['NAME']"),
        };
    }
    if inside.contains(',') {
        return fault("a union is not understood: write one path for each value");
    }
    if inside.contains(':') {
        return fault("a slice is not understood: write [*] or one index");
    }
    fault("a name between brackets has quotes, as in ['NAME']")
}

/// The value that a filter compares with.
fn literal(whole: &str, text: &str) -> Result<Value, JsonPathError> {
    if let Some(text) = quoted(text) {
        return Ok(Value::String(text));
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => Ok(value),
        Ok(Value::String(_) | Value::Array(_) | Value::Object(_)) | Err(_) => {
            Err(JsonPathError::new(whole, "a filter compares with a text in quotes, a number, true or false"))
        }
    }
}

/// Takes the quotes and escapes off a text; `None` if it is not one quoted text.
pub(super) fn quoted(text: &str) -> Option<String> {
    let mut letters = text.chars();
    let open = letters.next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut plain = String::new();
    loop {
        match letters.next()? {
            letter if letter == open => return letters.as_str().is_empty().then_some(plain),
            '\\' => plain.push(match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                letter @ ('\\' | '"' | '\'') => letter,
                _ => return None,
            }),
            letter => plain.push(letter),
        }
    }
}

/// Splits a name off a path. A backslash keeps a dot in the name: labels have dots.
fn name(path: &str) -> (String, &str) {
    let (mut name, mut is_escaped) = (String::new(), false);
    for (at, letter) in path.char_indices() {
        match letter {
            _ if is_escaped => {
                name.push(letter);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '.' | '[' => return (name, &path[at..]),
            _ => name.push(letter),
        }
    }
    (name, "")
}

/// Where the bracket is that closes a step. Brackets in quotes and in filters do not count.
fn end_of_bracket(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_usize);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}
