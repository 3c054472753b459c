//! The sections of a comparison, each a title, a sentence and a table.

use super::Drawn;
use super::cells::{self, Unit, cells, counts};
use crate::report::diff::figure::Figure;
use crate::report::diff::findings::{Finding, State};
use crate::report::diff::kernels;
use crate::report::names::{cut, shorten};
use crate::report::table::{Column, Table, left, names, right};
use crate::report::terminal::ranges::whole_name;
use crate::report::terminal::screen::{NONE, about, estimate};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{duration, plural};

/// Rows of kernels in the overview.
const KERNELS: usize = 10;
/// Rows of other tables in the overview.
const FEW: usize = 5;

/// Draws what became of the findings.
pub fn findings(drawn: &mut Drawn<'_>) {
    let findings = &drawn.diff.findings;
    if findings.list.is_empty() {
        return drawn.none("Findings", "neither run has any");
    }
    let of = |state: State| findings.list.iter().filter(|row| row.state == state).count() as u64;
    let (gone, new, still) = (of(State::Gone), of(State::New), of(State::Still));
    let seen = match findings.gained_ns {
        None => "what the run gained is not known".to_owned(),
        Some(gained) if gained < 0.0 => format!("the run lost {}", duration((-gained).round() as u64)),
        Some(gained) => format!("the run gained {}", duration(gained.round() as u64)),
    };
    let mut sentence = format!("{gone} gone, {new} new, {still} still there");
    if gone > 0 {
        sentence.push_str(&format!("; those gone promised {}, {seen}", about(findings.promised_ns)));
    }
    drawn.screen.section("Findings", sentence);
    let mut table = Table::new(&[
        left(""),
        names("finding", cut).down_to(16),
        right("saves before"),
        right("saves after"),
        names("", cut),
    ]);
    let shown = drawn.shown(findings.list.len(), FEW);
    findings.list[..shown].iter().for_each(|row| table.row(finding(row)));
    drawn.screen.table(&table, 0, "");
    drawn.hidden(findings.list.len() - shown, "findings");
}

fn finding(row: &Finding) -> [Text; 5] {
    let state = match row.state {
        State::Gone => Text::toned(Tone::Work, "gone"),
        State::New => Text::toned(Tone::Waste, "new"),
        State::Still => "still".into(),
    };
    [state, row.id.into(), estimate(row.saves_before_ns), estimate(row.saves_after_ns), dim(&row.title)]
}

/// Draws the times and contents of steps.
pub fn steps(drawn: &mut Drawn<'_>) {
    let Some(steps) = &drawn.diff.steps else {
        return drawn.none("Steps", "no steps were found in either run");
    };
    let sentence =
        Text::from("steps ").then(counts(&steps.count)).then(", warm-up ").then(counts(&steps.warm_up));
    drawn.screen.section("Steps", sentence.then("; times are of the steps after the warm-up"));
    let mut table = figures("of a step");
    for (name, figure, unit) in [
        ("median", &steps.median_ns, Unit::Time),
        ("mean", &steps.mean_ns, Unit::Time),
        ("p95", &steps.p95_ns, Unit::Time),
        ("p99", &steps.p99_ns, Unit::Time),
        ("min", &steps.min_ns, Unit::Time),
        ("max", &steps.max_ns, Unit::Time),
        ("GPU busy", &steps.busy_ns, Unit::Time),
        ("GPU idle", &steps.idle_ns, Unit::Time),
        ("undecided", &steps.undecided_ns, Unit::Time),
        ("launches", &steps.launches, Unit::Count),
        ("copies and memsets", &steps.copies, Unit::Count),
        ("copied", &steps.copied_bytes, Unit::Bytes),
        ("syncs", &steps.syncs, Unit::Count),
        ("allocations", &steps.allocations, Unit::Count),
        ("allocated", &steps.allocated_bytes, Unit::Bytes),
    ] {
        add(&mut table, name, figure, unit);
    }
    let growth = &steps.growth_bytes;
    if growth.before.is_some_and(|bytes| bytes != 0.0) || growth.after.is_some_and(|bytes| bytes != 0.0) {
        table.row(std::iter::once("memory growth".into()).chain(cells::signed(growth, Unit::Bytes)));
    }
    drawn.screen.table(&table, 0, "");
}

/// Draws the parts of the wall time.
pub fn wall(drawn: &mut Drawn<'_>) {
    let sentence = match drawn.per() {
        "" => "where the time of the GPU that was used most went",
        _ => {
            "where the time of the GPU that was used most went, per step; start-up, set-up and tail are of the run"
        }
    };
    drawn.screen.section("Wall", sentence);
    let mut table = figures("part");
    for row in &drawn.diff.identity {
        let is_pause = row.part == "idle" && row.per != drawn.diff.per;
        let of_run = if is_pause { " (of the run)" } else { "" };
        add(&mut table, &(row.part.replace('_', "-") + of_run), &row.ns, Unit::Time);
    }
    drawn.screen.table(&table, 0, "");
}

/// Draws the idle time by cause.
pub fn idle(drawn: &mut Drawn<'_>) {
    let rows = &drawn.diff.idle;
    if rows.is_empty() {
        return drawn.none("Idle", "no idle time has a known cause in either run");
    }
    drawn.screen.section("Idle", format!("idle time{}, by cause", drawn.per()));
    let mut table = figures("cause");
    let shown = drawn.shown(rows.len(), FEW);
    for row in &rows[..shown] {
        // Where the title says that times are per step, what is not says so itself.
        let of_run = if row.per == drawn.diff.per { "" } else { " (of the run)" };
        add(&mut table, &(row.cause.replace('_', " ") + of_run), &row.total_ns, Unit::Time);
    }
    drawn.screen.table(&table, 0, "");
    drawn.hidden(rows.len() - shown, "idle");
}

/// Draws the NVTX ranges.
pub fn ranges(drawn: &mut Drawn<'_>) {
    let rows = &drawn.diff.ranges;
    if rows.is_empty() {
        return drawn.none("Ranges", "neither run reported an NVTX range");
    }
    let sentence =
        "median host time of NVTX ranges, and median time from the first GPU operation in one to the last";
    drawn.screen.section("Ranges", sentence);
    let mut table = Table::new(&[
        right("before"),
        right("after"),
        right("change"),
        right(""),
        right("GPU before").or_drop(1),
        right("GPU after").or_drop(1),
        right(""),
        right("count").or_drop(2),
        names("range", cut),
    ]);
    let shown = drawn.shown(rows.len(), FEW);
    for row in &rows[..shown] {
        let [on_gpu, on_gpu_after, _, share] = cells(&row.gpu_median_ns, Unit::Time);
        let name = whole_name(row.domain.as_deref(), &row.name);
        let of_gpu = [on_gpu, on_gpu_after, share, counts(&row.count), Text::from(name)];
        table.row(cells(&row.host_median_ns, Unit::Time).into_iter().chain(of_gpu));
    }
    drawn.screen.table(&table, 0, "");
    drawn.hidden(rows.len() - shown, "ranges");
}

/// Draws the kernels whose time or count changed.
pub fn kernels(drawn: &mut Drawn<'_>) {
    let all = &drawn.diff.kernels;
    let of = |state: kernels::State| all.iter().filter(|row| row.state == state).count() as u64;
    let (appeared, vanished) = (of(kernels::State::Appeared), of(kernels::State::Vanished));
    let changed: Vec<&kernels::Kernel> = all.iter().filter(|row| !row.is_same()).collect();
    if changed.is_empty() {
        let same = format!("no change: {} in both", plural(all.len() as u64, "kernel", "kernels"));
        return drawn.screen.section("Kernels", same);
    }
    let per = drawn.per();
    drawn.screen.section(
        "Kernels",
        format!(
            "{} compared by name; {appeared} appeared, {vanished} vanished; GPU time and count{per}",
            plural(all.len() as u64, "kernel", "kernels")
        ),
    );
    let mut table = Table::new(&[
        right("change"),
        right("").or_drop(3),
        right("before"),
        right("after"),
        right("count"),
        right("in graphs").or_drop(2),
        right("avg").or_drop(1),
        names("name", shorten).down_to(24),
    ]);
    let shown = drawn.shown(changed.len(), KERNELS);
    for row in &changed[..shown] {
        let [before, after, change, share] = cells(&row.total_ns, Unit::Time);
        let share = match row.state {
            kernels::State::Appeared => dim("new"),
            kernels::State::Vanished => dim("gone"),
            kernels::State::Both => share,
        };
        let in_graphs = if row.in_graphs.is_nothing() { NONE.into() } else { counts(&row.in_graphs) };
        let [avg_before, avg_after, ..] = cells(&row.avg_ns, Unit::Time);
        let avg = avg_before.then(" -> ").then(avg_after);
        table.row([change, share, before, after, counts(&row.count), in_graphs, avg, Text::from(&row.name)]);
    }
    drawn.screen.table(&table, 0, "");
    drawn.hidden(changed.len() - shown, "kernels");
}

/// Draws the transfers.
pub fn transfers(drawn: &mut Drawn<'_>) {
    let rows = &drawn.diff.transfers;
    if rows.is_empty() {
        return drawn.none("Transfers", "neither run made a copy or a memset");
    }
    drawn.screen.section("Transfers", format!("GPU time of copies and memsets{}", drawn.per()));
    let mut table = Table::new(&[
        left("kind"),
        left("host memory"),
        right("before"),
        right("after"),
        right("change"),
        right(""),
        right("count"),
        right("bytes").or_drop(1),
    ]);
    let shown = drawn.shown(rows.len(), FEW);
    for row in &rows[..shown] {
        let [bytes, bytes_after, ..] = cells(&row.bytes, Unit::Bytes);
        let bytes = if row.bytes.is_same() { bytes } else { bytes.then(" -> ").then(bytes_after) };
        let head = [row.kind.into(), row.host_memory.replace("none", NONE).into()];
        let time = cells(&row.total_ns, Unit::Time);
        table.row(head.into_iter().chain(time).chain([counts(&row.count), bytes]));
    }
    drawn.screen.table(&table, 0, "");
    drawn.hidden(rows.len() - shown, "transfers");
}

/// Draws the calls that waited for the GPU.
pub fn syncs(drawn: &mut Drawn<'_>) {
    let rows = &drawn.diff.syncs;
    if rows.is_empty() {
        return drawn.none("Syncs", "no call waited for the GPU in either run");
    }
    drawn.screen.section("Syncs", format!("host time in calls that wait for the GPU{}", drawn.per()));
    let mut table = Table::new(&[
        right("before"),
        right("after"),
        right("change"),
        right(""),
        right("count"),
        names("call", cut),
    ]);
    let shown = drawn.shown(rows.len(), FEW);
    for row in &rows[..shown] {
        let why = row.implicit.map_or(String::new(), |why| format!(" ({})", why.replace('_', " ")));
        let name = Text::from(format!("{}{why}", row.api));
        table.row(cells(&row.waited_ns, Unit::Time).into_iter().chain([counts(&row.count), name]));
    }
    drawn.screen.table(&table, 0, "");
    drawn.hidden(rows.len() - shown, "syncs");
}

/// Draws the device memory.
pub fn memory(drawn: &mut Drawn<'_>) {
    let memory = &drawn.diff.memory;
    let rows = [
        ("peak", &memory.peak_bytes, Unit::Bytes),
        ("live at the end", &memory.live_bytes, Unit::Bytes),
        ("allocations", &memory.allocations, Unit::Count),
        ("allocated", &memory.allocated_bytes, Unit::Bytes),
        ("frees", &memory.frees, Unit::Count),
        ("out of memory", &memory.out_of_memory, Unit::Count),
    ];
    if rows.iter().all(|(_, figure, _)| figure.is_nothing()) {
        return drawn.none("Memory", "neither run took device memory");
    }
    drawn.screen.section("Memory", "device memory, of the run");
    let mut table = figures("");
    rows.into_iter().for_each(|(name, figure, unit)| add(&mut table, name, figure, unit));
    drawn.screen.table(&table, 0, "");
}

impl Drawn<'_> {
    /// Adds a section that has nothing to show, if the user selected sections.
    fn none(&mut self, title: &str, sentence: &str) {
        if !self.is_overview() {
            self.screen.section(title, sentence);
        }
    }
}

/// Returns a table of figures, each with its name.
fn figures(head: &'static str) -> Table {
    let columns: [Column; 5] = [left(head), right("before"), right("after"), right("change"), right("")];
    Table::new(&columns)
}

/// Adds a figure, unless neither run has anything of it.
fn add(table: &mut Table, name: &str, figure: &Figure, unit: Unit) {
    if !figure.is_nothing() {
        table.row(std::iter::once(Text::from(name)).chain(cells(figure, unit)));
    }
}
