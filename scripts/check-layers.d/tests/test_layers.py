"""scripts/check-layers: what counts as an arrow, and which arrows are refused."""

import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FOLDER))

import layers
import rust


class Source(unittest.TestCase):
    """A crate in a temporary folder."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.base = Path(self.folder.name)

    def write(self, **files: str) -> None:
        """Writes files of the crate: `a__b` is a/b.rs."""
        for name, text in files.items():
            path = self.base / "src" / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def arrows(self, **files: str) -> set[str]:
        self.write(**files)
        root = self.base / "src"
        found = rust.Crate(root, "this_crate").arrows()
        return {" ".join(str(file.relative_to(root).with_suffix("")) for file in arrow) for arrow in found}

    def checked(self, *floors: list[str], excepted=frozenset(), **files: str) -> list[str]:
        self.write(**files)
        crate = {"root": "src", "floor": [{"modules": modules, "question": ""} for modules in floors]}
        return layers.Checked(self.base, crate, set(excepted), 3).faults


class Arrows(Source):
    def test_paths_and_uses_are_arrows(self):
        found = self.arrows(
            lib="mod a; mod b; mod c; mod d;",
            a="use crate::{b::{self, Thing as Other}, c};\nfn f() { crate::d::g() }",
            b="pub struct Thing;",
            c="",
            d="pub fn g() {} fn h() { this_crate::b::x() }",
        )
        self.assertEqual(found, {"a b", "a c", "a d", "d b"})

    def test_comments_strings_and_tests_are_none(self):
        found = self.arrows(
            lib="mod a; mod b; #[cfg(test)] mod t;",
            a="""
                //! See [`crate::b`]. /* not open
                /* crate::b::x() /* crate::b */ crate::b::y() */
                const S: &str = "crate::b::x() \\" crate::b::y()";
                const R: &str = r#"crate::b::x() " "#;
                const C: char = '"';
                fn f<'a>(x: &'a str) -> &'a str { x }
                #[cfg(test)]
                use crate::b::{c, d};
                #[cfg(test)]
                #[allow(dead_code)]
                mod tests { use crate::b::x; fn f() { if true { crate::b::y() } } }
            """,
            b="",
            t="use crate::a;",
        )
        self.assertEqual(found, set())

    def test_a_name_belongs_to_the_file_that_defines_it(self):
        found = self.arrows(
            **{
                "lib": "mod a; mod p;",
                "p__mod": "mod low; mod high; pub use low::Low; pub use high::High; pub struct Own;",
                "p__low": "pub struct Low;",
                "p__high": "use super::Low; pub struct High; fn f() { super::super::a::g() }",
                "a": "use crate::p::*; fn g(_: High, _: Own) {}",
            }
        )
        self.assertEqual(found, {"p/high p/low", "p/high a", "a p/high", "a p/mod"})

    def test_a_re_export_that_is_used_as_well_is_an_arrow(self):
        found = self.arrows(
            **{"lib": "mod p;", "p": "mod low; pub use low::Low; struct Own(Low);", "p__low": "pub struct Low;"}
        )
        self.assertEqual(found, {"p p/low"})

    def test_macros_and_child_modules_are_followed(self):
        found = self.arrows(
            **{
                "lib": "mod m; mod p;",
                "m": "macro_rules! m { () => { $crate::p::f() } }",
                "p": "mod c; pub fn f() { c::g() }",
                "p__c": "pub fn g() {}",
            }
        )
        self.assertEqual(found, {"m p", "p p/c"})


class Floors(Source):
    def test_an_arrow_up_is_refused_and_an_exception_is_not(self):
        files = {"lib": "mod low; mod high;", "low": "use crate::high::x;", "high": "use crate::low::y;"}
        faults = self.checked(["low"], ["high"], **files)
        self.assertEqual(faults, ["src/low.rs uses src/high.rs, which is on a higher floor."])
        self.assertEqual(self.checked(["low"], ["high"], excepted={("src/low.rs", "src/high.rs")}, **files), [])

    def test_a_circle_of_four_files_is_refused_and_one_of_three_is_not(self):
        three = {"a": "use crate::b;", "b": "use crate::c;", "c": "use crate::a;"}
        self.assertEqual(self.checked(["a", "b", "c"], lib="mod a; mod b; mod c;", **three), [])
        four = three | {"c": "use crate::d;", "d": "use crate::a;", "lib": "mod a; mod b; mod c; mod d;"}
        faults = self.checked(["a", "b", "c", "d"], **four)
        self.assertEqual(
            faults, ["4 files use each other in a circle: src/a.rs, src/b.rs, src/c.rs, src/d.rs."]
        )

    def test_a_parent_may_put_its_children_together(self):
        children = {f"p__{c}": "use super::Word; pub struct T;" for c in "abcd"}
        parent = "mod a; mod b; mod c; mod d; pub struct Word; fn f(_: a::T, _: b::T, _: c::T, _: d::T) {}"
        self.assertEqual(self.checked(["p"], lib="mod p;", p__mod=parent, **children), [])

    def test_every_file_has_a_floor_and_every_floor_its_files(self):
        faults = self.checked(["a", "gone"], lib="mod a; mod new;", a="", new="")
        self.assertEqual(
            faults,
            [
                "src/new.rs is on no floor of scripts/check-layers.d/floors.toml.",
                "floors.toml names the module gone, which src has not.",
            ],
        )


class Page(unittest.TestCase):
    def test_the_table_stands_between_its_markers(self):
        page = f"before\n{layers.BEGIN}\nold\n{layers.END}\nafter\n"
        self.assertEqual(
            layers.with_table(page, "new"), f"before\n{layers.BEGIN}\nnew\n{layers.END}\nafter\n"
        )


if __name__ == "__main__":
    unittest.main()
