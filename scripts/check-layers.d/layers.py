"""Compares a crate's arrows with its floors, and writes both as a table."""

from pathlib import Path

import rust

BEGIN, END = "<!-- layers:begin -->", "<!-- layers:end -->"


class Checked:
    """What was found in a crate."""

    def __init__(self, base: Path, crate: dict, excepted: set[tuple[str, str]], largest: int):
        self.base, self.root = base, base / crate["root"]
        self.floors = crate["floor"]
        self.by_module = {module: at for at, floor in enumerate(self.floors) for module in floor["modules"]}
        source = rust.Crate(self.root, crate.get("name", ""))
        files = {module.file for module in source.modules.values()}
        found = source.arrows()
        self.files, self.arrows = len(files), len(found)
        self.met = {arrow for arrow in map(self._named, found) if arrow in excepted}
        arrows = {arrow for arrow in found if self._named(arrow) not in excepted}
        self.faults: list[str] = []
        self._find_homeless(files)
        self.up = sorted(arrow for arrow in arrows if self._runs_up(arrow))
        for start, end in map(self._named, self.up):
            self.faults.append(f"{start} uses {end}, which is on a higher floor.")
        self.circles = rust.circles({arrow for arrow in arrows if not is_child(*arrow)})
        for circle in self.circles:
            if len(circle) > largest:
                names = ", ".join(self._name(file) for file in circle)
                self.faults.append(f"{len(circle)} files use each other in a circle: {names}.")
        self.uses = self._uses(source, arrows)

    def summary(self) -> str:
        largest = max(map(len, self.circles), default=1)
        circle = f"the largest circle has {largest} files" if largest > 1 else "no circle"
        return f"{self.files} files, {self.arrows} arrows, {len(self.up)} of them up; {circle}"

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.base))

    def _named(self, arrow: tuple[Path, Path]) -> tuple[str, str]:
        return self._name(arrow[0]), self._name(arrow[1])

    def _floor(self, file: Path) -> int:
        """The number of a file's floor; the crate's roots are on top of all, since they only declare the modules."""
        return self.by_module.get(self._module(file), len(self.floors))

    def _module(self, file: Path) -> str:
        """The top-level module that a file belongs to."""
        return file.relative_to(self.root).parts[0].removesuffix(".rs")

    def _find_homeless(self, files: set[Path]) -> None:
        for file in sorted(files):
            if self._floor(file) == len(self.floors) and file.parent / file.stem not in (
                self.root / "lib",
                self.root / "main",
            ):
                self.faults.append(f"{self._name(file)} is on no floor of scripts/check-layers.d/floors.toml.")
        modules = {self._module(file) for file in files}
        for module in sorted(set(self.by_module) - modules):
            self.faults.append(f"floors.toml names the module {module}, which {self._name(self.root)} has not.")

    def _runs_up(self, arrow: tuple[Path, Path]) -> bool:
        start, end = map(self._floor, arrow)
        return end > start

    def _uses(self, source: rust.Crate, arrows: set[tuple[Path, Path]]) -> list[set[str]]:
        """The modules of other floors that each floor uses, and `wire`."""
        uses: list[set[str]] = [set() for _ in self.floors]
        for start, end in arrows:
            at, below = self._floor(start), self._floor(end)
            if at != below and at < len(self.floors):
                uses[at].add(self._module(end))
        for module in source.modules.values():
            if "gpuspy_wire" in module.code and (at := self._floor(module.file)) < len(self.floors):
                uses[at].add("wire")
        return uses


def is_child(parent: Path, child: Path) -> bool:
    """Whether a module's file lies below another module's."""
    folder = parent.parent if parent.name in ("mod.rs", "lib.rs", "main.rs") else parent.with_suffix("")
    return folder in child.parents


def table(base: Path, plan: dict, uses: dict[str, list[set[str]]]) -> str:
    """The floors as Markdown: a row uses rows above it only."""
    rows = ["| part | question it answers | uses |", "|---|---|---|"]
    rows += [row(one["part"], one["question"], one["uses"]) for one in plan["before"]]
    for name, crate in plan["crates"].items():
        order = ["wire", *(module for floor in crate["floor"] for module in floor["modules"])]
        tools = set(crate.get("tools", []))
        for floor, used in zip(crate["floor"], uses[name]):
            modules = floor["modules"]
            places = [base / crate["root"] / module for module in modules]
            is_file = not any(place.is_dir() for place in places)
            part = modules[0] if len(modules) == 1 else "{" + ",".join(modules) + "}"
            part = f"`{crate['root']}/{part}{'.rs' if is_file else ''}`"
            named = [f"`{module}`" for module in order if module in used - tools]
            named += ["tools"] if used & tools else []
            rows.append(row(part, floor["question"], ", ".join(named) or "nothing"))
    rows += [row(one["part"], one["question"], one["uses"]) for one in plan["after"]]
    return "\n".join(rows)


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, text: str) -> str:
    """The page with this table between its markers."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return f"{page[:begin]}\n{text}\n{page[end:]}"
