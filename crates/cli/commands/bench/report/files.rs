//! What is left behind in files: each round as a line, and the picture.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::super::Common;
use super::{Latencies, Report, seconds_of};
use crate::commands::Failure;
use crate::exit::Exit;

/// Files that were asked for. They are made before anything is measured: a typing error is told at once.
pub(in super::super) struct Files {
    csv: Option<(PathBuf, File)>,
    svg: Option<(PathBuf, File)>,
}

impl Files {
    pub(in super::super) fn create(common: &Common) -> Result<Self, Failure> {
        let create = |path: &Option<PathBuf>| match path {
            Some(path) => {
                let file = File::create(path).with_context(|| format!("writing {}", path.display()));
                file.map(|file| Some((path.clone(), file)))
            }
            None => Ok(None),
        };
        let usage = |error| Failure::new(Exit::USAGE, error);
        Ok(Self { csv: create(&common.csv).map_err(usage)?, svg: create(&common.svg).map_err(usage)? })
    }

    pub(in super::super) fn write<const F: usize, const L: usize, const R: usize>(
        self,
        report: &Report<F, L, R>,
    ) -> Result<(), Failure> {
        let write = |path: &Path, mut file: File, text: &str| {
            let written = file.write_all(text.as_bytes());
            written.with_context(|| format!("writing {}", path.display()))
        };
        if let Some((path, file)) = self.csv {
            write(&path, file, &report.csv())?;
        }
        if let Some((path, file)) = self.svg {
            write(&path, file, &report.plot())?;
        }
        Ok(())
    }
}

impl<const F: usize, const L: usize, const R: usize> Report<F, L, R> {
    /// A line for each row of each round, under the names of the JSON document; what cannot be told is empty. Our own
    /// words have neither commas nor quotes.
    pub(super) fn csv(&self) -> String {
        let shape = self.shape;
        let mut header = vec!["round".to_owned(), shape.row.to_owned()];
        header.extend(shape.figures.iter().map(|figure| figure.name.to_owned()));
        for latency in shape.latencies {
            let told = Latencies::default();
            header.extend(told.told().map(|(name, _)| format!("{}_{name}", seconds_of(latency))));
        }
        header.push(format!("{}_checked", shape.checked));
        header.extend(shape.rules.iter().map(|rule| rule.count.to_owned()));
        header.push("errors".to_owned());
        let mut text = header.join(",") + "\n";
        for one in &self.measured {
            let mut line = vec![one.round.to_string(), one.row.text()];
            line.extend(one.figures.map(|value| value.map_or_else(String::new, |value| value.to_string())));
            for latencies in &one.latencies {
                let empty = latencies.is_empty();
                let told = latencies.told();
                line.extend(told.map(|(_, value)| if empty { String::new() } else { value.to_string() }));
            }
            line.push(one.checked.to_string());
            line.extend(one.broken.map(|count| count.to_string()));
            line.push(one.errors.to_string());
            text.push_str(&(line.join(",") + "\n"));
        }
        text
    }
}
