"""The policy as tables of cases: what is refused whatever the settings; and what a judgement costs."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgjob.core.config import settings_from
from bgjob.core.patterns import WholePattern, compile_whole
from bgjob.core.policy import broken_rule

ECHO = [compile_whole(r"^echo( |$)")]

NOT_COMMANDS = ["", " ", "\n\t ", "echo \0", "echo \ud800", "\udfff"]

DESTRUCTIVE = r"""
rm -rf /
rm -fr /
rm -r -f /
rm -R /
rm / -rf
rm --recursive --force /
rm -rf -- /
rm -rf /*
rm -rf /.*
rm -rf "/"
rm -rf '/'
rm -rf \/
rm -rf $'/'
rm -rf //
rm -rf /./
rm -rf /tmp/..
rm -rf /tmp/../*
rm -rf build /
rm -rf ~
rm -rf ~/
rm -rf ~/*
rm -rf $HOME
rm -rf "$HOME"
rm -rf ${HOME}
rm -rf "${HOME}/"
rm -rf $HOME/*
rm -rf --no-preserve-root x
"rm" -rf /
r\m -rf /
/bin/rm -rf /
/usr/bin/rm  -rf	/
sudo rm -rf /
sudo -u root rm -rf /
sudo -n -- rm -rf /
env A=1 B=2 rm -rf /
A=1 rm -rf /
nohup nice -n 10 rm -rf / &
timeout 5m rm -rf /
jobs -x rm -rf /
echo a; rm -rf /
echo a && rm -rf /
echo a || rm -rf /
echo a | rm -rf /
echo a & rm -rf /
(rm -rf /)
{ rm -rf /; }
if true; then rm -rf /; fi
while true; do sudo rm -rf /; done
case x in x) rm -rf /;; esac
! rm -rf /
echo $(rm -rf /)
echo "$(rm -rf "/")"
echo `rm -rf /`
cat <(rm -rf /)
f() { rm -rf /; }; f
sh -c 'rm -rf /'
sudo bash -lc "rm -rf /"
su root -c 'rm -rf /'
sh -c "sh -c 'rm -rf /'"
eval rm -rf /
eval "rm -rf /"
rm -rf / > log
rm -rf / # clean up
:(){ :|:& };:
:() { : | : & } ; :
bomb() { bomb | bomb & }; bomb
bomb() { echo x; bomb & bomb & }; bomb
function b { b|b& }; b
f() ( f|f& ); f
mkfs /dev/sda
mkfs.ext4 /dev/nvme0n1p1
sudo mkfs.xfs -f /dev/vdb
mke2fs -t ext4 /dev/sdb1
dd if=/dev/zero of=/dev/sda
dd of=/dev/nvme0n1 if=x bs=1M
dd if=x of=/dev/vda
sudo dd if=x of="/dev/mmcblk0"
echo x > /dev/sda
echo x >/dev/sda1
cat x >> /dev/nvme0n1
echo x 1> /dev/vda
echo x &> /dev/sdb
> /dev/sda
chmod -R 777 /
chmod 777 -R /
sudo chmod -Rf 000 /
chmod --recursive a+w /*
chown -R me:me /
chown -hR root /
shutdown
shutdown -h now
sudo reboot
reboot -f
halt
poweroff
/sbin/poweroff
sudo /usr/sbin/reboot
init 0
init 6
telinit 0
systemctl reboot
sudo systemctl poweroff -i
make; reboot
""".strip().splitlines()
DESTRUCTIVE += [
    "echo a\nrm -rf /",
    "rm \\\n -rf /",
    "cat <<X\nhello\nX\nrm -rf /",
    "a=1\nreboot",
    "echo ''#; rm -rf /",
]

HARMLESS = r"""
rm -rf build/
rm -rf ./
rm -rf .
rm -rf *
rm -rf /tmp/x
rm -rf /tmp/*
rm -rf ~/.cache/x
rm -rf ~/build
rm -rf "$HOME/build"
rm -rf ~/$(basename x)
rm -rf "$DIR"
rm -rf ""
rm -f /
rm -i x /tmp/y
make > /dev/null
make > /dev/null 2>&1
make 2>/dev/stderr
echo x > /dev/shm/x
echo x > dev/sda
cat /dev/sda > disk.img
dd if=/dev/zero of=file
dd if=/dev/sda of=disk.img
echo "rm -rf /"
echo rm -rf /
echo 'a; rm -rf /'
echo \; rm -rf /
echo a # ; rm -rf /
echo a#b
grep -r 'rm -rf /' .
git commit -m "reboot fix"
git commit -m 'fix: rm -rf / is refused; reboot too'
npm run shutdown-tests
npm run reboot
echo $(date) reboot
echo `date` reboot
python -c "print(':(){')"
python -c 'import os; os.reboot'
echo ':(){ :|:& };:'
f() { echo x; }; f
worker() { ./work; }; worker & worker & wait
fib() { fib 1; fib 2; }
shutdown() { kill $pid; }; trap shutdown EXIT; shutdown
function halt { echo x; }
case $1 in start) ./run;; shutdown) ./stop;; reboot) ./again;; esac
command -v shutdown
which reboot
man reboot
./reboot
scripts/shutdown now
reboot.sh
systemctl status reboot.target
systemctl restart nginx
init
git init 0
chmod 777 /tmp/x
chmod -R 777 /tmp/x
chmod -r /
chown -R me ~
chown me /
chown -R me /srv/app
mkfs.ext4 disk.img
mkfs -h
sh -c 'echo rm -rf /'
bash script.sh -c
echo "unclosed
echo 'unclosed
echo $((1 << 2)); echo a
a=(1 2 3); echo ${a[0]}
x=$(cat <<< "reboot"); echo $x
""".strip().splitlines()
HARMLESS += [
    "cat > notes <<'EOF'\nreboot\nrm -rf /\nEOF\necho done",
    "cat <<-X\n\treboot\n\tX\nls",
    'echo "$(date); reboot"',
    'echo "`date`; reboot"',
]


@pytest.mark.parametrize("command", NOT_COMMANDS)
@pytest.mark.parametrize("allowed", [[], ECHO])
def test_what_no_shell_can_run_is_refused(command: str, allowed: list[WholePattern]) -> None:
    assert broken_rule(command, allowed)


@pytest.mark.parametrize("command", DESTRUCTIVE)
@pytest.mark.parametrize("allowed", [[], [compile_whole(".*")]])
def test_the_plainly_destructive_is_refused_whatever_the_settings(
    command: str, allowed: list[WholePattern]
) -> None:
    assert broken_rule(command, allowed)


@pytest.mark.parametrize("command", HARMLESS)
def test_the_harmless_runs_when_there_is_no_allow_list(command: str) -> None:
    assert broken_rule(command, []) is None


UNITS = [
    *"a;&|\n'\"`$(){}[]<>#\\ \t/\r",
    *[
        "a ",
        '"a" ',
        "'a' ",
        "''",
        '""',
        'a""',
        "$a",
        "${a}",
        "$(",
        "$()",
        "$((",
        "((",
        ")(",
        "`a`",
        "\\'",
        '\\"',
    ],
    *[
        "echo a;",
        "echo a\n",
        "a;",
        "a\n",
        "sudo ",
        "sudo -u ",
        "A=1 ",
        "f(){ ",
        "f(){ f|",
        "sh -c 'a';",
        "eval ",
    ],
    *[
        "<<a ",
        "<<a\na\n",
        "<<a\n",
        "> x ",
        "rm -r ",
        "/.",
        "/..",
        '"$(',
        "$'",
        "$'\\",
        "\\\n",
        "function f ",
        "a)",
    ],
]
LONG_TEXTS = {
    "arguments": "rm " + "file.txt " * 33_000,
    "a script": "cp -r src/a.txt 'build/b c.txt'\n" * 9_000,
    "a here-document": "cat > notes <<'EOF'\n" + "a line of text\n" * 20_000 + "EOF\n",
    "quoted data": "curl -d '" + '{"a": 1}, ' * 30_000 + "' localhost",
    "one word": "echo " + "x" * 300_000,
}


def seconds_to_judge(command: str) -> float:
    started = time.process_time()
    broken_rule(command, [])
    broken_rule(command, ECHO)
    return time.process_time() - started


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_300_kb_are_judged_in_well_under_a_second(text: str) -> None:
    assert seconds_to_judge(text) < 1.0


@pytest.mark.parametrize("prefix", ["", 'rm "'])
def test_no_repetition_takes_more_than_linear_time(prefix: str) -> None:
    slow = [unit for unit in UNITS if seconds_to_judge(prefix + unit * (10_000 // len(unit))) > 1.0]
    assert not slow


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pattern", [r"^(\w+ ?)+$", r"^(a|aa)+$", r"^(\S+ *)*;$"])
def test_no_pattern_of_a_list_takes_more_than_linear_time(pattern: str) -> None:
    allowed = settings_from({"MCP_BG_ALLOWED_COMMANDS": pattern}).allowed_commands
    assert broken_rule("a " + "a" * 300_000 + "!", allowed)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab01 \t\n\r'\"\\`$(){}[]<>|&;#=/*?~!-\0\ud800é"), max_size=60))
def test_any_text_gets_an_answer(command: str) -> None:
    assert broken_rule(command, ECHO) != ""
