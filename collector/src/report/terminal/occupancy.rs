//! How well kernels fill a GPU, and what to change.

use super::Run;
use super::screen::{NONE, Screen, number};
use super::stats::Stats;
use crate::analyze::kernels;
use crate::analyze::shapes::{Launched, Said};
use crate::model::multiprocessor::Limit;
use crate::report::names::shorten;
use crate::report::rows::kernels::Kernel;
use crate::report::rows::shapes::{Between, Shape};
use crate::report::table::{Table, left, names, right};
use crate::report::text::Text;
use crate::report::units::{bytes, count, percent, plural};

/// The most kernels that the overview names. Each takes at least one part in `WORTH` of wall time.
const MOST: usize = 2;
const WORTH: u64 = 20;
/// A theoretical occupancy below this is low.
const LITTLE: f64 = 0.5;
/// The fewest columns of a name in the table: here the other columns matter more.
const SHORT: usize = 20;
/// The columns of a name in a sentence.
const NAME: usize = 30;

/// Draws the section: complete with `--section occupancy`; in the overview only kernels that are worth a change.
pub fn occupancy(screen: &mut Screen<'_>, run: &Run<'_>) {
    if !screen.view.is_selected() {
        return worth_changing(screen, run);
    }
    let kernels = kernels(run).filter_map(|(kernel, of)| Some((Stats::of(kernel), kernel, known(of)?)));
    let mut rows: Vec<(Stats, &Kernel, &Launched)> = kernels.collect();
    if rows.is_empty() {
        return screen.none("Occupancy", "no kernel's occupancy was queried from the driver");
    }
    let sentence = "how well kernels can fill a GPU, as the driver computes it before launch; for the most common launch shape of each";
    screen.section("Occupancy", sentence);
    screen.view.sort.apply(&mut rows, |(stats, ..)| stats.keys());
    let shown = screen.view.rows(usize::MAX).min(rows.len());
    let hidden = rows.len() - shown;
    rows.truncate(shown);
    screen.table(&table(&rows), hidden, "occupancy");
    screen.remark(
        "theor. is the theoretical occupancy: the warps that fit on a multiprocessor, of its maximum; est. is the estimated \
         achieved occupancy, for the launched blocks spread evenly (\"est. achieved occupancy %\" in exports). Neither is \
         measured",
    );
    for (stats, _, launched) in &rows {
        if let Some(advice) = advice(launched) {
            screen.titled("", 2, sentence_of(&stats.name, &advice));
        }
    }
}

/// Returns registers, occupancy and waves of a kernel as cells.
pub fn shape(shape: &Shape) -> [Text; 3] {
    [registers(shape), occupancy_of(shape), waves(shape)]
}

/// Returns the kernels' rows, and what advice is based on.
fn kernels<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (&'a Kernel, &'a kernels::Kernel)> {
    run.rows.kernels.iter().zip(&run.all.kernels)
}

/// Returns the most common launch shape, if the driver was queried about it.
fn known(kernel: &kernels::Kernel) -> Option<&Launched> {
    kernel.shapes.commonest().filter(|launched| launched.said.is_some())
}

fn table(rows: &[(Stats, &Kernel, &Launched)]) -> Table {
    let mut table = Table::new(&[
        right("regs"),
        right("shared").or_drop(2),
        right("threads"),
        right("blocks/SM").or_drop(1),
        right("theor."),
        right("est.").or_drop(5),
        right("waves"),
        right("spilled").or_drop(3),
        right("shapes").or_drop(6),
        left("limited by").or_drop(5),
        left("library").or_drop(4),
        names("name", shorten).down_to(SHORT),
    ]);
    for (stats, Kernel { shape, .. }, _) in rows {
        let or_none = |text: Option<String>| Text::from(text.unwrap_or_else(|| NONE.to_owned()));
        let shared = shape.dynamic_shared_bytes.zip(shape.static_shared_bytes);
        let shared = shared.map(|(launched, compiled)| bytes(u64::from(launched) + u64::from(compiled)));
        let local = shape.local_bytes.filter(|local| *local > 0);
        let limits = (!shape.limited_by.is_empty()).then(|| shape.limited_by.join(", "));
        let file = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
        table.row([
            registers(shape),
            or_none(shared),
            or_none(shape.threads.map(|threads| count(threads.into()))),
            or_none(shape.blocks_per_multiprocessor.map(|blocks| blocks.to_string())),
            occupancy_of(shape),
            achieved(shape),
            waves(shape),
            or_none(local.map(|local| bytes(local.into()))),
            number(shape.shapes),
            or_none(limits),
            or_none(shape.library.as_ref().map(file)),
            Text::from(&stats.name),
        ]);
    }
    table
}

fn registers(shape: &Shape) -> Text {
    shape.registers.map_or_else(|| NONE.to_owned(), |registers| registers.to_string()).into()
}

fn occupancy_of(shape: &Shape) -> Text {
    let part = shape.theoretical_occupancy;
    part.map_or_else(|| NONE.to_owned(), |part| format!("{:.0} %", part * 100.0)).into()
}

/// Formats the estimated achieved occupancy. With launches of several sizes it is a range from the smallest to the largest.
fn achieved(shape: &Shape) -> Text {
    let whole = |part: f64| format!("{:.0}", part * 100.0);
    let text = shape.est_achieved_occupancy.as_ref().map(|part| match (whole(part.min), whole(part.max)) {
        (least, most) if least == most => format!("{most} %"),
        (least, most) => format!("{least} .. {most} %"),
    });
    text.unwrap_or_else(|| NONE.to_owned()).into()
}

fn waves(shape: &Shape) -> Text {
    let text = shape.waves.as_ref().map(|&Between { min, max }| {
        if min == max { wave(min) } else { format!("{}..{}", wave(min), wave(max)) }
    });
    text.unwrap_or_else(|| NONE.to_owned()).into()
}

fn wave(waves: f64) -> String {
    match waves {
        ..0.005 => "<0.01".to_owned(),
        ..9.995 => format!("{waves:.2}"),
        ..99.95 => format!("{waves:.1}"),
        _ => count(waves.round() as u64),
    }
}

/// Returns what to change, if that is clear.
fn advice(launched: &Launched) -> Option<String> {
    let said = launched.said.as_ref()?;
    let (least, most) = launched.blocks.unwrap_or_default();
    let resident = launched.resident().filter(|_| launched.blocks.is_some());
    if let Some(resident) = resident.filter(|resident| most < *resident) {
        let blocks = plural(most, "block", "blocks");
        return Some(format!("{blocks} launched, but {} fit: too few to fill the GPU", count(resident)));
    }
    if said.local_bytes > 0 {
        let local = bytes(said.local_bytes.into());
        return Some(format!(
            "{local} of local memory per thread: registers spill, or arrays are indexed at run time"
        ));
    }
    if let Some(occupancy) = launched.occupancy().filter(|part| *part < LITTLE)
        && let Some(what) = given(launched, said)
    {
        let of = percent((occupancy * 1000.0) as u64, 1000);
        return Some(format!("theoretical occupancy {of}: {what}"));
    }
    let resident = resident?;
    let over = most - resident;
    let has_tail = least == most && over > 0 && over.saturating_mul(2) < resident;
    has_tail.then(|| {
        let (over, most) = (count(over), count(most));
        format!(
            "tail effect: {over} of {most} blocks run after all others are done; fewer or larger blocks fit one wave"
        )
    })
}

/// Returns the resource that limits occupancy, if a block can use less of it.
fn given(launched: &Launched, said: &Said) -> Option<String> {
    let is_met = |limit| said.limits.contains(&limit);
    if is_met(Limit::Warps) || is_met(Limit::Blocks) {
        return None;
    }
    let registers = is_met(Limit::Registers).then(|| format!("{} registers per thread", said.registers));
    let shared = is_met(Limit::SharedMemory)
        .then(|| Some(format!("{} of shared memory per block", bytes(launched.shared_bytes()?))))
        .flatten();
    let both: Vec<String> = registers.into_iter().chain(shared).collect();
    let verb = if is_met(Limit::Registers) { "leave" } else { "leaves" };
    (!both.is_empty()).then(|| format!("{} {verb} no room for more blocks", both.join(" and ")))
}

fn sentence_of(name: &str, advice: &str) -> Text {
    Text::from(shorten(name, NAME)).then(": ").then(advice)
}

/// Draws the overview: kernels that take much of the time and for which there is advice.
fn worth_changing(screen: &mut Screen<'_>, run: &Run<'_>) {
    let wall = run.gpu_wall();
    let is_worth = |kernel: &Kernel| {
        kernel.total_ns.is_some_and(|total| total.value > 0 && total.value.saturating_mul(WORTH) >= wall)
    };
    let found = kernels(run).filter(|(kernel, _)| is_worth(kernel));
    let mut found = found.filter_map(|(kernel, of)| Some((kernel, advice(known(of)?)?)));
    let lines = found.by_ref().take(MOST).map(|(kernel, advice)| sentence_of(&kernel.name, &advice));
    let lines: Vec<Text> = lines.collect();
    let mut lines = lines.into_iter();
    let Some(first) = lines.next() else { return };
    screen.section("Occupancy", first);
    lines.for_each(|line| screen.more(line));
    let rest = found.count() as u64;
    if rest > 0 {
        screen.remark(&format!("and {} more: --section occupancy", count(rest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(blocks: Option<(u64, u64)>, held: u32, said: Said) -> Launched {
        let said = Said {
            registers: 64,
            blocks_per_multiprocessor: held,
            multiprocessors: 100,
            warps_per_multiprocessor: 64,
            ..said
        };
        Launched {
            threads: 256,
            dynamic_shared_bytes: 4096,
            launches: 1,
            captured: 0,
            blocks,
            said: Some(said),
        }
    }

    fn advised(blocks: (u64, u64), held: u32, said: Said) -> String {
        advice(&launched(Some(blocks), held, said)).unwrap_or_default()
    }

    #[test]
    fn advice_is_given_where_it_is_clear() {
        let none = Said::default;
        assert_eq!(advised((1, 1), 8, none()), "1 block launched, but 800 fit: too few to fill the GPU");
        assert!(advised((10, 799), 8, none()).starts_with("799 blocks launched, but 800 fit"));
        assert_eq!(advised((10, 800), 8, none()), "", "some launches fill the GPU");
        let spilled = || Said { local_bytes: 16, ..none() };
        assert!(advised((10, 800), 8, spilled()).starts_with("16 B of local memory per thread"));
        assert!(
            advised((10, 700), 8, spilled()).starts_with("700 blocks"),
            "too few blocks is the first concern"
        );
        let limited = |limits: &[Limit]| Said { limits: limits.to_vec(), ..none() };
        assert_eq!(
            advised((9000, 9000), 3, limited(&[Limit::Registers])),
            "theoretical occupancy 37.5 %: 64 registers per thread leave no room for more blocks"
        );
        assert_eq!(
            advised((9000, 9000), 3, limited(&[Limit::SharedMemory])),
            "theoretical occupancy 37.5 %: 4.00 KiB of shared memory per block leaves no room for more blocks"
        );
        assert!(advised((9000, 9000), 3, limited(&[Limit::Registers, Limit::SharedMemory])).ends_with(
            "64 registers per thread and 4.00 KiB of shared memory per block leave no room for more blocks"
        ));
        assert_eq!(
            advised((9000, 9000), 3, limited(&[Limit::Blocks, Limit::Registers])),
            "",
            "the number of blocks is the limit, not their registers"
        );
        assert_eq!(advised((9000, 9000), 3, limited(&[])), "", "the limit is not known");
        assert_eq!(
            advised((9000, 9000), 4, limited(&[Limit::Registers])),
            "",
            "occupancy of one half is no reason for advice"
        );
        assert!(
            advised((900, 900), 8, none())
                .starts_with("tail effect: 100 of 900 blocks run after all others are done")
        );
        assert_eq!(advised((1200, 1200), 8, none()), "", "the second wave is half full");
        assert_eq!(advised((900, 901), 8, none()), "", "not all launches have a tail");
        assert_eq!(advice(&launched(None, 8, none())), None, "the blocks of a graph's node are not known");
        assert_eq!(advice(&launched(Some((900, 900)), 0, none())), None, "the driver did not say");
    }
}
