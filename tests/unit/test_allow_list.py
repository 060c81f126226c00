"""The allow-list as tables of cases, and against the truth: what the shells really do with a text."""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bgjob.core.patterns import compile_whole
from bgjob.core.policy import broken_rule

ECHO = [compile_whole(r"^echo( |$)")]

# With the allow-list ^echo( |$)
ALLOWED = r"""
echo
echo a
  echo a
ECHO a
echo a; echo b
echo a && echo b || echo c
echo a | echo b
echo a & echo b &
echo a;
echo "a; b"
echo 'a; touch x'
echo 'it'"'"'s'
echo "a 'b' c"
echo a\;b \& \$\(x\)
echo "a \" b \$(x) \` \\"
echo $HOME "$HOME" ${HOME} "${HOME}/x"
echo $? $$ $1 "$@"
echo "cost: 5$"
echo "$ "
echo '$(touch x)' '`touch x`'
echo a#b
echo *.py file[12] ~ {a,b}
echo a=b -n --x=y
echo ü 漢字
echo a 2>&1
echo a >/dev/null 2>&1
echo a > /dev/null && echo b
echo !
echo [a] ]
echo if then eval
""".strip("\n").splitlines()
ALLOWED += ["echo a\necho b\n", "echo 'a\nb'", 'echo "a\n# b"', "\n\necho a", 'echo "a"#b']

REFUSED = r"""
touch x
xecho a
echoes a
echo/../touch x
echo a; touch x
echo a;touch x
echo a && touch x
echo a || touch x
echo a | touch x
echo a |& touch x
echo a & touch x
touch x; echo a
echo $(touch x)
echo "$(touch x)"
echo "a `touch x`"
echo `touch x`
echo <(touch x)
echo >(touch x)
echo =(touch x)
echo a > x
echo a >> x
echo a >| x
echo a &> x
echo a >& x
echo a < x
echo a <> x
echo a <<< x
echo a <<X
echo a >&1x
echo a >/dev/nullx
echo a >/dev/null/../../x
echo {PATH}>&1
echo {PATH}>/dev/null
>x echo a
>&2
>&2;
2>&1
>/dev/null
echo a; >&2
echo a | >/dev/null
echo a && 2>&1
echo a & >>/dev/null
zregexparse a b '/echo/'
echo ${x:-$(touch x)}
echo ${x@P}
echo ${x}[1]
echo $x[1]
echo "$x[1]"
echo $[1]
echo "$[1]"
echo $((1))
echo $'a'
echo $"a"
$x
$x touch x
$x echo a
"$x" echo a
"" echo a
(echo a)
(touch x)
{ echo a; }
echo() { touch x; }; echo
function echo { touch x; }
echo a; }
if echo a; then touch x; fi
if echo a; then echo b; fi
for x in a; do touch x; done
while echo a; do touch x; done
until echo a; do touch x; done
case a in a) touch x;; esac
select a in b; do touch x; done
[[ a ]]
((1))
! echo a
time touch x
coproc touch x
PATH=. echo a
PATH=.
PATH+=. echo a
a[1]=2 echo a
echo a # b
# a
#
echo a \
/bin/ec* a
ec?o a
[e]cho a
ec{ho,} a
~/echo a
"echo" a
'echo' a
e\cho a
echo"x" a
echo''x a
\touch x
alias echo=touch
eval touch x
exec touch x
. x
source x
command touch x
builtin echo a
env touch x
sudo touch x
nohup touch x
xargs touch
sh -c 'touch x'
trap 'touch x' EXIT
hash -p /bin/touch echo
enable -n echo
export PATH=.
set -k
read PATH
- echo a
echo "a
echo 'a
echo a)
echo (a
rm -rf /
echo a; rm -rf /
""".strip().splitlines()
REFUSED += [
    "echo a\ntouch x",
    "echo a\\\n; touch x",
    "echo \\\n# '\ntouch x #'",
    'echo "$\\\n(touch x)"',
    "echo a\r\ntouch x",
    "echo\ra",
    "echo\x0ba",
    "echo\u00a0a",
    "echo a #'\ntouch x #'",
    "echo a <<X\ntouch x\nX",
    "echo a\n\n\ttouch x",
    "echo a\r",
    "echo a\u00a0b",
    "echo 'a\\'; touch x # '",
    'echo "a\\\\"; touch x # "',
]

# patterns, command, whether it may run
OTHER_LISTS = [
    ([r"^git ", r"^npm (run|test)"], "git status && npm run build | git log", True),
    ([r"^git ", r"^npm (run|test)"], "npm install", False),
    ([r"^git ", r"^npm (run|test)"], "git", False),
    ([r"pytest"], "python -m pytest", True),
    ([r"pytest"], "sudo pytest", False),
    ([r"pytest"], "/usr/bin/env pytest", False),
    ([r"pytest"], "bash -c pytest", False),
    ([r"pytest"], "eval pytest", False),
    ([r"pytest"], "jobs -x touch pytest", False),
    ([r"^sudo apt "], "sudo apt update", True),
    ([r".*"], "make -j8 && ./run", True),
    ([r".*"], "make > log", False),
    ([r".*"], "reboot", False),
    ([r"^\[ "], "[ -f x ]", True),
    ([r"^test "], "test -f x", True),
    ([r"^test "], "test -v 'a[$(touch x)]'", False),
    ([r"^printf "], r"printf 'a %s\n' b", True),
    ([r"^printf "], "printf -v PATH .", False),
    ([r"^printf "], "printf '-'v PATH .", False),
    ([r"^printf "], "printf %d 'a[$(touch x)]'", False),
    ([r"^exit "], "exit 7", True),
    ([r"^exit "], "exit 'a[$(touch x)]'", False),
    ([r"^\./run"], "./run --now", True),
]


@pytest.mark.parametrize("command", ALLOWED)
def test_commands_that_all_match_may_run(command: str) -> None:
    assert broken_rule(command, ECHO) is None


@pytest.mark.parametrize("command", REFUSED)
def test_nothing_rides_along_with_an_allowed_command(command: str) -> None:
    assert broken_rule(command, ECHO)


@pytest.mark.parametrize(("patterns", "command", "may_run"), OTHER_LISTS)
def test_a_command_must_match_a_pattern(patterns: list[str], command: str, may_run: bool) -> None:
    reason = broken_rule(command, [*map(compile_whole, patterns)])
    assert (reason is None) == may_run, reason


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "empty"),
        ("echo $(x)", r"a substitution \('\$\('\)"),
        ("echo a > x", "a redirection"),
        ("A=1 echo", "`A=1 echo` does not begin with the plain name"),
        ("if echo", "if is a statement of the shell"),
        ("touch x", r"`touch x` matches no pattern of MCP_BG_ALLOWED_COMMANDS: `\^echo"),
        ("rm -rf /", "Name what to remove"),
        ("x" * 5000, "^`x{200}…` matches"),
    ],
)
def test_the_reason_names_what_is_wrong(command: str, words: str) -> None:
    assert re.search(words, broken_rule(command, ECHO) or "")


# Against the truth: a payload in all the places where a shell might run it, beside `echo x`.

SHELLS = [shell for shell in ("sh", "bash", "zsh", "ksh", "mksh") if shutil.which(shell)]
PAYLOADS = ["touch pwned", "'touch' pwned", ": > pwned", ">pwned", "echo x >pwned", "$(touch pwned)"]
JOINTS = [
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "\n",
    "\r\n",
    ";;",
    " ",
    "",
    "\\",
    "\\\n",
    "#",
    " #",
    "'",
    '"',
    "\\'",
]
JOINTS += [
    '\\"',
    "`",
    "$(",
    "${",
    "$((",
    "$'",
    '$"',
    "$",
    "<(",
    "(",
    ")",
    "{",
    "}",
    "!",
    "=",
    ">",
    "<",
    "<<",
    "2>&1",
]
JOINTS += [
    "\t",
    "\v",
    "\u00a0",
    "\\;",
    "\\\\",
    "''",
    '""',
    "[",
    "]",
    "*",
    "~",
    ">/dev/null",
    ">&1",
    "{a}>&1",
    "$x",
]
RAW = st.sampled_from([*PAYLOADS, *JOINTS, "echo", "; echo x", "| echo x", "$x[", "if ", "do ", "eval "])
PIECES = RAW | RAW.map("'{}'".format) | RAW.map('"{}"'.format) | RAW.map("\\{}".format)


def run_everywhere(texts: Iterable[str], directory: Path, path: str = os.environ["PATH"]) -> None:
    """Each text in each shell; fails on the first that leaves a file behind."""
    environ = {"PATH": path, "x": "a[$(touch pwned)]"}
    for text, shell in itertools.product(texts, SHELLS):
        subprocess.run(
            [shell, "-c", "--", text],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert not any(directory.iterdir()), (shell, text)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_shells_do_run_the_payload_where_they_can(tmp_path: Path, payload: str) -> None:
    with pytest.raises(AssertionError):
        run_everywhere([f"echo x; {payload}"], tmp_path)


def test_the_allowed_commands_of_the_table_leave_no_file_behind(tmp_path: Path) -> None:
    run_everywhere(ALLOWED, tmp_path)


def test_no_allowed_text_between_two_joints_runs_the_payload(tmp_path: Path) -> None:
    texts = map("echo x{}{}{}".format, *zip(*itertools.product(JOINTS, PAYLOADS, JOINTS), strict=True))
    allowed = [text for text in texts if broken_rule(text, ECHO) is None]
    assert len(allowed) > 300
    run_everywhere(allowed[:: len(allowed) // 150], tmp_path)


# A redirection alone: zsh runs $NULLCMD or $READNULLCMD with it, which are cat and more.

LONE = [
    ">&1",
    ">&2",
    "1>&2",
    "2>&1",
    ">/dev/null",
    ">>/dev/null",
    ">& 2",
    "<x",
    "2>&1 >/dev/null",
    "''",
    "$x",
]


def test_no_allowed_text_runs_a_program_that_it_does_not_name(tmp_path: Path) -> None:
    programs, place = tmp_path / "programs", tmp_path / "place"
    for directory in (programs, place):
        directory.mkdir()
    for name in ("cat", "more", "less", "nosuch"):
        (programs / name).write_text(f"#!/bin/sh\n: > {place}/pwned\n")
        (programs / name).chmod(0o700)
    joints = (
        "{}",
        "echo x {}",
        "echo x{}",
        "echo x; {}",
        "echo x | {}",
        "{} | echo x",
        "echo x\n{}\n",
        "echo x &{}",
        "{};{}",
    )
    texts = [joint.format(lone, lone) for joint in joints for lone in LONE]
    allowed = [text for text in texts if broken_rule(text, ECHO) is None]
    assert len(allowed) > 3
    run_everywhere(allowed, place, path=f"{programs}:{os.environ['PATH']}")


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(PIECES, min_size=1, max_size=8)
    .map(lambda pieces: "echo x " + "".join(pieces))
    .filter(lambda text: broken_rule(text, ECHO) is None)
)
def test_no_allowed_text_at_random_runs_the_payload(tmp_path: Path, text: str) -> None:
    run_everywhere([text], tmp_path)
