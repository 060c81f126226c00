"""Where a job's control groups are made: on trees laid out like the kernel's, of kinds that no one machine has."""

from pathlib import Path

import pytest

from bgjob.system import cgroup
from bgjob.system.cgroup import CPU, MEMORY, PROCESSES, Group, make_groups, remove_left, tops_of

VERSION_1 = """\
30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
"""
OWN_1 = """\
9:pids:/user.slice
8:cpu,cpuacct:/
4:memory:/user.slice/session
0::/user.slice
"""
LIMITS = {MEMORY: 1 << 20, PROCESSES: 5, CPU: 2.0}


class TestWhereWeAre:
    def test_each_controller_of_version_1_has_its_own_hierarchy(self) -> None:
        tops = tops_of(VERSION_1, OWN_1)
        assert tops["memory"] == ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/user.slice/session")
        assert tops["pids"] == ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/user.slice")
        assert tops["cpuacct"] == ("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct")
        assert tops[""] == ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user.slice")

    def test_version_2_has_one_for_all(self) -> None:
        mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
        assert tops_of(mount, "0::/a/b\n") == {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/a/b")}

    def test_a_container_that_sees_a_part_of_the_tree_finds_itself_in_it(self) -> None:
        mount = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        assert tops_of(mount, "4:memory:/docker/abc/x\n")["memory"][1] == "/sys/fs/cgroup/memory/x"

    def test_a_part_of_the_tree_that_we_are_not_in_is_none(self) -> None:
        mount = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        assert tops_of(mount, "4:memory:/docker/abcdef\n") == {}

    def test_a_system_without_them_has_none(self) -> None:
        assert tops_of("", "") == {}
        assert make_groups("x", LIMITS, {}) == {}


class Slices:
    """A tree of version 2 as systemd makes it: top / app.slice / server.scope, in which we are."""

    def __init__(self, root: Path) -> None:
        self.top, self.slice, self.scope = root, root / "app.slice", root / "app.slice" / "server.scope"
        for directory, handed_out in ((self.top, ""), (self.slice, "memory pids"), (self.scope, "")):
            directory.mkdir(exist_ok=True)
            for name, text in (("subtree_control", handed_out), ("procs", "")):
                (directory / f"cgroup.{name}").write_text(f"{text}\n")
        for directory in (self.slice, self.scope):
            (directory / "memory.max").write_text("max\n")
            (directory / "pids.max").write_text("max\n")

    def prepare(self, where: Path) -> Path:
        """The files that the kernel puts into a new group."""
        group = where / "bgjob-x"
        group.mkdir()
        for name in ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.procs"):
            (group / name).write_text("")
        return group

    def make_groups(self, limits: dict[str, float] = LIMITS) -> dict[str, Group]:
        return make_groups("x", limits, {"": (str(self.top), str(self.scope))})


@pytest.fixture
def slices(tmp_path: Path) -> Slices:
    return Slices(tmp_path)


class TestVersion2:
    def test_the_group_is_beside_ours_where_controllers_are_handed_out(self, slices: Slices) -> None:
        """Not below ours: a group that has processes cannot hand out any."""
        group = slices.prepare(slices.slice)
        groups = slices.make_groups()
        assert {kind: each.directory for kind, each in groups.items()} == dict.fromkeys(LIMITS, str(group))
        assert (group / "memory.max").read_text() == str(1 << 20)
        assert (group / "memory.swap.max").read_text() == "0"
        assert (group / "memory.oom.group").read_text() == "1"
        assert (group / "pids.max").read_text() == "5"

    def test_a_group_with_a_limit_on_memory_is_not_left(self, slices: Slices) -> None:
        slices.prepare(slices.slice)
        (slices.scope / "memory.max").write_text("1000000\n")
        assert MEMORY not in slices.make_groups({MEMORY: 10.0})

    def test_a_limit_on_processes_is_taken_along(self, slices: Slices) -> None:
        """Leaving a group must not be a way out of what it may do."""
        group = slices.prepare(slices.slice)
        (slices.scope / "pids.max").write_text("70\n")
        assert set(slices.make_groups({MEMORY: 1e6})) == {MEMORY}
        assert (group / "pids.max").read_text() == "70"

    def test_the_lower_of_both_limits_on_processes_counts(self, slices: Slices) -> None:
        group = slices.prepare(slices.slice)
        (slices.scope / "pids.max").write_text("3\n")
        slices.make_groups()
        assert (group / "pids.max").read_text() == "3"

    def test_what_nobody_hands_out_is_left_to_watching(self, slices: Slices) -> None:
        group = slices.prepare(slices.slice)
        (slices.slice / "cgroup.subtree_control").write_text("memory\n")
        assert set(slices.make_groups()) == {MEMORY, CPU}
        assert (group / "pids.max").read_text() == ""

    def test_cpu_time_needs_no_controller(self, slices: Slices) -> None:
        slices.prepare(slices.scope)
        assert set(slices.make_groups({CPU: 1.0})) == {CPU}

    def test_a_group_whose_limit_cannot_be_written_is_none(self, slices: Slices) -> None:
        group = slices.prepare(slices.slice)
        (group / "memory.max").unlink()
        assert slices.make_groups({MEMORY: 1e6}) == {}

    def test_the_kernels_answers_are_read(self, slices: Slices) -> None:
        directory = slices.prepare(slices.slice)
        for name, text in (
            ("memory.current", "5000\n"),
            ("memory.stat", "anon 1000\ninactive_file 2000\nactive_file 7\n"),
            ("memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n"),
            ("memory.peak", "6000\n"),
            ("pids.current", "4\n"),
            ("pids.events", "max 1\n"),
            ("cpu.stat", "usage_usec 1500000\nuser_usec 1000000\n"),
        ):
            (directory / name).write_text(text)
        group = Group(str(directory), 2)
        assert (group.used(MEMORY), group.used(PROCESSES), group.used(CPU)) == (3000, 4, 1.5)
        assert (group.refusals(MEMORY), group.refusals(PROCESSES)) == (2, 1)
        assert group.peak_memory_bytes() == 6000

    def test_what_an_older_kernel_does_not_tell_is_none(self, slices: Slices) -> None:
        group = Group(str(slices.prepare(slices.slice)), 2)
        assert group.peak_memory_bytes() is None
        assert group.refusals(PROCESSES) == 0


class TestRemoval:
    def test_only_what_is_a_group_of_this_job_is_removed(self, tmp_path: Path) -> None:
        """A record on disk may say anything."""
        for name in ("bgjob-x", "bgjob-y", "plain"):
            (tmp_path / name).mkdir()
        remove_left([f"{tmp_path}/{name}" for name in ("bgjob-y", "plain", "bgjob-x")], "x")
        remove_left("nonsense", "x")
        remove_left([7, None], "x")
        assert sorted(each.name for each in tmp_path.iterdir()) == [
            "bgjob-x",
            "bgjob-y",
            "plain",
        ]  # nor is bgjob-x a group

    def test_one_that_is_gone_is_no_error(self, tmp_path: Path) -> None:
        cgroup.remove(f"{tmp_path}/bgjob-x")


def test_a_group_without_limits_is_made_below_our_own_in_version_2_first(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("unified", "pids", 'with "quotes"', "without processes")}
    for name, place in places.items():
        place.mkdir()
        if name != "without processes":
            (place / "cgroup.procs").touch()
    tops = {name: (str(tmp_path), str(place)) for name, place in places.items()}
    both = {"pids": tops["pids"], "": tops["unified"]}
    assert cgroup.place_without_limits(both) == str(places["unified"])
    assert cgroup.place_without_limits({"": tops["without processes"], "pids": tops["pids"]}) == str(
        places["pids"]
    )
    assert cgroup.place_without_limits({"": tops['with "quotes"']}) is None
    assert cgroup.place_without_limits({}) is None


class TestWhatCouldBeEnforced:
    def test_is_told_without_making_a_group(self, tmp_path: Path) -> None:
        slices = Slices(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        assert cgroup.enforceable({"": (str(slices.top), str(slices.scope))}) == [MEMORY, PROCESSES, CPU]
        assert sorted(tmp_path.rglob("*")) == before

    def test_is_nothing_without_groups(self) -> None:
        assert cgroup.enforceable({}) == []

    def test_is_less_where_fewer_controllers_are_handed_out(self, tmp_path: Path) -> None:
        slices = Slices(tmp_path)
        (slices.slice / "cgroup.subtree_control").write_text("pids\n")
        assert cgroup.enforceable({"": (str(slices.top), str(slices.scope))}) == [PROCESSES, CPU]

    def test_of_version_1_is_where_we_may_write(self, tmp_path: Path) -> None:
        tops = {"memory": (str(tmp_path), str(tmp_path)), "pids": (str(tmp_path), str(tmp_path / "gone"))}
        assert cgroup.enforceable(tops) == [MEMORY]
