//! What is too long to read at one go: paragraphs in Markdown and in comments of documentation, and
//! subjects of commits.

/// Words of a paragraph.
pub const LIMIT: usize = 80;

/// The lines at which long paragraphs and list items of a Markdown file begin.
#[must_use]
pub fn long(markdown: &str) -> Vec<usize> {
    long_of(markdown.lines().enumerate())
}

/// The lines at which long paragraphs begin in a Rust file's comments that document: `///` and
/// `//!`.
#[must_use]
pub fn long_comments(source: &str) -> Vec<usize> {
    let comment = |line: &'_ str| -> Option<usize> {
        ["///", "//!"].iter().any(|mark| line.starts_with(mark)).then_some(3)
    };
    let lines = source.lines().enumerate().map(|(number, line)| {
        let line = line.trim_start();
        (number, comment(line).map_or("", |from| &line[from..]))
    });
    long_of(lines)
}

/// Characters of a commit's subject.
pub const SUBJECT_LIMIT: usize = 72;

/// Complaints about commits' subjects, one a line.
#[must_use]
pub fn check_subjects(subjects: &str) -> Vec<String> {
    let long = subjects.lines().filter(|subject| subject.chars().count() > SUBJECT_LIMIT);
    long.map(|subject| format!("a subject of over {SUBJECT_LIMIT} characters: {subject}")).collect()
}

fn long_of<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut first, mut words, mut fenced) = (0, 0, false);
    // One line more, which ends the last paragraph.
    for (number, line) in lines.chain(std::iter::once((usize::MAX, ""))) {
        let text = line.trim_start();
        fenced ^= text.starts_with("```");
        let item = ["* ", "- ", "#", "|", "> ", "```"].iter().any(|mark| text.starts_with(mark))
            || text.split_once(". ").is_some_and(|(mark, _)| mark.parse::<u8>().is_ok());
        if text.is_empty() || item || fenced {
            if words > LIMIT {
                found.push(first + 1);
            }
            (first, words) = (number, 0);
        }
        if !fenced && !text.starts_with(['|', '`', '#']) {
            first = if words == 0 { number } else { first };
            words += text.split_whitespace().count();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{check_subjects, long, long_comments};

    #[test]
    fn long_subjects_are_found() {
        let subjects = format!("{}\n{}\n", "a".repeat(72), "b".repeat(73));
        assert_eq!(check_subjects(&subjects).len(), 1);
    }

    #[test]
    fn long_paragraphs_are_found() {
        let (much, half) = ("word ".repeat(81), "word ".repeat(41));
        assert_eq!(long(&format!("# A\n\n{much}")), [3]);
        assert_eq!(long(&format!("1. {much}\n2. b")), [1]);
        assert_eq!(long(&format!("{half}\n{half}\n")), [1]);
        assert_eq!(long(&format!("{half}\n\n{half}\n* {half}")), [0; 0]);
        assert_eq!(long(&format!("```\n{much}\n```\n| {much}|")), [0; 0]);
    }

    #[test]
    fn comments_that_document_are_read() {
        let half = "word ".repeat(41);
        let source =
            format!("//! {half}\n//! {half}\n\n/// {half}\nfn f() {{}} // {half}\n// {half}");
        assert_eq!(long_comments(&source), [1]);
    }
}
