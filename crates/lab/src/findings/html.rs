//! The report as one self-contained page.

use std::fmt::Write;

use super::{Claim, ClaimVerdict, ExperimentReport, LabReport, Table};
use crate::{
    plot::escaped,
    report::page::{begin, paragraphs, prose},
};

/// The page's text about experiments on modelled disks.
const ON_MODELLED_DISKS: &[&str] = &[
    "Experiments of published papers, repeated by one engine on modelled disks in virtual time. Everything is drawn from the \
     seed: the same command gives the same figures on every machine. No parameter of a disk model is chosen for a figure \
     that is claimed here; `stripewise lab validate` holds the models against data sheets, papers and analysis.",
    "Disks are Western Digital Caviar Black 640 GB (WD6401AALS) and Intel X25-E 64 GB, as in the papers. The papers give each a \
     partition of 12.25 GB; ours holds 12,288,458,752 bytes of data and parity near the drive's start, a quarter of the \
     size that raid4s-modthresh gives for the array. The disks' write caches are on, as shipped, and \
     each disk turns by itself, its angle and its speed (within 0.2 %) drawn from the seed. SSDs are \
     preconditioned: their partition was written once, in sequence, as the first sync of an array does, and the rest of \
     the drive was never written; where \"steady\" or \"worn\" is said, the whole drive is full and was written over at random twice, \
     so that it collects garbage as much as it ever will. Chunks are 64 KiB. The papers' arrays had no write-intent bitmap; \
     ours has regions of 1 GiB, all of which are marked before anything is measured. Each point is an array made anew, \
     warmed up with 400 writes, and then written to as it is in the passes until one and a half times as much has come in as \
     the drives' write caches hold together: the figures are those of the steady state.",
    "MB are 10^6 bytes, KiB are 1024. Throughput is the mean of the passes, as XDD reports it: a pass ends with the last \
     acknowledgement, when much of it may still lie in the disks' write caches. Utilisation is a disk's mechanism at work, \
     for clients or from its write cache, and an SSD with requests under way.",
];

/// Its text about those in real time.
const IN_REAL_TIME: &str = "Experiments in real time run the engine with its worker threads over members in memory, one point \
     after the other, with nothing else of the run beside them. Their figures are of the machine, and of what else it did \
     meanwhile; no seed repeats them. The arrays of a point take turns, and a ratio is the median of the turns' ratios. A claim \
     is undecided if the median of ever so many turns may lie on either side of where the verdict turns, in more than one of \
     fifty runs. A claim that needs more threads than this machine has cores is not decided: what was measured here is told all \
     the same. GB are 10^9 bytes.";

impl LabReport {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = begin("Stripewise laboratory");
        if self.experiments.iter().any(|experiment| !experiment.real_time) {
            paragraphs(&mut page, ON_MODELLED_DISKS);
        }
        if let Some(machine) = &self.machine {
            paragraphs(&mut page, &[IN_REAL_TIME.to_owned(), format!("The machine: {machine}.")]);
        }
        let _ = writeln!(
            page,
            "<p>Command: <code>{} --out FOLDER</code>, which is this page's. Seed: {}.{}</p>",
            escaped(&self.command),
            self.seed,
            if self.quick {
                " A quick run: fewer points and writes, and less exact. Claims whose figures are so near to where the \
                 verdict turns that another seed may turn it are undecided."
            } else {
                ""
            }
        );
        self.write_missing(&mut page);
        self.write_summary(&mut page);
        self.experiments.iter().for_each(|experiment| write_experiment(&mut page, experiment));
        page + "</body>\n</html>\n"
    }

    fn write_missing(&self, page: &mut String) {
        if self.missing() > 0 {
            let _ = writeln!(
                page,
                "<p class=\"differs\">This report is not complete: {} points are missing. The command above goes on with \
                 them.</p>",
                self.missing()
            );
        }
    }

    fn write_summary(&self, page: &mut String) {
        page.push_str(
            "<table><tr><th>experiment</th><th>source</th><th class=\"number\">reproduced</th>\
             <th class=\"number\">not reproduced</th><th class=\"number\">undecided</th>\
             <th class=\"number\">not decidable here</th><th class=\"number\">open</th><th class=\"number\">points</th></tr>\n",
        );
        for experiment in &self.experiments {
            let _ = writeln!(
                page,
                "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td class=\"number\">{2}</td>\
                 <td class=\"number\">{3}</td><td class=\"number\">{4}</td><td class=\"number\">{5}</td>\
                 <td class=\"number\">{6}</td><td class=\"number\">{7} of {8}</td></tr>",
                experiment.id,
                escaped(experiment.source),
                experiment.count(ClaimVerdict::Reproduced),
                experiment.count(ClaimVerdict::NotReproduced),
                experiment.count(ClaimVerdict::Undecided),
                experiment.count(ClaimVerdict::NotDecidableHere),
                experiment.count(ClaimVerdict::Open),
                experiment.points - experiment.missing.len(),
                experiment.points
            );
        }
        page.push_str("</table>\n");
    }
}

fn write_experiment(page: &mut String, experiment: &ExperimentReport) {
    let (id, title) = (experiment.id, escaped(experiment.title));
    let _ = writeln!(page, "<h2 id=\"{id}\">{id}: {title}</h2>");
    let _ = writeln!(page, "<p class=\"source\">After {}.</p>", escaped(experiment.source));
    paragraphs(page, experiment.setting);
    paragraphs(page, &[&experiment.amount]);
    write_claims(page, &experiment.claims);
    experiment.tables.iter().for_each(|table| write_table(page, table));
    experiment.plots.iter().for_each(|plot| page.push_str(&plot.svg()));
    let _ = writeln!(page, "<p class=\"source\">All points: {id}.csv, beside this page.</p>");
    if !experiment.missing.is_empty() {
        let missing = experiment.missing.len();
        let _ = writeln!(page, "<details><summary>{missing} points are missing</summary><ul>");
        for key in &experiment.missing {
            let _ = writeln!(page, "<li><code>{}</code></li>", escaped(key));
        }
        page.push_str("</ul></details>\n");
    }
}

fn write_claims(page: &mut String, claims: &[Claim]) {
    page.push_str("<table><tr><th>claim</th><th>paper</th><th>measured</th><th>verdict</th></tr>\n");
    for claim in claims {
        let class = match claim.verdict {
            ClaimVerdict::Reproduced => "agrees",
            ClaimVerdict::NotReproduced => "differs",
            ClaimVerdict::Undecided | ClaimVerdict::NotDecidableHere | ClaimVerdict::Open => "given",
        };
        let _ = writeln!(
            page,
            "<tr class=\"{}\"><td>{}</td><td class=\"paper\">{}</td><td>{}</td><td class=\"{class} verdict\">{}</td></tr>",
            if claim.reason.is_empty() { "" } else { "noted" },
            prose(&claim.statement),
            prose(&claim.paper),
            prose(&claim.measured),
            claim.word()
        );
        if !claim.reason.is_empty() {
            let _ = writeln!(page, "<tr><td class=\"note\" colspan=\"4\">{}</td></tr>", prose(&claim.reason));
        }
    }
    page.push_str("</table>\n");
}

/// Longer tables are folded.
const ROWS_MAX: usize = 16;

/// A table, folded if it is long.
pub(crate) fn write_table(page: &mut String, table: &Table) {
    let (title, is_long) = (prose(&table.title), table.rows.len() > ROWS_MAX);
    let _ = match is_long {
        true => writeln!(page, "<details><summary>{title}</summary>\n<table class=\"numbers\">"),
        false => writeln!(page, "<table class=\"numbers\"><caption>{title}</caption>"),
    };
    let mut row = |cells: &[String], tag: &str| {
        page.push_str("<tr>");
        for (index, cell) in cells.iter().enumerate() {
            let class = if index == 0 { "" } else { " class=\"number\"" };
            let _ = write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell));
        }
        page.push_str("</tr>\n");
    };
    row(&table.headings, "th");
    table.rows.iter().for_each(|cells| row(cells, "td"));
    page.push_str(if is_long { "</table></details>\n" } else { "</table>\n" });
}
