//! Names of one table, shortened so that no two of them look alike.

use super::{columns, cut, plain, without_namespaces, without_parameters};
use crate::hash::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Names that are longer are only numbered, bytes: a symbol can stand for a huge name.
const LONGEST: usize = 16 * 1024;

/// Returns names in at most `width` columns, each shortened by `shorten`. Where two different names become equal, what
/// tells them apart is kept, and the rest is left out in the middle; if there is no room for it, they are numbered.
pub fn distinct(names: &[&str], width: usize, shorten: impl Fn(&str, usize) -> String) -> Vec<String> {
    let mut short: HashMap<&str, String> = names.iter().map(|name| (*name, shorten(name, width))).collect();
    for group in alike(names, &short) {
        let apart = apart(&group, width);
        short.extend(group.into_iter().zip(apart));
    }
    number(names, &mut short, width);
    names.iter().map(|name| short[name].clone()).collect()
}

/// Returns the groups of different names that look alike.
fn alike<'n>(names: &[&'n str], short: &HashMap<&str, String>) -> Vec<Vec<&'n str>> {
    let mut groups: BTreeMap<&str, BTreeSet<&'n str>> = BTreeMap::new();
    for name in names {
        groups.entry(&short[name]).or_default().insert(name);
    }
    let alike = groups.into_values().filter(|group| group.len() > 1);
    alike.map(|group| group.into_iter().collect()).collect()
}

/// Numbers names that still look alike, in alphabetical order. The first one keeps its short name.
fn number<'n>(names: &[&'n str], short: &mut HashMap<&'n str, String>, width: usize) {
    let mut taken: HashSet<String> = short.values().cloned().collect();
    for group in alike(names, short) {
        let mut numbers = 2u64..;
        for name in &group[1..] {
            let mut numbered = numbers.by_ref().map(|n| {
                let number = format!("#{n}");
                cut(&short[name], width.saturating_sub(number.len())) + &number
            });
            if let Some(numbered) = numbered.find(|numbered| taken.insert(numbered.clone())) {
                short.insert(name, numbered);
            }
        }
    }
}

/// Returns short forms of names that look alike when they are shortened one by one.
fn apart(group: &[&str], width: usize) -> Vec<String> {
    if group.iter().any(|name| name.len() > LONGEST) {
        return group.iter().map(|name| cut(&plain(name), width)).collect();
    }
    let whole: Vec<String> = group.iter().map(|name| plain(name)).collect();
    let bare: Vec<String> = whole.iter().map(|name| bare(name).to_owned()).collect();
    let local: Vec<String> = bare.iter().map(|name| without_namespaces(name)).collect();
    let differ = |forms: &&Vec<String>| forms.iter().collect::<HashSet<_>>().len() == forms.len();
    let forms = [&local, &bare].into_iter().find(differ).unwrap_or(&whole);
    let tokens: Vec<Vec<&str>> = forms.iter().map(|form| tokens(form)).collect();
    let branches = branches(&tokens);
    tokens.iter().zip(branches).map(|(tokens, branches)| Kept::of(tokens, &branches, width)).collect()
}

fn bare(name: &str) -> &str {
    without_parameters(name.strip_prefix("void ").unwrap_or(name))
}

/// Splits a name into words of letters and digits, and single other characters.
fn tokens(name: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (token, more) = rest.split_at(word.max(first.len_utf8()));
        tokens.push(token);
        rest = more;
    }
    tokens
}

/// Returns for each name the places of the tokens at which it branches off from others.
fn branches(names: &[Vec<&str>]) -> Vec<BTreeSet<usize>> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| names[*a].cmp(&names[*b]));
    // In sorted order, what two names have in common is the least that any two neighbours between them have.
    let common = |pair: &[usize]| {
        names[pair[0]].iter().zip(&names[pair[1]]).take_while(|(one, other)| one == other).count()
    };
    let common: Vec<usize> = order.windows(2).map(common).collect();
    let mut all = vec![BTreeSet::new(); names.len()];
    for (at, name) in order.into_iter().enumerate() {
        let least = |so_far: &mut usize, common: &usize| {
            *so_far = (*so_far).min(*common);
            Some(*so_far)
        };
        let after = common[at..].iter().scan(usize::MAX, least);
        let before = common[..at].iter().rev().scan(usize::MAX, least);
        all[name] = after.chain(before).filter(|branch| *branch < names[name].len()).collect();
    }
    all
}

/// What is kept of a name.
struct Kept<'t> {
    tokens: &'t [&'t str],
    kept: BTreeSet<usize>,
    width: usize,
}

impl Kept<'_> {
    /// Returns a short form that keeps the tokens at the branches, and as much around them and of the name's start as
    /// there is room for.
    fn of(tokens: &[&str], branches: &BTreeSet<usize>, width: usize) -> String {
        let mut name = Kept { tokens, kept: branches.clone(), width };
        if columns(&name.drawn()) > width {
            return cut(&tokens.concat(), width);
        }
        let is_word = |at: &usize| tokens[*at].chars().all(|c| c.is_alphanumeric() || c == '_');
        for branch in branches {
            name.extend((0..*branch).rev().take_while(is_word));
            name.extend((branch + 1..tokens.len()).take_while(is_word));
        }
        name.extend((0..tokens.len()).take_while(is_word));
        name.extend((0..tokens.len()).rev().take_while(|at| tokens[*at] == ">"));
        for branch in branches {
            name.extend(branch + 1..tokens.len());
        }
        name.extend(0..tokens.len());
        name.drawn()
    }

    /// Keeps more tokens up to the first one for which there is no room.
    fn extend(&mut self, more: impl Iterator<Item = usize>) {
        for at in more {
            if self.kept.insert(at) && columns(&self.drawn()) > self.width {
                self.kept.remove(&at);
                return;
            }
        }
    }

    fn drawn(&self) -> String {
        let mut drawn = String::new();
        let mut next = 0;
        let ends = self.kept.iter().copied().chain([self.tokens.len()]);
        for at in ends {
            let left_out = self.tokens[next..at].concat();
            // Two characters are no longer than the sign for what is left out.
            drawn.push_str(if columns(&left_out) > 2 { ".." } else { &left_out });
            drawn.push_str(self.tokens.get(at).copied().unwrap_or_default());
            next = at + 1;
        }
        drawn
    }
}

#[cfg(test)]
mod tests;
