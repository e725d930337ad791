//! The figures as a page of Markdown, for `docs/scale.md`.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{FIGURES, LATENCIES, RULES};
use crate::commands::Failure;
use crate::commands::bench::report::Report;
use crate::exit::Exit;

/// Around the part of a page that is written here.
const BEGIN: &str = "<!-- scale: begin -->\n";
const END: &str = "<!-- scale: end -->";

/// A page that was asked for. One that has a place for the figures keeps all else that stands in it.
pub(super) struct Page(Option<(PathBuf, String)>);

impl Page {
    /// Reads what is there before anything is measured: a typing error is told at once.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| {
            let there = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
            let text = there.and_then(|mut file| {
                let mut text = String::new();
                file.read_to_string(&mut text).map(|_| text)
            });
            text.map(|text| (path.to_owned(), text)).with_context(|| format!("opening {}", path.display()))
        };
        path.map(open).transpose().map(Self).map_err(|error| Failure::new(Exit::USAGE, error))
    }

    pub(super) fn write(
        self,
        report: &Report<FIGURES, LATENCIES, RULES>,
        command: &[String],
    ) -> anyhow::Result<()> {
        let Some((path, before)) = self.0 else { return Ok(()) };
        let figures =
            format!("{}. Command:\n\n    palisade {}\n\n{}", machine(), command.join(" "), report.markdown());
        fs::write(&path, put(&before, &figures)).with_context(|| format!("writing {}", path.display()))
    }
}

/// The page with these figures in their place, or the figures alone where it has none.
fn put(page: &str, figures: &str) -> String {
    let around = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    match around {
        Some((before, after)) => format!("{before}{BEGIN}{figures}{END}{after}"),
        None => figures.to_owned(),
    }
}

/// Cores, memory and kernel of this machine, as far as Linux tells.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kilobytes: u64 = total.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    format!(
        "{cores} cores ({}), {} GiB of memory, Linux {}; palisade {}",
        model.trim_start_matches([' ', '\t', ':']),
        (kilobytes + (1 << 19)) >> 20,
        read("/proc/sys/kernel/osrelease").trim(),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_figures_stays() {
        let page = format!("above\n{BEGIN}old\n{END}\nbelow\n");
        assert_eq!(put(&page, "new\n"), format!("above\n{BEGIN}new\n{END}\nbelow\n"));
        assert_eq!(put("no place", "new\n"), "new\n");
    }
}
