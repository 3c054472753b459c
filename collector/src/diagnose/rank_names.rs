//! How are ranks named in a sentence?

use crate::analyze::ranks::Ranks;
use std::collections::BTreeSet;

/// The most ranks, or ranges of them, that are named in a sentence.
const NAMED: usize = 8;
/// The fewest successive ranks that are named by the first and the last.
const RANGE: usize = 3;

/// Returns the numbers of ranks that are given by their places.
pub fn numbers(ranks: &Ranks, places: &[usize]) -> Vec<u32> {
    places.iter().map(|place| ranks.rows[*place].rank).collect()
}

/// Names ranks: `rank 3`, `ranks 1 and 3`, `ranks 8 to 15`, `ranks 0, 2, 4 and 13 more`.
pub fn named(ranks: &[u32]) -> String {
    let is_next = |last: &u32, rank: &u32| last.checked_add(1) == Some(*rank);
    let ranges = ranks.chunk_by(is_next).flat_map(|range| match range {
        [first, .., last] if range.len() >= RANGE => vec![(format!("{first} to {last}"), range.len())],
        few => few.iter().map(|rank| (rank.to_string(), 1)).collect(),
    });
    let (mut list, mut more) = (Vec::new(), 0);
    for (text, count) in ranges {
        if list.len() < NAMED {
            list.push(text);
        } else {
            more += count;
        }
    }
    list.extend((more > 0).then(|| format!("{more} more")));
    match list.split_last() {
        Some((only, [])) if ranks.len() == 1 => format!("rank {only}"),
        Some((only, [])) => format!("ranks {only}"),
        Some((last, before)) => format!("ranks {} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Names the ranks at these places, and of a job on several machines their machine, if it is one: `rank 3 (node7)`,
/// `ranks 8 to 15 (all of node1)`.
pub fn with_host(ranks: &Ranks, places: &[usize]) -> String {
    let list = named(&numbers(ranks, places));
    let hosts: BTreeSet<Option<&str>> =
        places.iter().map(|place| ranks.rows[*place].host.as_deref()).collect();
    match hosts.first().copied().flatten() {
        Some(host) if hosts.len() == 1 && ranks.has_hosts() => {
            let its = ranks.rows.iter().filter(|row| row.host.as_deref() == Some(host)).count();
            let all = if its == places.len() && its > 1 { "all of " } else { "" };
            format!("{list} ({all}{host})")
        }
        _ => list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::ranks::Rank;

    #[test]
    fn ranks_are_named_in_a_sentence() {
        assert_eq!(named(&[3]), "rank 3");
        assert_eq!(named(&[1, 3]), "ranks 1 and 3");
        assert_eq!(named(&[1, 2]), "ranks 1 and 2");
        assert_eq!(named(&[8, 9, 10, 11]), "ranks 8 to 11");
        assert_eq!(named(&[0, 1, 2, 5]), "ranks 0 to 2 and 5");
        let even: Vec<u32> = (0..12).map(|n| 2 * n).collect();
        assert_eq!(named(&even), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 4 more");
    }

    #[test]
    fn the_machine_is_named_if_there_are_several() {
        let on = |hosts: [&str; 4]| Ranks {
            rows: (0..)
                .zip(hosts)
                .map(|(rank, host)| Rank { rank, host: Some(host.to_owned()), ..Rank::default() })
                .collect(),
            ..Ranks::default()
        };
        let two = on(["n0", "n0", "n1", "n1"]);
        assert_eq!(with_host(&two, &[2]), "rank 2 (n1)");
        assert_eq!(with_host(&two, &[2, 3]), "ranks 2 and 3 (all of n1)");
        assert_eq!(with_host(&two, &[1, 2]), "ranks 1 and 2");
        assert_eq!(with_host(&on(["n0", "n1", "n2", "n3"]), &[2]), "rank 2 (n2)");
        assert_eq!(with_host(&on(["n0"; 4]), &[2, 3]), "ranks 2 and 3");
    }
}
