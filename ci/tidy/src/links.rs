//! Links between Markdown files lead somewhere.

/// A link to a file here, or to a part of one.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The file, relative to that of the link; empty: the same.
    pub file: String,
    /// The heading, as it stands in addresses; empty: none.
    pub part: String,
}

/// The lines outside of code blocks.
fn prose(markdown: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    markdown.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// The targets of a Markdown file's links and pictures that are meant to be here. Code is passed over.
#[must_use]
pub fn targets(markdown: &str) -> Vec<Target> {
    let mut found = Vec::new();
    for line in prose(markdown) {
        // Between backticks is code: every other piece.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](") {
            let Some((target, _)) = prose[at + 2..].split_once(')') else { continue };
            let target = target.split(' ').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                let (file, part) = target.split_once('#').unwrap_or((target, ""));
                found.push(Target { file: file.to_owned(), part: part.to_owned() });
            }
        }
    }
    found
}

/// The headings of a Markdown file, as they stand in addresses.
#[must_use]
pub fn parts(markdown: &str) -> Vec<String> {
    let headings = prose(markdown).filter(|line| line.starts_with('#'));
    let headings = headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    headings
        .map(|heading| {
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Target, parts, targets};

    #[test]
    fn files_are_told_from_addresses_and_code() {
        let text = "See [a](a.md#part), ![p](img/p.svg \"title\") and [b](../b).\n\
                    [web](https://example.org/x) [here](#part) `[c](c.md)` [`d`](d.md)\n\
                    ```\n[e](e.md)\n```\n[f](f.md)";
        let all = [
            ("a.md", "part"),
            ("img/p.svg", ""),
            ("../b", ""),
            ("", "part"),
            ("d.md", ""),
            ("f.md", ""),
        ];
        let target =
            |(file, part): (&str, &str)| Target { file: file.to_owned(), part: part.to_owned() };
        assert_eq!(targets(text), all.map(target));
    }

    #[test]
    fn headings_are_parts() {
        let text = "# The `a`, b\n```\n# no\n```\ntext\n  # no\n## It's 1.5";
        assert_eq!(parts(text), ["the-a-b", "its-15"]);
    }
}
