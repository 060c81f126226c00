"""How processes of ours are started as fresh interpreters, of this very package."""

import os
import sys

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHIM_CODE = "import sys; sys.path.append(sys.argv[1]); from bgjob.shim import entry; entry.main(sys.argv[2:])"
WATCHER_CODE = (
    "import sys; sys.path.append(sys.argv[1]); from bgjob.watch.watcher import main; main(sys.argv[2])"
)

# -I -S -E: nothing of the user's site, so that a shim starts fast and the same everywhere
SHIM = [sys.executable, "-I", "-S", "-E", "-c", SHIM_CODE, PACKAGE_ROOT]
# -P, and not -I: the patterns want a package that may be wherever our caller has it from
WATCHER = [sys.executable, "-P", "-c", WATCHER_CODE, PACKAGE_ROOT]
