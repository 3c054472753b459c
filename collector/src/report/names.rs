//! Names of kernels, as people know them.

pub use crate::model::names::demangle;
use unicode_width::UnicodeWidthChar;

/// A kernel's demangled name in at most `width` columns: without return type and parameters, and where that is too long
/// without namespaces, then with less and less of its template arguments, then with its middle left out.
pub fn shorten(name: &str, width: usize) -> String {
    let name = plain(name);
    let bare = without_parameters(name.strip_prefix("void ").unwrap_or(&name));
    let local = without_namespaces(bare);
    let folded = |depth| fold_brackets(&local, depth);
    let steps = [bare.to_owned(), local.clone(), folded(3), folded(2), clip_brackets(&folded(2), width)];
    let short = steps.into_iter().find(|step| columns(step) <= width).unwrap_or_else(|| folded(1));
    cut(&short, width)
}

/// Text that can neither move a terminal's cursor nor change the order of what stands on it: control characters become
/// `?`, and so do the invisible ones that join, separate and turn around.
pub fn plain(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if is_harmful(c) { '?' } else { c }).collect()
}

/// The most columns that [`library`] takes.
pub const LIBRARY: usize = 22;

/// A library's name without its folders; `?` where nobody knows it.
pub fn library(path: Option<&str>) -> String {
    let name = path.and_then(|path| path.rsplit('/').next());
    cut(&name.map_or_else(|| "?".to_owned(), plain), LIBRARY)
}

/// Columns that a character takes on a terminal.
pub(super) fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Columns that a text takes on a terminal.
fn columns(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Text in at most `width` columns, its middle left out where it is longer.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(2);
    let head = head(text.chars(), keep - keep / 3);
    let tail: String = self::head(text.chars().rev(), keep / 3).chars().rev().collect();
    let dots = ".".repeat(width.min(2));
    format!("{head}{dots}{tail}")
}

/// As many characters as fit.
fn head(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    text.take_while(|c| {
        used += char_width(*c);
        used <= width
    })
    .collect()
}

/// The name without the parameter list at its end.
fn without_parameters(name: &str) -> &str {
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0usize;
    for (at, c) in name.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { name } else { &name[..at] };
        }
    }
    name
}

/// The name without what stands before each `::`, unless that is a class with arguments, or a lambda.
fn without_namespaces(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(at) = rest.find("::") {
        out.push_str(&rest[..at]);
        rest = &rest[at + 2..];
        if let Some(outer) = out.strip_suffix("(anonymous namespace)") {
            out.truncate(outer.len());
            continue;
        }
        let scope = out.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        if scope < out.len() {
            out.truncate(scope);
        } else {
            out.push_str("::");
        }
    }
    out + rest
}

/// The name with as many of its template arguments as fit, if one at least does.
fn clip_brackets(name: &str, width: usize) -> String {
    const REST: &str = ", ..>";
    let (mut used, mut depth, mut end) = (REST.len(), 0usize, None);
    for (at, c) in name.char_indices() {
        used += char_width(c);
        // A comma right behind what just fits is where it ends.
        if used > width.saturating_add(1) {
            break;
        }
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 1 => end = Some(at),
            _ => {}
        }
    }
    end.map_or_else(|| name.to_owned(), |end| format!("{}{REST}", &name[..end]))
}

/// The name with what lies `depth` angle brackets deep or deeper left out.
fn fold_brackets(name: &str, depth: usize) -> String {
    let (mut out, mut inside) = (String::new(), 0usize);
    for c in name.chars() {
        match c {
            '<' => {
                inside += 1;
                if inside == depth {
                    out.push_str("<..");
                }
            }
            '>' if inside > 0 => inside -= 1,
            _ => {}
        }
        if inside < depth {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_shrink_in_steps() {
        let name =
            "void ns::elementwise<4, ns::add<float, ns::pair<int, int> > >(int, ns::add<float>, float*)";
        for (width, short) in [
            (200, "ns::elementwise<4, ns::add<float, ns::pair<int, int> > >"),
            (56, "ns::elementwise<4, ns::add<float, ns::pair<int, int> > >"),
            (50, "elementwise<4, add<float, pair<int, int> > >"),
            (40, "elementwise<4, add<float, pair<..> > >"),
            (30, "elementwise<4, add<..> >"),
            (20, "elementwise<4, ..>"),
            (18, "elementwise<4, ..>"),
            (17, "elementwise<..>"),
            (16, "elementwise<..>"),
            (12, "element....>"),
        ] {
            assert_eq!(shorten(name, width), short, "{width}");
        }
    }

    #[test]
    fn what_is_left_of_a_scope_tells_kernels_apart() {
        for (name, local) in [
            ("at::native::(anonymous namespace)::softmax", "softmax"),
            ("a::f<b::c, d::e<g::h>>", "f<c, e<h>>"),
            ("cub::Agent<int>::run", "Agent<int>::run"),
            ("a::{lambda(int)#1}::operator()", "{lambda(int)#1}::operator()"),
            ("::global", "::global"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_namespaces(name), local);
        }
    }

    #[test]
    fn a_width_is_never_exceeded_and_no_control_character_passes() {
        for width in 0..40 {
            assert!(cut("some_rather_long_kernel_name", width).chars().count() <= width);
            assert!(columns(&cut("世界_核心_世界_核心_世界", width)) <= width);
            assert!(shorten("a<b<c>>(d)µµµ\u{1b}[2Jxyz", width).chars().all(|c| !c.is_control()));
        }
        assert_eq!(plain("abc\u{202e}cba\u{200b}"), "abc?cba?", "nor is anything turned around");
        assert_eq!(shorten("f(", 1).chars().count(), 1);
        assert_eq!(shorten(")))(((a)", 4).chars().count(), 4);
    }
}
