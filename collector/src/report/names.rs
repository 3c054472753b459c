//! Names of kernels, as people know them.

pub use crate::model::names::demangle;

/// A kernel's demangled name in at most `width` characters: without return type and parameters, then with less and
/// less of its template arguments, then with its middle left out.
pub fn shorten(name: &str, width: usize) -> String {
    let name = plain(name);
    if name.chars().count() <= width {
        return name;
    }
    let bare = without_parameters(name.strip_prefix("void ").unwrap_or(&name));
    let mut short = bare.to_owned();
    for depth in (1..=3).rev() {
        if short.chars().count() <= width {
            break;
        }
        short = fold_brackets(bare, depth);
    }
    cut(&short, width)
}

/// Text that cannot move a terminal's cursor: control characters become `?`.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Text in at most `width` characters, its middle left out where it is longer.
pub fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(2);
    let head: String = text.chars().take(keep - keep / 3).collect();
    let tail: String = text.chars().skip(length - keep / 3).collect();
    let dots = ".".repeat(width.min(2));
    format!("{head}{dots}{tail}")
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
        assert_eq!(shorten(name, 200), name);
        assert_eq!(shorten(name, 64), "ns::elementwise<4, ns::add<float, ns::pair<int, int> > >");
        assert_eq!(shorten(name, 50), "ns::elementwise<4, ns::add<float, ns::pair<..> > >");
        assert_eq!(shorten(name, 40), "ns::elementwise<4, ns::add<..> >");
        assert_eq!(shorten(name, 20), "ns::elementwise<..>");
        assert_eq!(shorten(name, 12), "ns::ele....>");
    }

    #[test]
    fn a_width_is_never_exceeded_and_no_control_character_passes() {
        for width in 0..40 {
            assert!(cut("some_rather_long_kernel_name", width).chars().count() <= width);
            assert!(shorten("a<b<c>>(d)µµµ\u{1b}[2Jxyz", width).chars().all(|c| !c.is_control()));
        }
        assert_eq!(shorten("f(", 1).chars().count(), 1);
        assert_eq!(shorten(")))(((a)", 4).chars().count(), 4);
    }
}
