"""The targets of targets.toml, before any file: what each key accepts, and every error told with its place."""

import json
import tomllib

import pytest

from bgjob.core.config import SETTINGS
from bgjob.core.errors import BadTargetsFile
from bgjob.core.target_keys import HOME_SETTINGS, KEYS, KINDS, example
from bgjob.core.targets import Target, as_record, from_record, targets_from

PATH = "/home/user/.config/bgjob/targets.toml"
NEEDED = {"ssh": 'host = "gpu"', "slurm": "", "ray": 'address = "auto"'}


def parsed(toml: str) -> Target:
    """The only target of this text."""
    (target,) = targets_from(PATH, tomllib.loads(toml)).values()
    return target


def of_kind(kind: str, toml: str = "") -> Target:
    """With what the kind needs, unless the text has it."""
    needed = NEEDED[kind] if NEEDED[kind].partition(" ")[0] not in toml.split() else ""
    return parsed(f'[box]\nkind = "{kind}"\n{needed}\n{toml}')


@pytest.mark.parametrize(
    ("kind", "toml", "field", "value"),
    [
        ("ssh", "", "host", "gpu"),
        ("ssh", "", "description", ""),
        ("ssh", "", "python", None),
        ("ssh", "", "home", None),
        ("ssh", "", "cwd", None),
        ("ssh", "", "ssh_options", ()),
        ("ssh", "", "env", {}),
        ("ssh", "", "settings", {}),
        ("ssh", 'host = "me@gpu.example.org"', "host", "me@gpu.example.org"),
        ("ssh", 'host = "ssh://me@gpu:2222"', "host", "ssh://me@gpu:2222"),
        ("ssh", 'description = "two A100 — größer"', "description", "two A100 — größer"),
        ("ssh", 'ssh_options = ["Port=2222"]', "ssh_options", ("Port=2222",)),
        ("ssh", 'ssh_options = ["ProxyCommand=nc %h %p"]', "ssh_options", ("ProxyCommand=nc %h %p",)),
        ("ssh", 'python = "python3.12"', "python", "python3.12"),
        ("ssh", 'home = "/scratch/me/my jobs"', "home", "/scratch/me/my jobs"),
        ("ssh", 'home = "~"', "home", "~"),
        ("ssh", 'cwd = "~/work"', "cwd", "~/work"),
        ("ssh", 'env = {A = "1", B = 2, C = 0.5}', "env", {"A": "1", "B": "2", "C": "0.5"}),
        ("ssh", "settings = {max_jobs = 4}", "settings", {"MCP_BG_MAX_JOBS": "4"}),
        ("ssh", 'settings = {max_output_size = "1MB"}', "settings", {"MCP_BG_MAX_OUTPUT_SIZE": "1MB"}),
        ("ssh", "settings = {groups = {gpu = 1, b = 2}}", "settings", {"MCP_BG_GROUPS": "gpu=1,b=2"}),
        ("ssh", 'settings = {limits = {memory = "4GB"}}', "settings", {"MCP_BG_LIMITS": "memory=4GB"}),
        (
            "ssh",
            'settings = {hidden_variables = ["A", "B_*"]}',
            "settings",
            {"MCP_BG_HIDDEN_VARIABLES": "A,B_*"},
        ),
        ("slurm", "", "login", None),
        ("slurm", "", "idle_release_s", 900.0),
        ("slurm", 'login = "hpc"', "login", "hpc"),
        ("slurm", 'partition = "gpu,main"', "partition", "gpu,main"),
        ("slurm", 'account = "project-1"', "account", "project-1"),
        ("slurm", "idle_release = 60", "idle_release_s", 60.0),
        ("slurm", 'idle_release = "1h30m"', "idle_release_s", 5400.0),
        ("ray", "", "address", "auto"),
        ("ray", 'address = "10.0.0.1:6379"', "address", "10.0.0.1:6379"),
    ],
)
def test_a_key_has_its_value(kind: str, toml: str, field: str, value: object) -> None:
    assert getattr(of_kind(kind, toml), field) == value


def test_each_target_has_its_name_and_they_are_in_the_order_of_the_file() -> None:
    table = tomllib.loads('[gpu-box]\nkind = "ssh"\nhost = "a"\n[A]\nkind = "slurm"\n')
    targets = targets_from(PATH, table)
    assert [(name, target.name, target.kind) for name, target in targets.items()] == [
        ("gpu-box", "gpu-box", "ssh"),
        ("A", "A", "slurm"),
    ]


@pytest.mark.parametrize("name", ["a", "gpu-box", "gpu_box", "gpu.example.org", "4x", "A" * 40])
def test_a_name_is_of_letters_digits_and_a_few_signs(name: str) -> None:
    assert targets_from(PATH, {name: {"kind": "slurm"}})[name].name == name


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "_a", "a/b", "..", "a\nb", "é", "A" * 41, "a:b"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(
        BadTargetsFile, match=r"targets\.toml: \[.*is no name of a target\. Accepted: letters"
    ):
        targets_from(PATH, {name: {"kind": "slurm"}})


@pytest.mark.parametrize("name", ["local", "Local", "LOCAL"])
def test_local_is_this_machine_and_no_target(name: str) -> None:
    with pytest.raises(BadTargetsFile, match="is the name of this machine"):
        targets_from(PATH, {name: {"kind": "slurm"}})


@pytest.mark.parametrize("value", ["ssh", 5, [], True, [{"kind": "ssh"}]])
def test_what_is_no_table_is_refused(value: object) -> None:
    with pytest.raises(BadTargetsFile, match=r"targets\.toml: \[box\] is no table\. Write \[NAME\]"):
        targets_from(PATH, {"box": value})


@pytest.mark.parametrize(
    ("kind", "toml", "shown"),
    [
        ("ssh", "host = 5", "host=5"),
        ("ssh", 'host = ""', "host=''"),
        ("ssh", 'host = "-oProxyCommand=x"', "host='-oProxyCommand=x'"),
        ("ssh", 'host = "a b"', "host='a b'"),
        ("ssh", 'host = "a\\nb"', "host='a\\nb'"),
        ("ssh", 'description = "a\\nb"', "description='a\\nb'"),
        ("ssh", "description = 5", "description=5"),
        ("ssh", f'description = "{"x" * 201}"', "description='xxx"),
        ("ssh", 'ssh_options = "Port=22"', "ssh_options='Port=22'"),
        ("ssh", "ssh_options = []", "ssh_options=[]"),
        ("ssh", "ssh_options = [22]", "ssh_options=[22]"),
        ("ssh", 'ssh_options = ["-p22"]', "ssh_options=['-p22']"),
        ("ssh", 'ssh_options = ["Port"]', "ssh_options=['Port']"),
        ("ssh", 'ssh_options = ["Port="]', "ssh_options=['Port=']"),
        ("ssh", 'ssh_options = ["batchmode=no"]', "ssh_options=['batchmode=no']"),
        ("ssh", 'ssh_options = ["RemoteCommand=ls"]', "ssh_options=['RemoteCommand=ls']"),
        ("ssh", 'python = "-c"', "python='-c'"),
        ("ssh", "python = 3.12", "python=3.12"),
        ("ssh", 'home = "jobs"', "home='jobs'"),
        ("ssh", 'home = "~other/jobs"', "home='~other/jobs'"),
        ("ssh", "home = 1979-05-27", "home=datetime.date"),
        ("ssh", 'cwd = "./work"', "cwd='./work'"),
        ("ssh", 'cwd = "/a\\u0000b"', "cwd='/a\\x00b'"),
        ("ssh", "settings = 4", "settings=4"),
        ("ssh", "settings = {max_jobs = 0}", "settings={'max_jobs': 0}"),
        ("ssh", "settings = {max_job = 4}", "settings={'max_job': 4}"),
        ("ssh", 'settings = {allowed_commands = "^ls"}', "settings={'allowed_commands': '^ls'}"),
        ("slurm", 'login = "-l"', "login='-l'"),
        ("slurm", 'partition = "a b"', "partition='a b'"),
        ("slurm", 'partition = "--wrap=x"', "partition='--wrap=x'"),
        ("slurm", "account = 7", "account=7"),
        ("slurm", "idle_release = 0", "idle_release=0"),
        ("slurm", 'idle_release = "soon"', "idle_release='soon'"),
        ("slurm", "idle_release = true", "idle_release=True"),
        ("slurm", "idle_release = inf", "idle_release=inf"),
        ("slurm", 'idle_release = "8d"', "idle_release='8d'"),
        ("ray", 'address = ""', "address=''"),
        ("ray", "address = 6379", "address=6379"),
    ],
)
def test_a_bad_value_is_told_with_file_table_key_value_and_what_is_accepted(
    kind: str, toml: str, shown: str
) -> None:
    with pytest.raises(BadTargetsFile) as refusal:
        of_kind(kind, toml)
    (key,) = (key for key in KEYS if key.name == shown.partition("=")[0])
    assert str(refusal.value).startswith(f"{PATH}: [box] {shown}")
    assert f"Accepted: {key.accepted}" in str(refusal.value)


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        ('ssh_options = ["Port"]', "'Port' is not Name=value"),
        ('ssh_options = ["RequestTTY=yes"]', "RequestTTY is set by bgjob itself"),
        ("settings = {max_jobs = 0}", "max_jobs=0 is not: a whole number from 1 to 1000"),
        ("settings = {max_job = 4}", "'max_job' is no setting"),
        ('settings = {working_dir = "/"}', "'working_dir' is decided by the server that starts a job"),
    ],
)
def test_a_part_of_a_value_that_is_wrong_is_named(toml: str, why: str) -> None:
    with pytest.raises(BadTargetsFile) as refusal:
        of_kind("ssh", toml)
    assert why in str(refusal.value)


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        ('env = "A=secret"', "a table of variables"),
        ('env = {A = ["secret"]}', "A has a value that is no text"),
        ("env = {A = true}", "A has a value that is no text"),
        ('env = {A = "secret\\u0000"}', "A has a value that is no text"),
        ('env = {"A B" = "secret"}', "'A B' is no name of a variable"),
        ('env = {"" = "secret"}', "'' is no name of a variable"),
        ('env = {MCP_BG_MAX_JOBS = "secret"}', "settings of that home go under settings"),
        ('env = {BGJOB_HOME = "secret"}', "BGJOB_HOME is bgjob's own"),
    ],
)
def test_a_bad_variable_is_told_without_its_value(toml: str, why: str) -> None:
    with pytest.raises(BadTargetsFile) as refusal:
        of_kind("ssh", toml)
    assert str(refusal.value).startswith(f"{PATH}: [box] env is not valid. Accepted: ")
    assert why in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("", "[box] has no kind. Accepted: ssh, slurm or ray."),
        ('host = "gpu"', "[box] has no kind. Accepted: ssh, slurm or ray."),
        ('kind = "k8s"', "[box] kind='k8s' is not valid. Accepted: ssh, slurm or ray."),
        ("kind = 5", "[box] kind=5 is not valid."),
        ('kind = ["ssh"]', "[box] kind=['ssh'] is not valid."),
        ('kind = "ssh"', "[box] has no host, which a target of kind ssh needs: what ssh takes as a destination"),
        ('kind = "ray"', "[box] has no address, which a target of kind ray needs: "),
        ('kind = "slurm"\nhost = "a"', "[box] has host, which is a key of kind ssh and not of slurm."),
        ('kind = "ray"\nssh_options = []', "[box] has ssh_options, which is a key of kind ssh or slurm and not"),
        ('kind = "ssh"\nhots = "a"', "[box] has hots, which is no key of a target. Did you mean host?"),
        ('kind = "ssh"\nKIND = "a"', "[box] has KIND, which is no key of a target. Known are kind, description, host,"),
        ('kind = "slurm"\n[box.more]\nkind = "ssh"', "[box] has more, which is no key of a target."),
        ('kind = "slurm"\n"\\u001b" = 1', "[box] has '\\x1b', which is no key of a target."),
    ],
)  # fmt: skip
def test_a_key_that_is_missing_or_not_known_is_told(toml: str, told: str) -> None:
    with pytest.raises(BadTargetsFile) as refusal:
        parsed(f"[box]\n{toml}")
    assert str(refusal.value).startswith(f"{PATH}: {told}")


def test_every_key_is_a_field_of_a_target_and_every_field_has_a_key() -> None:
    assert {key.field for key in KEYS} == Target.defaults.keys() - {"name"}


def test_the_settings_of_a_home_are_settings() -> None:
    assert set(HOME_SETTINGS) < {row.key for row in SETTINGS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_outlives_its_way_through_a_record(kind: str) -> None:
    more = {"ssh": 'ssh_options = ["Port=1"]\nenv = {A = "1"}', "slurm": "idle_release = 5", "ray": ""}
    target = of_kind(kind, more[kind])
    record = json.loads(json.dumps(as_record(target)))
    assert as_record(from_record({**record, "of_next_year": 1})) == record
    assert from_record(record).env == target.env


def test_the_example_has_a_target_of_each_kind_and_is_accepted() -> None:
    lines = example().splitlines()
    uncommented = "\n".join(line[1:] for line in lines if line[:1] == "#" and line[1] != " ")
    targets = targets_from(PATH, tomllib.loads(uncommented))
    assert [target.kind for target in targets.values()] == list(KINDS)
    assert tomllib.loads(example()) == {}
    keys = {key for table in tomllib.loads(uncommented).values() for key in table}
    assert keys == {key.name for key in KEYS}
