//! The page.

use std::fmt::Write;

use super::{Page, sections::Section};
use crate::{
    engine_bench::{MemberKind, Options},
    findings::write_table,
    plot::escaped,
    report::page::{begin, paragraphs},
};

/// The page's text about its figures.
const INTRODUCTION: &[&str] = &[
    "The engine with its worker threads over members in memory, in real time: the figures are of the machine below and of \
     what else ran on it, and another run gives others. What is compared on this page took turns in one process, so that \
     whatever disturbed the machine disturbed all alike; figures are medians of the turns, and the first turn of each is not counted.",
    "The limit is that of bare loops, one for each thread, which do the memory traffic and parity arithmetic that the engine \
     cannot avoid, and nothing else. A percentile of fewer operations than it takes is the slowest of them. GB are 10^9 bytes.",
];

impl Page<'_> {
    pub(super) fn html(&self, sections: &[Section]) -> String {
        let mut page = begin("Stripewise engine benchmark");
        paragraphs(&mut page, INTRODUCTION);
        let _ = writeln!(page, "<p>Command: <code>{}</code></p>", escaped(self.command));
        self.write_facts(&mut page);
        write_contents(&mut page, sections);
        sections.iter().for_each(|section| write_section(&mut page, section));
        page.push_str("<p class=\"source\">All figures: figures.csv, beside this page; each plot's points: a CSV file of its name.</p>\n");
        page + "</body>\n</html>\n"
    }

    fn write_facts(&self, page: &mut String) {
        let facts = self.machine_facts().into_iter().chain(run_facts(self.options));
        page.push_str("<table class=\"facts\">\n");
        for (name, value) in facts {
            let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&value));
        }
        page.push_str("</table>\n");
    }

    fn machine_facts(&self) -> Vec<(&'static str, String)> {
        let machine = self.machine;
        vec![
            ("processor", machine.processor.clone()),
            ("cores to use", machine.cores.to_string()),
            ("caches", machine.caches.clone()),
            ("memory", format!("{} GiB", machine.memory_gib)),
            ("kernel", format!("Linux {}", machine.kernel)),
        ]
    }
}

fn run_facts(options: &Options) -> Vec<(&'static str, String)> {
    let level = options.level.number();
    let shapes = options.raid_devices.iter().map(|members| options.shape(*members)).collect::<Vec<_>>();
    let members = match options.members {
        MemberKind::Memory => "memory",
        MemberKind::Null => "null: writes are forgotten, reads move nothing; there is no limit",
    };
    let (threads, queue) = (list(&options.threads), options.queue);
    vec![
        ("arrays", format!("level {level}, {}, chunk {} KiB", shapes.join(", "), options.chunk_bytes >> 10)),
        ("members", format!("{members}; {} MiB each", options.member_bytes >> 20)),
        ("threads", format!("{threads}, each with {queue} under way")),
        (
            "writes",
            format!(
                "from {} KiB of data for each thread, or one write's if that is more",
                options.source_bytes >> 10
            ),
        ),
        ("turns", format!("{} of {} ms each", options.turns, options.turn.as_millis())),
    ]
}

fn list(counts: &[usize]) -> String {
    counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Writes no contents for a short page.
fn write_contents(page: &mut String, sections: &[Section]) {
    if sections.len() < 2 {
        return;
    }
    page.push_str("<ul>\n");
    for Section { name, title, .. } in sections {
        let _ = writeln!(page, "<li><a href=\"#{name}\">{}</a></li>", escaped(title));
    }
    page.push_str("</ul>\n");
}

fn write_section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", section.name, escaped(&section.title));
    section.tables.iter().for_each(|table| write_table(page, table));
    section.plots.iter().for_each(|plot| page.push_str(&plot.svg()));
}
