"""The version lock: named sets of pins that go together, and the rules that say why.

>>> names()
('cuda128', 'current', 'local-cpu', 'tutorial', 'tutorial-coherent')
"""

from .check import check, check_change, differences, distance, is_coherent, nearest
from .rules import Clash, Rule, rules
from .sets import StackSet, UnknownSet, get, load_set, names
from .solve import Solution, Unsolvable, solve
from .universe import universe
from .wants import BadWant, Want, parse_want

__all__ = [
    "BadWant",
    "Clash",
    "Rule",
    "Solution",
    "StackSet",
    "UnknownSet",
    "Unsolvable",
    "Want",
    "check",
    "check_change",
    "differences",
    "distance",
    "get",
    "is_coherent",
    "load_set",
    "names",
    "nearest",
    "parse_want",
    "rules",
    "solve",
    "universe",
]
