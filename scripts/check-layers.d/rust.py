"""Reads which file of a Rust crate uses which other file of it.

This is no compiler: it reads `use` declarations and paths that begin with `crate`, `super`, `self` or a child module. A
name is followed through re-exports to the file that defines it, so a `mod.rs` that only re-exports its children is not
itself a dependency of theirs. Code under `#[cfg(test)]` is left out. A method call names no module and is not seen; the
type that it is called on is, wherever it is named.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

TOKENS = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*)
      | (?P<raw>(?<!\w)[bc]?r(?P<hashes>\#*)"(?s:.)*?"(?P=hashes))
      | (?P<text>[bc]?"(?:\\(?s:.)|[^"\\])*")
      | (?P<char>b?'(?:\\(?:[^u]|u\{[0-9a-fA-F_]*\})[0-9a-fA-F]*|[^\\'\n])')
    """,
    re.VERBOSE,
)
DEFINITION = re.compile(
    r"\b(?:fn|struct|enum|union|trait|type|const|static(?:\s+mut)?|macro_rules!)\s+([A-Za-z_]\w*)"
)


def without_text(source: str) -> str:
    """The source without comments, and with its strings and characters emptied."""
    kept, at = [], 0
    while match := TOKENS.search(source, at):
        kept.append(source[at : match.start()])
        at = match.end()
        if match["block"]:
            depth = 1
            while depth and at < len(source):
                pair = source[at : at + 2]
                depth += {"/*": 1, "*/": -1}.get(pair, 0)
                at += 2 if pair in ("/*", "*/") else 1
            kept.append(" ")
        elif match["line"]:
            pass
        else:
            kept.append('""')
    kept.append(source[at:])
    return "".join(kept)


def item_end(code: str, at: int) -> int:
    """Where the item that begins at `at` ends: after its `;`, its `,` or its braces."""
    depth = 0
    while at < len(code):
        char = code[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return at
            if depth == 0 and char == "}":
                return at + 1
        elif char in ";," and depth == 0:
            return at + 1
        at += 1
    return at


def without_tests(code: str) -> str:
    """The code without the items under `#[cfg(test)]`."""
    mark = re.compile(r"#\[cfg\(test\)\]\s*")
    while match := mark.search(code):
        at = match.end()
        while code.startswith("#[", at):
            at = code.index("]", at) + 1
            at += len(code[at:]) - len(code[at:].lstrip())
        end = item_end(code, at)
        # `use a::{b, c};` has braces before its end.
        if re.match(r"(pub(\([^)]*\))?\s+)?use\b", code[at:]):
            end = code.index(";", at) + 1
        code = code[: match.start()] + code[end:]
    return code


def use_trees(tree: str, prefix: tuple[str, ...] = ()):
    """Yields the path and the name of each import of a `use` tree; the name of a glob is `*`."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = (part.strip() for part in tree.partition(" as "))
        segments = [*prefix, *path.split("::")]
        if segments[-1] == "self" and len(segments) > 1:
            segments.pop()
        yield segments, alias or segments[-1]
        return
    prefix = (*prefix, *(segment.strip() for segment in tree[:brace].split("::") if segment.strip()))
    depth, start = 0, brace + 1
    for at in range(brace, len(tree)):
        char = tree[at]
        depth += (char == "{") - (char == "}")
        if (char == "," and depth == 1) or (char == "}" and depth == 0):
            if tree[start:at].strip():
                yield from use_trees(tree[start:at], prefix)
            start = at + 1


@dataclass
class Module:
    """A module that has a file of its own."""

    path: tuple[str, ...]
    file: Path
    code: str = ""
    body: str = ""
    children: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    imports: list[tuple[list[str], str, bool]] = field(default_factory=list)

    def read(self) -> None:
        self.code = without_tests(without_text(self.file.read_text()))
        use = re.compile(r"(?<![\w#])(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
        for match in use.finditer(self.code):
            for segments, name in use_trees(match[2]):
                self.imports.append((segments, name, bool(match[1])))
        self.body = use.sub("", self.code)
        declared = re.compile(r"\bmod\s+([A-Za-z_]\w*)\s*;")
        self.children = set(declared.findall(self.body))
        self.body = declared.sub("", self.body)
        self.names = set(DEFINITION.findall(self.body))


class Crate:
    """The modules of a crate, found by their `mod` declarations, and what each uses."""

    def __init__(self, root: Path, name: str = ""):
        self.root, self.name = root, name
        roots = "|".join(filter(None, ("crate", "super", "self", name)))
        self.inline = re.compile(rf"(?<![\w:])((?:{roots})(?:::[A-Za-z_]\w*)+)")
        self.modules: dict[tuple[str, ...], Module] = {}
        for top in ("lib.rs", "main.rs"):
            if (root / top).exists():
                self._read((), root / top, () if top == "lib.rs" else ("main",))

    def _read(self, path: tuple[str, ...], file: Path, key: tuple[str, ...]) -> None:
        module = Module(key, file)
        module.read()
        self.modules[key] = module
        folder = file.parent if file.stem in ("lib", "main", "mod") else file.parent / file.stem
        for child in module.children:
            for candidate in (folder / f"{child}.rs", folder / child / "mod.rs"):
                if candidate.exists():
                    self._read((*path, child), candidate, (*path, child))

    def arrows(self) -> set[tuple[Path, Path]]:
        """The pairs of files of which the first uses the second."""
        found = set()
        for module in self.modules.values():
            for target in self._uses(module):
                if target != module.file:
                    found.add((module.file, target))
        return found

    def _uses(self, module: Module):
        words = set(re.findall(r"(?<![\w:.])\w+", module.body))
        for segments, name, is_public in module.imports:
            if name == "*":
                if not is_public:
                    yield from self._globbed(module, segments)
            elif not is_public or name in words:
                yield from self._resolve(module, segments)
        for path in self.inline.findall(module.body):
            yield from self._resolve(module, path.split("::"))
        for child in module.children:
            for path in re.findall(rf"(?<![\w:.]){child}(?:::[A-Za-z_]\w*)+", module.body):
                yield from self._resolve(module, path.split("::"))

    def _absolute(self, module: Module, segments: list[str]):
        """The segments from the crate's root; `None` for another crate's."""
        first, *rest = segments
        if first == "crate" or (first == self.name and first):
            return rest
        if first == "self":
            return [*module.path, *rest]
        if first == "super":
            return self._above(module, rest)
        if first in module.children:
            return [*module.path, *segments]
        return None

    def _above(self, module: Module, rest: list[str]):
        parent = list(module.path[:-1])
        while rest and rest[0] == "super":
            parent, rest = parent[:-1], rest[1:]
        return [*parent, *rest]

    def _resolve(self, module: Module, segments: list[str]):
        absolute = self._absolute(module, segments)
        if absolute is not None and (file := self._definer(absolute, set())):
            yield file

    def _definer(self, path: list[str], met: set):
        """The file that defines what the path names: the last module on it, or where that has the name from."""
        at = next(n for n in range(len(path), -1, -1) if tuple(path[:n]) in self.modules)
        holder = self.modules[tuple(path[:at])]
        rest = path[at:]
        if not rest or rest[0] in holder.names or (holder.path, rest[0]) in met:
            return holder.file
        met = met | {(holder.path, rest[0])}
        for segments, name, _ in holder.imports:
            if name == rest[0]:
                absolute = self._absolute(holder, segments)
                return self._definer([*absolute, *rest[1:]], met) if absolute is not None else None
        for segments, name, _ in holder.imports:
            absolute = self._absolute(holder, segments[:-1]) if name == "*" else None
            if absolute is not None and rest[0] in self._namespace(tuple(absolute)):
                return self._definer([*absolute, *rest], met)
        return holder.file

    def _namespace(self, path: tuple[str, ...]) -> set[str]:
        module = self.modules.get(path)
        if module is None:
            return set()
        return module.names | {name for _, name, is_public in module.imports if is_public}

    def _globbed(self, module: Module, segments: list[str]):
        """What of a glob import the module's code names."""
        absolute = self._absolute(module, segments[:-1])
        if absolute is None:
            return
        words = set(re.findall(r"\w+", module.body))
        for name in self._namespace(tuple(absolute)) & words:
            if file := self._definer([*absolute, name], set()):
                yield file


def circles(arrows: set[tuple[Path, Path]]) -> list[list[Path]]:
    """The strongly connected components of more than one file, the largest first (Tarjan 1972, without recursion)."""
    after: dict[Path, list[Path]] = {}
    for start, end in sorted(arrows):
        after.setdefault(start, []).append(end)
        after.setdefault(end, [])
    index: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    found = []
    for root in after:
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, ends = work[-1]
            for end in ends:
                if end not in index:
                    index[end] = low[end] = len(index)
                    stack.append(end)
                    work.append((end, iter(after[end])))
                    break
                if end in stack:
                    low[node] = min(low[node], index[end])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    component, stack[at:] = stack[at:], []
                    if len(component) > 1:
                        found.append(sorted(component))
    return sorted(found, key=lambda component: (-len(component), component))
