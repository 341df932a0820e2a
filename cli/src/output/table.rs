//! Aligned columns of text.

use std::fmt;

use super::text::printable;

/// What stands between two columns.
const GAP: &str = "  ";

/// A table under a line of headings, or one thing's fields with their names on the left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// What to say instead when there are no rows.
    empty: &'static str,
}

impl Table {
    /// A list. `empty` is said when there is nothing to list.
    pub(crate) fn list<const N: usize>(
        headings: [&'static str; N],
        empty: &'static str,
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
        Self { headings: headings.to_vec(), rows, empty }
    }

    /// One thing; fields without a value are left out.
    pub(crate) fn one<const N: usize>(fields: [(&str, String); N]) -> Self {
        let told = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let rows = told.map(|(name, value)| vec![name.to_owned(), printable(&value)]).collect();
        Self { headings: Vec::new(), rows, empty: "" }
    }

    fn width(&self, column: usize) -> usize {
        let heading = self.headings.get(column).map_or(0, |heading| heading.chars().count());
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(heading)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return f.write_str(self.empty);
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(|column| self.width(column)).collect();
        let headings =
            (!self.headings.is_empty()).then(|| self.headings.iter().map(|&heading| heading.to_owned()).collect());
        for (index, row) in headings.iter().chain(&self.rows).enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
                line.push_str(GAP);
            }
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["ep_ä".to_owned(), "enabled".to_owned()], ["ep_long".to_owned(), String::new()]];
        let table = Table::list(["ENDPOINT", "STATE"], "none", rows);
        assert_eq!(table.to_string(), "ENDPOINT  STATE\nep_ä      enabled\nep_long");
        assert_eq!(Table::list(["A"], "no accounts", []).to_string(), "no accounts");
    }

    #[test]
    fn one_thing_leaves_out_what_it_has_not() {
        let table = Table::one([("account", "acme".to_owned()), ("rate", String::new()), ("paused", "no".to_owned())]);
        assert_eq!(table.to_string(), "account  acme\npaused   no");
    }

    #[test]
    fn a_cell_never_writes_to_the_terminal_itself() {
        let table = Table::one([("detail", "a\u{1b}[2Jb\nc".to_owned())]);
        assert_eq!(table.to_string(), "detail  a\\u{1b}[2Jb\\nc");
    }
}
