"""The table: order and repetition of news do not matter, and nobody comes back from the dead."""

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from gpufleet_agent.membership import Facts, Row, Status, Verdict
from gpufleet_agent.membership.constants import GRAVES
from gpufleet_agent.membership.table import Table

names = st.sampled_from("ab")
incarnations = st.integers(1, 4)
rows = st.builds(
    Row,
    incarnations,
    st.integers(1, 3),
    names,
    st.sampled_from("xy"),
    st.builds(Facts, free=st.integers(0, 2), total=st.just(2)),
)
verdicts = st.builds(
    Verdict, incarnations, st.sampled_from([Status.SUSPECT, Status.DEAD, Status.LEFT]), names, names
)
news = st.lists(rows | verdicts, max_size=8)


def merge(table: Table, item: Row | Verdict) -> bool:
    return table.merge_row(item) if isinstance(item, Row) else table.merge_verdict(item)


def heard(*items: Row | Verdict) -> Table:
    table = Table()
    for item in items:
        merge(table, item)
    return table


def view(table: Table) -> dict[str, tuple]:
    """What a user of the table sees: status, incarnation, and the row of the living."""
    return {
        name: (
            record.status,
            record.incarnation,
            record.row if record.status == Status.ALIVE else None,
        )
        for name, record in table.records.items()
    }


@given(news, st.randoms())
def test_merge_is_commutative_and_associative(items, random):
    other = items.copy()
    random.shuffle(other)
    assert view(heard(*items)) == view(heard(*other))


# A row of the dead, of whom a later incarnation is suspected and has not been met.
BEHIND = [Verdict(1, Status.DEAD, "b", "a"), Row(1, 1, "a", "x", Facts()),
          Verdict(2, Status.SUSPECT, "b", "a")]  # fmt: skip


@given(news, st.randoms())
@example(BEHIND, Random(1))
def test_merge_is_idempotent(items, random):
    again = items + random.sample(items, random.randint(0, len(items)))
    assert view(heard(*items)) == view(heard(*again))
    table = heard(*items)
    revision = table.revision
    assert not any(merge(table, item) for item in items)
    assert table.revision == revision


@given(news, news)
def test_tables_merged_through_one_another_agree(mine, yours):
    """Associative: hearing of a table as a whole is hearing all that it heard."""

    def told(table: Table) -> list[Row | Verdict]:
        return [
            item for record in table for item in (record.row, record.verdict) if item is not None
        ]

    ours = heard(*mine, *told(heard(*yours)))
    assert view(ours) == view(heard(*yours, *told(heard(*mine))))


@given(news, st.integers(1, 4), st.sampled_from([Status.DEAD, Status.LEFT]), news)
def test_only_a_later_incarnation_brings_back_even_after_the_tombstone(before, last, end, after):
    table = heard(*before)
    table.merge_verdict(Verdict(last, end, "b", "a"))
    record = table.records["a"]
    if not record.gone:
        return
    gave_up = record.incarnation
    table.drop("a")
    assert table.status("a") is None
    for item in after:
        merge(table, item)
        if table.records["a"].status < Status.DEAD:
            assert table.records["a"].incarnation > gave_up


def test_leaver_is_not_called_dead_later():
    table = heard(
        Row(1, 1, "a", "x", Facts()),
        Verdict(1, Status.LEFT, "a", "a"),
        Verdict(1, Status.DEAD, "b", "a"),
    )
    assert table.status("a") == Status.LEFT


def test_equal_versions_with_different_content_end_the_same_everywhere():
    one, two = Row(1, 1, "a", "x", Facts(free=1, total=2)), Row(1, 1, "a", "x", Facts(2, 2))
    assert heard(one, two).records["a"].row == heard(two, one).records["a"].row


def test_graves_are_bounded_and_the_oldest_goes_first():
    table = heard(*(Verdict(1, Status.DEAD, "x", f"n{i}") for i in range(GRAVES + 5)))
    assert len(table.records) == len(table.graves) == GRAVES
    assert "n4" not in table.records
    assert "n5" in table.records
