"""An agent of another version: what it says and hears has words that this version does not know.

A program in place of python3 on the other machine. It runs the real one, and stands in the pipe: each message gets
further words, and so does what is asked. Messages of a kind that is not known come in between.
"""

import sys
from pathlib import Path

PROGRAM = """#!{python} -S
import base64, json, os, subprocess, sys, threading, zlib

VERSION = "99.0"
NOVEL = {{"novel": {{"of": ["a", "version"], "that": None}}, "another_word": 7}}


def skewed(line, asked):
    plain = line if line.startswith(b"{{") else zlib.decompress(base64.b64decode(line))
    message = json.loads(plain)
    if "hello" in message:
        message["version"] = VERSION
    if asked and isinstance(message.get("words"), dict):
        message["words"].update(NOVEL)
    if not asked and isinstance(message.get("ok"), dict):
        message["ok"].update(NOVEL)
    message.update(NOVEL)
    data = json.dumps(message).encode()
    return data if len(data) < 1000 else base64.b64encode(zlib.compress(data, 1))


def main():
    child = subprocess.Popen(["{python}", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if sys.argv[-1].startswith("import sys; sys.exit"):
        sys.exit(child.wait())
    threading.Thread(target=hear, args=(child,), daemon=True).start()
    said_hello = False
    for line in child.stdout:
        if said_hello or line.startswith(b'{{"hello"'):
            line = skewed(line, False) + b"\\n"
            if said_hello:
                line += b'{{"weather": "fine"}}\\n'
            said_hello = True
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    os._exit(child.wait())


def hear(child):
    source = sys.stdin.buffer
    counted = source.readline()
    child.stdin.write(counted + source.read(int(counted)) + source.readline())
    child.stdin.flush()
    for line in source:
        words = line.split()
        if len(words) == 2 and words[0].isdigit():  # the code, counted
            line += source.read(int(words[0]))
        else:
            line = skewed(line.rstrip(b"\\n"), True) + b"\\n" + b'{{"weather": "fine"}}\\n'
        child.stdin.write(line)
        child.stdin.flush()
    child.stdin.close()


main()
"""


def skewed_python(directory: Path) -> Path:
    path = directory / "python-of-another-version"
    path.write_text(PROGRAM.format(python=f"{sys.base_prefix}/bin/python3"))
    path.chmod(0o755)
    return path
