import pytest

from bgjob.core import options
from bgjob.core.errors import InvalidArgument
from bgjob.core.options import (
    ENGINE_OPTIONS,
    LIMIT_OPTIONS,
    TARGET,
    checked,
    limits_of,
    limits_shown,
    resources_of,
)
from bgjob.core.target_keys import KINDS
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


class TestWhatATargetIsAskedFor:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ({"cpus": 4}, {"cpus": 4.0}),
            ({"gpus": "2"}, {"gpus": 2}),
            ({"gpus": 0}, {"gpus": 0}),
            ({"memory": "16GB"}, {"memory_bytes": 16 << 30}),
            ({"time_limit": "2h"}, {"time_limit_s": 7200.0}),
            ({"time_limit": 90}, {"time_limit_s": 90.0}),
            ({"labels": {"gpu": "a100", "rack": 7}}, {"labels": {"gpu": "a100", "rack": "7"}}),
            ({"labels": "gpu=a100,disk=ssd"}, {"labels": {"gpu": "a100", "disk": "ssd"}}),
            ({"session": "train-1"}, {"session": "train-1"}),
        ],
    )
    def test_is_kept_in_plain_numbers(self, given: dict[str, object], kept: dict[str, object]) -> None:
        assert resources_of(checked(given), "slurm") == kept

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("cpus", 0),
            ("cpus", "many"),
            ("cpus", True),
            ("cpus", float("inf")),
            ("gpus", -1),
            ("gpus", 1.5),
            ("gpus", 1001),
            ("time_limit", 0),
            ("time_limit", "soon"),
            ("time_limit", "0.5s"),
            ("time_limit", [1]),
            ("labels", {}),
            ("labels", ""),
            ("labels", "gpu"),
            ("labels", ["gpu"]),
            ("labels", {"gpu": ["a100"]}),
            ("labels", {"gpu": True}),
            ("labels", {"gpu": "a b"}),
            ("labels", {"gpu": "a&b"}),
            ("labels", {"": "a"}),
            ("labels", {str(number): "x" for number in range(21)}),
            ("labels", {"gpu": "x" * 101}),
            ("session", ""),
            ("session", "a b"),
            ("session", "../x"),
            ("session", 5),
        ],
    )
    def test_that_is_bad_is_named_with_what_is_accepted(self, name: str, value: object) -> None:
        with pytest.raises(InvalidArgument) as refusal:
            checked({name: value})
        assert str(refusal.value).startswith(f"{name}=")
        assert str(refusal.value).endswith(f"is not valid. Accepted: {TARGET[name].accepted}.")

    @pytest.mark.parametrize("name", TARGET)
    @pytest.mark.parametrize(("kind", "where"), [(None, "this machine is none"), ("ssh", "of kind ssh")])
    def test_is_refused_where_jobs_start_at_once(self, name: str, kind: str | None, where: str) -> None:
        with pytest.raises(InvalidArgument, match=f"^{name} needs a target of kind slurm.*{where}"):
            resources_of({name: 1}, kind)

    @pytest.mark.parametrize("name", ["session", "time_limit"])
    def test_is_refused_by_an_engine_that_does_not_have_it(self, name: str) -> None:
        with pytest.raises(
            InvalidArgument, match=f"^{name} needs a target of kind slurm, and this one is of kind ray"
        ):
            resources_of({name: 1}, "ray")

    def test_may_be_a_part_of_a_cpu_of_ray_and_not_of_slurm(self) -> None:
        assert resources_of(checked({"cpus": "0.5"}), "ray") == {"cpus": 0.5}
        with pytest.raises(InvalidArgument, match=r"^cpus=0\.5 is not valid: Slurm gives whole CPUs"):
            resources_of(checked({"cpus": "0.5"}), "slurm")

    @pytest.mark.parametrize("kind", [None, "ssh"])
    def test_leaves_memory_a_limit_elsewhere(self, kind: str | None) -> None:
        given = checked({"memory": "1GB"})
        assert resources_of(given, kind) == {}
        assert limits_of(given) == {"memory_bytes": 1 << 30}

    def test_leaves_other_options_alone(self) -> None:
        assert resources_of(checked({"cpus": 1, "priority": 5, "restart": "always"}), "slurm") == {
            "cpus": 1.0
        }

    def test_every_kind_of_target_says_what_it_can_be_asked_for(self) -> None:
        assert ENGINE_OPTIONS.keys() == set(KINDS)
        assert all(set(names) <= {"memory", *TARGET} for names in ENGINE_OPTIONS.values())
