//! Any table as plain text: columns as wide as their widest cell, two spaces between, no space at the
//! end of a line.

/// A table of words: all columns flush left.
#[must_use]
pub fn columns(heads: &[&str], rows: &[Vec<String>]) -> String {
    let head = heads.iter().map(|&head| head.to_owned()).collect();
    lined_up([&[head], rows].concat().as_slice(), usize::MAX)
}

/// A table of figures, the head among its rows: the first column flush left, the others right.
#[must_use]
pub fn figures(rows: &[Vec<String>]) -> String {
    lined_up(rows, 1)
}

/// `words`: how many columns are flush left; those behind them are flush right.
fn lined_up(rows: &[Vec<String>], words: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(at, (cell, width)): (usize, (&String, &usize))| match at < words {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        };
        let cells: Vec<_> = row.iter().zip(&widths).enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{columns, figures};

    #[test]
    fn columns_line_up() {
        let rows =
            [["a", "b"], ["long", ""], ["", "12"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&["x", "y"], &rows), "x     y\na     b\nlong\n      12\n");
        assert_eq!(figures(&rows), "a      b\nlong\n      12\n");
        assert_eq!(figures(&[]), "");
    }
}
