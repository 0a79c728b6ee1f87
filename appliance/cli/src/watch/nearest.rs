//! What was probably meant by a name that does not exist.

/// How many names are proposed.
const PROPOSALS_MAX: usize = 3;

/// Finds the names that are nearest to the one that was typed, the nearest first.
pub(super) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let mistakes_max = (typed.chars().count() / 3).clamp(1, 4);
    let rank = |name: &str| {
        let lower = name.to_lowercase();
        // The last part of a long name, or a name with its domain.
        let is_part = typed.len() > 2 && (lower.contains(&typed) || typed.contains(&lower));
        let mistakes = mistakes(&typed, &lower);
        (is_part || mistakes <= mistakes_max).then_some(mistakes)
    };
    let mut found: Vec<_> = names.into_iter().filter_map(|name| rank(name).map(|rank| (rank, name))).collect();
    found.sort_unstable();
    found.into_iter().take(PROPOSALS_MAX).map(|(_, name)| name).collect()
}

/// Asks whether one of these was meant, as ` (did you mean a, b or c?)`; empty without any.
pub(super) fn question(proposals: &[&str]) -> String {
    match proposals {
        [] => String::new(),
        [only] => format!(" (did you mean {only}?)"),
        [others @ .., last] => format!(" (did you mean {} or {last}?)", others.join(", ")),
    }
}

/// Counts the letters that were left out, added, mistaken or swapped with the next one.
fn mistakes(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=other.len()).collect());
    let mut previous = None;
    for (row, letter) in one.chars().enumerate() {
        let mut next = vec![row + 1];
        for (column, &same) in other.iter().enumerate() {
            let mistaken = last[column] + usize::from(letter != same);
            let mut least = mistaken.min(last[column + 1] + 1).min(next[column] + 1);
            if column > 0 && previous == Some(same) && other[column - 1] == letter {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
        previous = Some(letter);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted_as_people_make_them() {
        let cases = [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "abxc", 1), ("", "abc", 3)];
        for (one, other, expected) in cases {
            assert_eq!((mistakes(one, other), mistakes(other, one)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn the_nearest_names_are_proposed() {
        let names: Vec<String> = (1..=45).map(|number| format!("dc1-rack07-worker-{number:02}")).collect();
        let nearest = |typed: &str| nearest(typed, names.iter().map(String::as_str));
        assert_eq!(nearest("dc1-rack07-worker-7").first(), Some(&"dc1-rack07-worker-07"));
        assert_eq!(nearest("worker-31"), ["dc1-rack07-worker-31"]);
        assert_eq!(nearest("dc1-rakc07-worker-12").first(), Some(&"dc1-rack07-worker-12"));
        assert_eq!(nearest("DC1-RACK07-WORKER-12.example.com").first(), Some(&"dc1-rack07-worker-12"));
        assert!(nearest("mail").is_empty());
        assert_eq!(question(&["a", "b", "c"]), " (did you mean a, b or c?)");
        assert_eq!((question(&["a"]), question(&[])), (" (did you mean a?)".to_owned(), String::new()));
    }
}
