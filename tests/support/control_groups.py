"""Control groups: which kinds this machine lets us make, and which a job has left."""

import functools
import os
from pathlib import Path

import pytest

from bgjob.system import cgroup


def in_control_group(kind: str) -> pytest.MarkDecorator:
    """For a test that needs one: asked when it is run, because asking makes a group."""
    return pytest.mark.control_group(kind)


def mechanisms(kind: str) -> pytest.MarkDecorator:
    """Both, where this machine lets us make control groups."""
    on = pytest.param("on", marks=in_control_group(kind), id="cgroup")
    return pytest.mark.parametrize("cgroup_use", [on, pytest.param("off", id="watched")])


def skip_without_control_group(item: pytest.Item) -> None:
    for mark in item.iter_markers("control_group"):
        if not can_be_made(*mark.args):
            pytest.skip(f"no control group for {mark.args[0]} can be made here")


@functools.cache
def can_be_made(kind: str) -> bool:
    name = f"test-{os.getpid()}"
    try:
        return kind in cgroup.make_groups(name, {kind: 1 << 20})
    finally:
        for group in groups_left(name):
            cgroup.remove(str(group))


def groups_left(job_id: str) -> list[Path]:
    """In our own group of each hierarchy, or in one above that hands out controllers."""
    places = {
        place
        for top, here in cgroup.find_tops().values()
        for place in (Path(here), *Path(here).parents)
        if place.is_relative_to(top)
    }
    return [group for place in places if (group := place / f"{cgroup.PREFIX}{job_id}").exists()]
