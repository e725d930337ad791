//! `palisade explain`: what an error or an exit code means, and what to do. Asks no node.

use clap::Args;
use palisade_proto::convert::ErrorName;
use palisade_proto::convert::error::Row;
use serde_json::{Value, json};

use super::Failure;
use crate::args::Globals;
use crate::exit::{self, Exit};
use crate::output::{Output, table};

/// `palisade explain`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  palisade explain LOCK_HELD
  palisade explain 123
  palisade explain            lists all names

Exit codes: 0 known, 5 there is no such name or code.")]
pub(crate) struct ExplainArgs {
    /// A stable name, such as LOCK_HELD, or an exit code; without one, all names are listed
    pub(crate) code: Option<String>,
}

pub(crate) fn run(globals: &Globals, arguments: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(code) = &arguments.code else {
        let rows: Vec<Row> = ErrorName::ALL.map(ErrorName::row).into();
        Output::new(globals).answer("palisade.explain/1", |_| list(&rows), || document(&rows, None))?;
        return Ok(Exit::OK);
    };
    if let Ok(number) = code.parse::<u8>() {
        return exit_code(globals, number);
    }
    let Some(row) = ErrorName::parse(&code.to_ascii_uppercase()).map(ErrorName::row) else {
        let unknown = anyhow::anyhow!("there is no error {code:?}; `palisade explain` lists all");
        return Err(Failure::new(Exit::NOT_FOUND, unknown));
    };
    Output::new(globals).answer("palisade.explain/1", |_| one(&row), || document(&[row], None))?;
    Ok(Exit::OK)
}

fn exit_code(globals: &Globals, number: u8) -> Result<Exit, Failure> {
    let Some(meaning) = exit::meaning(number) else {
        let unknown = anyhow::anyhow!(
            "{number} is no exit code of this program: of `palisade lock`, it is the command's own"
        );
        return Err(Failure::new(Exit::NOT_FOUND, unknown));
    };
    let rows: Vec<Row> =
        ErrorName::ALL.map(ErrorName::row).into_iter().filter(|row| row.exit == number).collect();
    let people = |_: Output| {
        let first = format!("exit code {number}: {meaning}");
        if rows.is_empty() { first } else { format!("{first}\n\n{}", list(&rows)) }
    };
    Output::new(globals).answer("palisade.explain/1", people, || document(&rows, Some((number, meaning))))?;
    Ok(Exit::OK)
}

fn list(rows: &[Row]) -> String {
    table(
        &["NAME", "EXIT", "MEANING"],
        rows.iter().map(|row| [row.name.to_owned(), row.exit.to_string(), plain(row.meaning)]),
    )
}

fn one(row: &Row) -> String {
    format!(
        "{}   gRPC {:?}, HTTP {}, exit code {}\n\n{}\nWhat to do: {}",
        row.name,
        row.code,
        row.http,
        row.exit,
        plain(row.meaning),
        plain(row.advice)
    )
}

/// Without the marks of a page.
fn plain(text: &str) -> String {
    text.replace(['*', '`'], "")
}

fn document(rows: &[Row], exit: Option<(u8, &str)>) -> Value {
    let errors = rows.iter().map(|row| {
        json!({
            "name": row.name,
            "grpc": format!("{:?}", row.code),
            "http": row.http,
            "exit": row.exit,
            "meaning": plain(row.meaning),
            "advice": plain(row.advice),
        })
    });
    let mut document = json!({ "errors": errors.collect::<Vec<_>>() });
    if let (Some((code, meaning)), Value::Object(fields)) = (exit, &mut document) {
        fields.insert("exit".to_owned(), json!({ "code": code, "meaning": meaning }));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_explained_without_marks() {
        let text = one(&ErrorName::NotHeld.row());
        assert!(text.starts_with("NOT_HELD   gRPC FailedPrecondition, HTTP 409, exit code 1"), "{text}");
        assert!(text.contains("What to do: Stop work that relied on it."), "{text}");
        assert_eq!(document(&[ErrorName::NotHeld.row()], None)["errors"][0]["exit"], 1);
    }

    #[test]
    fn every_exit_code_of_the_page_is_explained() {
        let page = include_str!("../../../docs/errors.md");
        let codes = page.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap();
        let cells = codes.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
        let mut seen = 0;
        for (cell, rest) in cells {
            for number in cell.split([',', '–']).filter_map(|word| word.trim().parse::<u8>().ok()) {
                // A range is the command's own.
                if cell.contains('–') {
                    continue;
                }
                let meaning = exit::meaning(number).unwrap_or_else(|| panic!("{number} has no meaning"));
                assert!(rest.contains(meaning), "{number}: {meaning:?} is not on the page: {rest}");
                seen += 1;
            }
        }
        assert_eq!(seen, 13);
        assert!(exit::meaning(42).is_none());
    }
}
