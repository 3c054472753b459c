#!/usr/bin/env python3
"""Makes links that lead out of a folder of documents plain text: packages have a part of the repository's files.

    packaging/links.py FOLDER
"""

import pathlib
import re
import sys

# A link to a file, perhaps to a heading in it: neither to the web nor within the document.
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:)([^)\s#]+)(?:#[^)\s]*)?\)")


def main(folder):
    for document in sorted(pathlib.Path(folder).rglob("*.md")):
        text = document.read_text(encoding="utf-8")
        kept = LINK.sub(lambda link: link[0] if (document.parent / link[2]).exists() else link[1], text)
        document.write_text(kept, encoding="utf-8")


main(*sys.argv[1:])
