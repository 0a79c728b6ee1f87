//! How well the tests of a part notice changes, and whether that is enough. Pure.

use super::part::MutantPart;

/// The percentage of a part's viable mutants, without equivalents, that tests must notice.
pub(super) const NOTICED_PERCENT_MIN: usize = 90;

/// What came out for one part.
#[derive(Clone, Debug)]
pub(super) struct MutantTally {
    pub(super) part: MutantPart,
    /// All that there are.
    pub(super) listed: usize,
    pub(super) drawn: usize,
    pub(super) unviable: usize,
    pub(super) caught: usize,
    pub(super) timed_out: usize,
    /// Names of those that no test noticed.
    pub(super) missed: Vec<String>,
    /// Names and reasons of those that none can notice.
    pub(super) equivalent: Vec<(String, String)>,
    /// What is wrong with the table of equivalents.
    pub(super) faults: Vec<String>,
    pub(super) seconds: u64,
}

impl MutantTally {
    fn noticed(&self) -> usize {
        self.caught + self.timed_out
    }

    fn judged_count(&self) -> usize {
        self.noticed() + self.missed.len()
    }

    /// Enough changes are noticed, at least one was made, and the table of equivalents is true.
    pub(super) fn is_enough(&self) -> bool {
        let judged = self.judged_count();
        judged > 0 && self.noticed() * 100 >= judged * NOTICED_PERCENT_MIN && self.faults.is_empty()
    }
}

/// The table of all parts, then what no test noticed.
pub(super) fn report(title: &str, tallies: &[MutantTally]) -> String {
    let mut text = format!(
        "{title}\npart      listed  drawn  unviable  caught  timed out  missed  equivalent  noticed  minutes\n"
    );
    for tally in tallies {
        let judged = tally.judged_count();
        let share = if judged == 0 { "–".to_owned() } else { format!("{} %", tally.noticed() * 100 / judged) };
        let minutes = format!("{}.{}", tally.seconds / 60, tally.seconds % 60 / 6);
        text += &format!(
            "{:8}  {:6}  {:5}  {:8}  {:6}  {:9}  {:6}  {:10}  {share:>7}  {minutes:>7}{}\n",
            tally.part,
            tally.listed,
            tally.drawn,
            tally.unviable,
            tally.caught,
            tally.timed_out,
            tally.missed.len(),
            tally.equivalent.len(),
            if tally.is_enough() { "" } else { "  NOT ENOUGH" },
        );
    }
    for tally in tallies {
        tally.missed.iter().for_each(|name| text += &format!("missed: {name}\n"));
        tally.equivalent.iter().for_each(|(name, reason)| text += &format!("equivalent: {name}: {reason}\n"));
        tally.faults.iter().for_each(|fault| text += &format!("wrong in qemu/mutants.toml: {fault}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(caught: usize, timed_out: usize, missed: usize) -> MutantTally {
        MutantTally {
            part: MutantPart::Plan,
            listed: 500,
            drawn: caught + timed_out + missed + 3,
            unviable: 2,
            caught,
            timed_out,
            missed: (0..missed).map(|number| format!("a.rs:{number}:1: x")).collect(),
            equivalent: vec![("b.rs:1:1: y".to_owned(), "it is the same".to_owned())],
            faults: Vec::new(),
            seconds: 90,
        }
    }

    #[test]
    fn nine_of_ten_are_enough_and_equivalents_do_not_count() {
        assert!(tally(27, 0, 3).is_enough() && tally(8, 1, 1).is_enough());
        assert!(!tally(26, 0, 3).is_enough() && !tally(0, 0, 0).is_enough());
        let wrong = MutantTally { faults: vec!["a.rs".to_owned()], ..tally(10, 0, 0) };
        assert!(!wrong.is_enough(), "the table is not true");
    }

    #[test]
    fn the_report_has_the_figures_and_names_what_was_missed() {
        assert_eq!(
            report("of this", &[tally(8, 1, 1), tally(1, 0, 1)]),
            "\
of this
part      listed  drawn  unviable  caught  timed out  missed  equivalent  noticed  minutes
plan         500     13         2       8          1       1           1     90 %      1.5
plan         500      5         2       1          0       1           1     50 %      1.5  NOT ENOUGH
missed: a.rs:0:1: x
equivalent: b.rs:1:1: y: it is the same
missed: a.rs:0:1: x
equivalent: b.rs:1:1: y: it is the same
"
        );
    }
}
