"""What the driver's error numbers (XIDs) mean for a node.

The meanings are those of NVIDIA's catalogue of XIDs; what follows from each is this product's
choice. Numbers that a faulty program causes by itself say nothing about the node.
"""

from .model import Verdict

OF_PROGRAMS = frozenset({13, 31, 32, 43, 45, 68, 69})

MEANINGS: dict[int, tuple[Verdict, str]] = {
    48: (Verdict.REBOOT, "uncorrectable memory error"),
    61: (Verdict.REBOOT, "microcontroller halted"),
    62: (Verdict.REBOOT, "microcontroller halted"),
    63: (Verdict.REBOOT, "a memory row is remapped, effective after a reset"),
    64: (Verdict.ISOLATE, "a memory row cannot be remapped"),
    74: (Verdict.ISOLATE, "NVLink error"),
    79: (Verdict.ISOLATE, "fallen off the bus"),
    92: (Verdict.DEGRADED, "many corrected memory errors"),
    94: (Verdict.DEGRADED, "contained memory error"),
    95: (Verdict.ISOLATE, "uncontained memory error"),
    109: (Verdict.REBOOT, "context switch timed out"),
    119: (Verdict.REBOOT, "GPU system processor does not answer"),
    120: (Verdict.REBOOT, "GPU system processor failed"),
    140: (Verdict.ISOLATE, "unrecovered memory error"),
}


def meaning(number: int) -> tuple[Verdict, str]:
    """Verdict and words for an XID; ok for those of programs, degraded for unknown ones."""
    if number in OF_PROGRAMS:
        return Verdict.OK, "an error of a program"
    return MEANINGS.get(number, (Verdict.DEGRADED, "see NVIDIA's catalogue of XIDs"))
