"""What is wrong with a cluster spec, as values: where, what was seen, what is allowed, the fix."""

from dataclasses import asdict, dataclass
from typing import Any

Path = tuple[str | int, ...]


def dotted(path: Path) -> str:
    """A path into the spec as people write it: pools[0].count."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def excerpt(text: str, most: int = 80) -> str:
    """The text, cut where it is longer than a reader wants to see."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; line and column count from one."""

    file: str
    line: int
    column: int
    path: str
    message: str
    seen: str = ""
    allowed: str = ""
    fix: str = ""

    def __str__(self) -> str:
        details = [
            f"{name} {text}"
            for name, text in (
                ("seen", excerpt(self.seen)),
                ("allowed", self.allowed),
                ("fix:", self.fix),
            )
            if text
        ]
        where = f"{self.file}:{self.line}:{self.column}: "
        path = f"{self.path}: " if self.path else ""
        text = where + path + self.message + (f" ({'; '.join(details)})" if details else "")
        # One line, and nothing in it that a terminal would obey.
        return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return asdict(self)


class SpecError(ValueError):
    """A spec that cannot be used, with every problem that was found in it."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems, key=lambda x: (x.file, x.line, x.column, x.path))
        super().__init__("\n".join(str(problem) for problem in self.problems))
