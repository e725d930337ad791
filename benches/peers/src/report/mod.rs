//! What was measured, as tables, as the README's section and as its picture.

mod about;
mod headlines;
mod measured;
mod measures;
mod numbers;
mod page;
mod plot;
mod readme;
mod tables;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::measured::Measured;

pub(crate) use measures::brief;

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Results
    files: Vec<PathBuf>,
    /// Labels of the backends that are divided by the others
    #[arg(long, value_delimiter = ',', default_value = "palisade,palisade-stay,palisade-unary")]
    ours: Vec<String>,
    /// Put the tables between the marks of this page instead of printing them
    #[arg(long)]
    into: Option<PathBuf>,
    /// Put the short section between the marks of this page
    #[arg(long)]
    readme: Option<PathBuf>,
    /// Draw the picture of the short section into this file
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// Prints the tables, or puts all that was asked for where it belongs.
pub(crate) fn run(arguments: &ReportArgs) -> Result<()> {
    let ReportArgs { files, ours, into, readme, plot } = arguments;
    ensure!(!files.is_empty(), "name the files to report on");
    let measured = Measured::read(files)?;
    let tables = tables::all(&measured, ours);
    match into {
        None => print!("{tables}"),
        Some(page) => fill(page, &tables)?,
    }
    if let Some(plot) = plot {
        let svg = plot::svg(&measured).context("there are no ratios to draw")?;
        fs::write(plot, svg).with_context(|| plot.display().to_string())?;
    }
    if let Some(page) = readme {
        let plot = plot.as_deref().map(|plot| readme::link(page, plot));
        fill(page, &readme::section(&measured, plot.as_deref()))?;
    }
    Ok(())
}

fn fill(page: &Path, block: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    Ok(fs::write(page, page::filled(&text, block)?)?)
}
