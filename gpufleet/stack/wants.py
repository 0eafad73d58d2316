"""What somebody wants of a set: `driver=580`, `vllm>=0.11`, `python=3.12`."""

import re
from dataclasses import dataclass
from difflib import get_close_matches

from .sets import StackSet
from .universe import Universe, universe
from .versions import BadRange, Range, parse_range

FORM = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*([=<>!~].*)")


class BadWant(ValueError):
    """Text that is not a want, or one about a pin that the set does not have."""


@dataclass(frozen=True)
class Want:
    """A range that a pin has to be in."""

    pin: str
    range: Range
    text: str

    def __str__(self) -> str:
        return self.text


def parse_want(text: str, like: StackSet, known: Universe | None = None) -> Want:
    """A want from its text; `=` means versions that begin so. Raises BadWant."""
    world = known or universe()
    found = FORM.fullmatch(text)
    if found is None:
        raise BadWant(f"{text!r} is not a want: write one such as driver=580 or 'vllm>=0.11'")
    name, clauses = found[1].replace("-", "_").lower(), found[2].strip()
    choosable = [
        x.name
        for x in world.components.values()
        if x.target or (x.name in like.pins and not x.setting)
    ]
    if name not in choosable:
        near = get_close_matches(name, choosable, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadWant(
            f"{text!r}: sets like {like.name} have no {name} to choose{hint}; "
            f"there are: {', '.join(choosable)}"
        )
    # One `=` is what people type; it means a prefix, as the whole version is one of itself.
    plain = re.sub(r"^=(?![=])\s*", "", clauses)
    component = world[name]
    try:
        wanted = parse_range(component.scheme, plain)
    except BadRange as error:
        raise BadWant(f"{text!r}: {error}") from error
    return Want(name, wanted, text.strip())


def known_versions(want: Want, known: Universe | None = None) -> list[str]:
    """Listed versions in the range of a want, the newest first."""
    component = (known or universe())[want.pin]
    return [x.version for x in component.newest_first if want.range.allows(x.version)]
