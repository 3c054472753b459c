"""scripts/check-words finds the words that the glossary replaces; scripts/check-links finds links that lead nowhere."""
import importlib.machinery
import importlib.util
import os
import unittest

SCRIPTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def script(name):
    """A script without an extension, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(SCRIPTS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


words, links = script("check-words"), script("check-links")

GLOSSARY = r"""
| term | meaning | instead of |
|---|---|---|
| simulator | A GPU that is none. | `stand-in`, lot |
| reported | In a report. | `/\b(is\|are) told\b(?! apart\b)/` |
| of another table | | |

| say | meaning |
|---|---|
| nothing | `errand` |
"""
PHRASES = words.banned(GLOSSARY)


def found(text):
    return [(line, word, term) for line, word, term in words.hits(text, PHRASES)]


class Words(unittest.TestCase):
    def test_phrases_in_backticks_are_banned_and_other_words_are_advice(self):
        self.assertEqual(len(PHRASES), 2)
        self.assertEqual(found("a Stand-in\nby lot, an errand"), [(1, "Stand-in", "simulator")])

    def test_a_phrase_is_whole_words_and_goes_on_across_line_ends(self):
        self.assertEqual(found("stand-ins, my-stand-in"), [])
        self.assertEqual(found("\nit is\ntold"), [(2, "is told", "reported")])

    def test_a_regular_expression_leaves_other_senses_alone(self):
        self.assertEqual(found("kernels are told apart by name"), [])

    def test_code_in_a_document_is_no_prose(self):
        text = "`stand-in`\n```\nstand-in\n```\n[x](stand-in.md)\n<!-- stand-in -->\nstand-in"
        self.assertEqual(found(words.prose_of_markdown(text)), [(7, "stand-in", "simulator")])

    def test_doc_comments_are_read_and_other_comments_and_code_are_not(self):
        text = '//! stand-in\n// stand-in\nlet a = "stand-in"; //// stand-in\n    /// a\n    /// stand-in\n'
        self.assertEqual([line for line, _, _ in found(words.doc_comments(text))], [1, 5])

    def test_string_literals_are_read_on_their_lines_outside_of_comments_and_tests(self):
        text = (
            'fn f<\'a>() { g("stand-in", \'"\'); } // "stand-in"\n'
            'let raw = r#"a "quoted" stand-in"#;\n'
            'let long = "it is \\\n    told";\n'
            "#[cfg(test)]\nmod tests {\n"
            'const T: &str = "stand-in";\n}\n'
        )
        self.assertEqual([(line, word) for line, word, _ in found(words.string_literals(text))],
                         [(1, "stand-in"), (2, "stand-in"), (3, "is told")])

    def test_only_files_of_the_command_and_the_report_have_user_texts(self):
        line = 'let a = "stand-in";\n'
        count = lambda path: sum(len(found(text)) for text in words.texts(path, line))
        self.assertEqual(count("collector/src/report/text.rs"), 1)
        self.assertEqual(count("collector/src/report/text/tests.rs"), 0)
        self.assertEqual(count("agent/src/lib.rs"), 0)
        for schema in words.SCHEMAS:
            self.assertEqual(count(schema), 1)
            self.assertIn(schema, words.checked_files())

    def test_the_glossary_has_phrases_and_each_names_a_term(self):
        phrases = words.banned(words.read(words.GLOSSARY))
        self.assertGreater(len(phrases), 20)
        self.assertTrue(all(term for _, term in phrases))


class Links(unittest.TestCase):
    def test_a_link_leads_to_a_file_and_to_a_heading(self):
        text = "[a](README.md) [b](NONE.md) [c](https://x.y/z) [d](#here) [e](#gone)\n"
        text += "```\n[f](NONE.md)\n```\n# Here\n[g](NO.md)"
        links.read = lambda path: text
        found = [(1, "NONE.md"), (1, "#gone"), (6, "NO.md")]
        self.assertEqual(list(links.broken_links("CONTRIBUTING.md", text)), found)

    def test_a_path_of_the_repository_is_there(self):
        text = "`scripts/test.sh` `scripts/none.sh` `target/none` // `scripts/nothing.sh`"
        missing = ["scripts/none.sh", "scripts/nothing.sh"]
        self.assertEqual([path for _, path in links.broken_paths(text, False)], missing)
        self.assertEqual([path for _, path in links.broken_paths(text, True)], ["scripts/nothing.sh"])

    def test_a_path_in_a_comment_may_be_one_of_its_crate(self):
        comment = "// `tests/loom.rs`"
        self.assertEqual(list(links.broken_paths(comment, True, "wire/src/ring.rs")), [])
        self.assertEqual(len(list(links.broken_paths(comment, True, "agent/src/hook.rs"))), 1)

    def test_a_decision_names_tests_that_are_there(self):
        text = "`no_such_name`\n## Held by\n`a_test_name` `no_such_test`\n## Next\n`no_such_name`"
        self.assertEqual(list(links.broken_tests(text, {"a_test_name"})), [(3, "no_such_test")])

    def test_a_table_of_tests_names_tests_that_are_there_in_its_last_column(self):
        text = "| hazard | test |\n|---|---|\n| `no_test` | `here.rs`: `a_test_name`, `no_such_test` |\n`no_test` in prose"
        self.assertEqual(list(links.broken_tests_of_tables(text, {"a_test_name"})), [(3, "no_such_test")])

    def test_the_documents_whose_tables_name_tests_are_there(self):
        self.assertTrue(all(os.path.exists(os.path.join(links.ROOT, path)) for path in links.TABLES_OF_TESTS))


if __name__ == "__main__":
    unittest.main()
