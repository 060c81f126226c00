"""Frozen classes behave as frozen dataclasses do."""

import dataclasses

import pytest

from bgjob.core.frozen import Frozen, replace


class Point(Frozen):
    x: int
    y: int = 2


class Named(Point):
    name: str = "here"


def test_fields_come_in_order_by_position_or_by_name() -> None:
    assert vars(Named(y=5, x=1)) == {"x": 1, "y": 5, "name": "here"}
    assert list(vars(Named(y=5, x=1))) == list(vars(Named(1, 5, "here"))) == ["x", "y", "name"]


@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"z": 3}), ((), {"z": 1})])
def test_other_fields_than_those_of_the_class_are_refused(
    values: tuple[int, ...], named: dict[str, int]
) -> None:
    with pytest.raises(TypeError, match="Point has the fields x, y"):
        Point(*values, **named)


def test_equal_are_those_of_one_class_with_equal_values() -> None:
    assert Point(1) == Point(x=1, y=2)
    assert hash(Point(1)) == hash(Point(x=1, y=2))
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)


def test_nothing_can_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert repr(point) == "Point(x=1, y=2)"


def test_the_functions_of_dataclasses_take_it() -> None:
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2}
    assert dataclasses.replace(Named(1), y=3) == replace(Named(1), y=3) == Named(1, 3)
    assert [field.name for field in dataclasses.fields(Named)] == ["x", "y", "name"]
