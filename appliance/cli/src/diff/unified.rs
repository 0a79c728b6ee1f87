//! Two texts compared line by line, in the form of `diff -u`. Pure.

/// Lines around a change that are shown.
const CONTEXT: usize = 3;
/// The most pairs of lines that are compared: a table of some megabytes. Larger differences are shown as one change.
const PAIRS_MAX: usize = 4_000_000;

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineFate {
    Kept,
    Removed,
    Added,
}

impl LineFate {
    fn sign(self) -> char {
        match self {
            Self::Kept => ' ',
            Self::Removed => '-',
            Self::Added => '+',
        }
    }
}

/// A line with its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ComparedLine<'a> {
    fate: LineFate,
    text: &'a str,
}

/// Describes how one text became another, without a header; empty if they are the same.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let lines = compare(&old, &new);
    let mut text = String::new();
    let (mut old_line, mut new_line, mut at) = (1, 1, 0);
    for (start, end) in hunks(&lines) {
        for line in &lines[at..start] {
            debug_assert_eq!(line.fate, LineFate::Kept, "all changes are in hunks");
            (old_line, new_line) = (old_line + 1, new_line + 1);
        }
        let hunk = &lines[start..end];
        let count = |fate| hunk.iter().filter(|line| line.fate == LineFate::Kept || line.fate == fate).count();
        let (old_count, new_count) = (count(LineFate::Removed), count(LineFate::Added));
        let (old_range, new_range) = (range(old_line, old_count), range(new_line, new_count));
        text += &format!("@@ -{old_range} +{new_range} @@\n");
        for line in hunk {
            text += &format!("{}{}\n", line.fate.sign(), line.text);
        }
        (old_line, new_line, at) = (old_line + old_count, new_line + new_count, end);
    }
    text
}

/// The lines of a hunk as `diff -u` names them: an empty range stands behind the line before.
fn range(first: usize, count: usize) -> String {
    match count {
        0 => format!("{},0", first - 1),
        1 => first.to_string(),
        _ => format!("{first},{count}"),
    }
}

/// Where changes are, with the lines around them.
fn hunks(lines: &[ComparedLine<'_>]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| line.fate != LineFate::Kept) {
        let (start, end) = (index.saturating_sub(CONTEXT), (index + 1 + CONTEXT).min(lines.len()));
        match hunks.last_mut() {
            Some((_, last)) if start <= *last => *last = end,
            _ => hunks.push((start, end)),
        }
    }
    hunks
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<ComparedLine<'a>> {
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let line = |fate| move |text: &&'a str| ComparedLine { fate, text: *text };
    let mut lines: Vec<ComparedLine<'a>> = old[..before].iter().map(line(LineFate::Kept)).collect();
    lines.extend(compare_middle(&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]));
    lines.extend(old[old.len() - after..].iter().map(line(LineFate::Kept)));
    lines
}

/// Compares by the longest common subsequence.
fn compare_middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<ComparedLine<'a>> {
    let kept = |text: &'a str| ComparedLine { fate: LineFate::Kept, text };
    let removed = |text: &'a str| ComparedLine { fate: LineFate::Removed, text };
    let added = |text: &'a str| ComparedLine { fate: LineFate::Added, text };
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > PAIRS_MAX {
        return old.iter().copied().map(removed).chain(new.iter().copied().map(added)).collect();
    }
    // The length of the longest common subsequence of what is left of both from these lines on.
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for (row, old_line) in old.iter().enumerate().rev() {
        for (column, new_line) in new.iter().enumerate().rev() {
            let at = row * width + column;
            lengths[at] = if old_line == new_line {
                lengths[at + width + 1] + 1
            } else {
                lengths[at + width].max(lengths[at + 1])
            };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::with_capacity(old.len() + new.len()));
    while row < old.len() && column < new.len() {
        let at = row * width + column;
        if old[row] == new[column] {
            lines.push(kept(old[row]));
            (row, column) = (row + 1, column + 1);
        } else if lengths[at + width] >= lengths[at + 1] {
            lines.push(removed(old[row]));
            row += 1;
        } else {
            lines.push(added(new[column]));
            column += 1;
        }
    }
    lines.extend(old[row..].iter().copied().map(removed));
    lines.extend(new[column..].iter().copied().map(added));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_are_shown_with_three_lines_around() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        assert_eq!(unified(old, old), "");
        assert_eq!(unified(old, &old.replace("e\n", "E\n")), "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
        assert_eq!(unified("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
        assert_eq!(unified("a\nb\n", "b\n"), "@@ -1,2 +1 @@\n-a\n b\n");
    }

    #[test]
    fn changes_far_apart_are_two_hunks() {
        let lines = |changed: &[usize]| {
            (1..=20)
                .map(|n| if changed.contains(&n) { format!("x{n}\n") } else { format!("{n}\n") })
                .collect::<String>()
        };
        let text = unified(&lines(&[]), &lines(&[2, 17]));
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("@@")).collect();
        assert_eq!(heads, ["@@ -1,5 +1,5 @@", "@@ -14,7 +14,7 @@"]);
        assert_eq!(unified(&lines(&[]), &lines(&[2, 8])).matches("@@ -").count(), 1);
    }

    #[test]
    fn what_is_too_long_to_compare_is_one_change() {
        let many = |word: &str| (0..3000).map(|n| format!("{word}{n}\n")).collect::<String>();
        let text = unified(&many("a"), &many("b"));
        assert!(text.starts_with("@@ -1,3000 +1,3000 @@\n-a0\n") && text.ends_with("+b2999\n"));
    }

    proptest! {
        /// Whatever changed: the lines without `+` are the old text, those without `-` the new one.
        #[test]
        fn both_texts_are_in_the_difference(old in "([ab]\n){0,9}", new in "([ab]\n){0,9}") {
            let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let lines = compare(&old_lines, &new_lines);
            let without = |fate| lines.iter().filter(|line| line.fate != fate).map(|line| line.text).collect::<Vec<_>>();
            prop_assert_eq!(without(LineFate::Added), old_lines);
            prop_assert_eq!(without(LineFate::Removed), new_lines);
            prop_assert_eq!(unified(&old, &new).is_empty(), old == new);
        }
    }
}
