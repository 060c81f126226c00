import pytest

from bgjob.core import options
from bgjob.core.errors import InvalidArgument
from bgjob.core.options import LIMIT_OPTIONS, checked, limits_of, limits_shown
from bgjob.home import queue_dir

GOOD = [
    ("memory", "2GB", "memory_bytes", 2 << 30),
    ("memory", 1 << 20, "memory_bytes", 1 << 20),
    ("cpu_s", "60", "cpu_s", 60.0),
    ("processes", 5, "processes", 5),
    ("processes", "5.0", "processes", 5),
    ("open_files", "64", "open_files", 64),
    ("file_size", "1MB", "file_bytes", 1 << 20),
    ("silence_s", 0.5, "silence_s", 0.5),
    ("cgroup", "off", "cgroup", 0),
    ("cgroup", True, "cgroup", 1),
    ("cgroup", " ON ", "cgroup", 1),
]
BAD = [
    ("memory", "lots"),
    ("memory", 1023),
    ("memory", -1),
    ("memory", [1]),
    ("cpu_s", 0.5),
    ("cpu_s", float("nan")),
    ("cpu_s", "nan"),
    ("cpu_s", "1e3"),
    ("processes", 0),
    ("processes", 1.5),
    ("processes", True),
    ("open_files", 7),
    ("silence_s", 0),
    ("cgroup", "maybe"),
    ("cgroup", []),
    ("on_output", "explode"),
]


@pytest.mark.parametrize(("name", "value", "kept_as", "kept"), GOOD)
def test_a_limit_is_kept_in_plain_numbers(name: str, value: object, kept_as: str, kept: float) -> None:
    assert limits_of(checked({name: value})) == {kept_as: kept}


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_one_is_named_with_what_is_accepted(name: str, value: object) -> None:
    with pytest.raises(
        InvalidArgument, match=f"{name}=.* is not valid. Accepted: {LIMIT_OPTIONS[name].accepted}"
    ):
        checked({name: value})


def test_limits_are_shown_under_the_names_they_were_given() -> None:
    kept = limits_of(checked({"memory": "1MB", "file_size": "2MB", "cgroup": "off"}))
    assert limits_shown(kept, None) == {"memory": 1 << 20, "file_size": 2 << 20, "cgroup": "off"}
    assert limits_shown({}, 1000) == {"output": 1000, "on_output": "stop"}
    assert limits_shown({}, None) == {}


def test_the_queue_has_room_for_every_priority() -> None:
    """The shim's side cannot import the options: it keeps the number too."""
    assert queue_dir.MOST_PRIORITY == options.MOST_PRIORITY
    for priority in (-options.MOST_PRIORITY, 0, options.MOST_PRIORITY):
        assert queue_dir.priority_of(queue_dir.entry_for("x" * 36, priority, 1)) == priority
