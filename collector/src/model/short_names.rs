//! Names of kernels, shortened so that names that differ still differ.

mod apart;

use crate::harmless::plain;
pub use apart::distinct;
use unicode_width::UnicodeWidthChar;

/// Returns a kernel's demangled name in at most `width` columns. Return type and parameters are dropped first; if that is
/// not enough, so are namespaces, then more and more template arguments, then the middle of the name.
pub fn shorten(name: &str, width: usize) -> String {
    let name = plain(name);
    let bare = without_parameters(name.strip_prefix("void ").unwrap_or(&name));
    let local = without_namespaces(bare);
    let folded = |depth| fold_brackets(&local, depth);
    let steps = [bare.to_owned(), local.clone(), folded(3), folded(2), clip_brackets(&folded(2), width)];
    let short = steps.into_iter().find(|step| columns(step) <= width).unwrap_or_else(|| folded(1));
    cut(&short, width)
}

/// Returns the function's own name: without its return type, parameters, template arguments and namespaces.
pub fn function(name: &str) -> String {
    let bare = without_parameters(name.strip_prefix("void ").unwrap_or(name));
    let mut own = without_namespaces(bare);
    // Brackets of arguments; those of an operator's name are not closed.
    if own.ends_with('>')
        && let Some(at) = own.find('<').filter(|at| *at > 0 && !own.starts_with("operator"))
    {
        own.truncate(at);
    }
    own
}

/// Returns how many columns a character takes on a terminal.
pub fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Returns how many columns a text takes on a terminal.
fn columns(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns text in at most `width` columns. If it is longer, its middle is left out.
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

/// Returns as many of the first characters as fit.
fn head(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    text.take_while(|c| {
        used += char_width(*c);
        used <= width
    })
    .collect()
}

/// Returns the name without the parameter list at its end.
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

/// Returns the name without the scope before each `::`, unless the scope is a class with template arguments, or a lambda.
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

/// Returns the name with as many template arguments as fit, if at least one does.
fn clip_brackets(name: &str, width: usize) -> String {
    const REST: &str = ", ..>";
    let (mut used, mut depth, mut end) = (REST.len(), 0usize, None);
    for (at, c) in name.char_indices() {
        used += char_width(c);
        // A comma just past the last character that fits still ends an argument that fits.
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

/// Returns the name without anything nested in `depth` or more angle brackets.
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
    fn a_functions_own_name_is_its_last_part() {
        for (name, own) in [
            ("void at::native::elementwise<4, at::add<float> >(int, float*)", "elementwise"),
            ("vecadd(float const*, int)", "vecadd"),
            ("gemm_5us", "gemm_5us"),
            ("<..>", "<..>"),
            ("", ""),
        ] {
            assert_eq!(function(name), own);
        }
    }

    #[test]
    fn scopes_are_removed_unless_they_distinguish_kernels() {
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
        assert_eq!(plain("abc\u{202e}cba\u{200b}"), "abc?cba?", "invisible characters are replaced too");
        assert_eq!(shorten("f(", 1).chars().count(), 1);
        assert_eq!(shorten(")))(((a)", 4).chars().count(), 4);
    }
}
