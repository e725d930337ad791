//! A block of a page that is generated.

use anyhow::{Context, Result};

const BEGIN: &str = "<!-- compare: begin -->\n";
const END: &str = "<!-- compare: end -->";

/// The page with `block` between its marks.
pub(super) fn filled(page: &str, block: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no mark of the block's begin")?;
    let (_, after) = rest.split_once(END).context("the page has no mark of the block's end")?;
    Ok(format!("{before}{BEGIN}\n{block}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}old\n{END}\nb\n");
        let once = filled(&page, "new\n").expect("marks");
        assert_eq!(once, format!("a\n{BEGIN}\nnew\n\n{END}\nb\n"));
        assert_eq!(filled(&once, "new\n").expect("marks"), once);
        assert!(filled("no marks", "new").is_err());
    }
}
