"""What doctor finds out by itself, of machines that are not this one."""

import pytest

from bgjob.api.doctor_home import file_system_of

MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /home rw - nfs4 server:/home rw
23 22 0:6 / /home/user/local rw - xfs /dev/sdb1 rw
24 21 0:7 / /home2 rw - btrfs /dev/sdc1 rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/jobs", "ext4"),
        ("/home", "nfs4"),
        ("/home/user/jobs", "nfs4"),
        ("/home/user/local/jobs", "xfs"),
        ("/home2/jobs", "btrfs"),
        ("/homes/jobs", "ext4"),
    ],
)
def test_a_path_is_on_the_file_system_that_is_mounted_nearest_above_it(path: str, kind: str) -> None:
    assert file_system_of(path, MOUNTS) == kind


def test_without_proc_it_is_not_known() -> None:
    assert file_system_of("/home", "") == "unknown"
