"""The argv of our own processes, started as fresh interpreters from this very package."""

import os
import sys

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHIM_CODE = "import sys; sys.path.append(sys.argv[1]); from bgjob.shim import entry; entry.main(sys.argv[2:])"
WATCHER_CODE = (
    "import sys; sys.path.append(sys.argv[1]); from bgjob.watch.watcher import main; main(sys.argv[2])"
)
RELAY_CODE = (
    "import sys; sys.path.append(sys.argv[1]); from bgjob.remote.relay import main; main(*sys.argv[2:])"
)
DELIVERY_CODE = "import sys; sys.path.append(sys.argv[1]); from bgjob.watch.deliver import main; main()"

# -I -S -E: nothing of the user's site, so that a shim starts fast and the same everywhere.
SHIM = [sys.executable, "-I", "-S", "-E", "-c", SHIM_CODE, PACKAGE_ROOT]
# -P, not -I: the patterns need the re2 package, which may be anywhere on our caller's path.
WATCHER = [sys.executable, "-P", "-c", WATCHER_CODE, PACKAGE_ROOT]
RELAY = [sys.executable, "-P", "-c", RELAY_CODE, PACKAGE_ROOT]
# As a shim: it needs the standard library alone.
DELIVERY = [sys.executable, "-I", "-S", "-E", "-c", DELIVERY_CODE, PACKAGE_ROOT]
