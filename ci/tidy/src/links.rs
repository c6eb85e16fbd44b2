//! Links between Markdown files lead somewhere.

/// The targets of a Markdown file's links and pictures that are meant to be files here, relative to
/// the file; fragments are cut off. Code is passed over.
#[must_use]
pub fn targets(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Between backticks is code: every other piece.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](") {
            let Some((target, _)) = prose[at + 2..].split_once(')') else { continue };
            let target = target.split(['#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::targets;

    #[test]
    fn files_are_told_from_addresses_and_code() {
        let text = "See [a](a.md#part), ![p](img/p.svg \"title\") and [b](../b).\n\
                    [web](https://example.org/x) [here](#part) `[c](c.md)` [`d`](d.md)\n\
                    ```\n[e](e.md)\n```\n[f](f.md)";
        assert_eq!(targets(text), ["a.md", "img/p.svg", "../b", "d.md", "f.md"]);
    }
}
