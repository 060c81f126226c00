"""Commands that reach other machines: each runs the shell line that is its last argument, over there."""

from collections.abc import Sequence

# Nobody is there to be asked for a password. A dead connection is noticed after 15 s.
SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
    # of the user's own config, what is meant for a person who logs in
    *("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none"),
    # ssh -a -x, in a form that ssh_options of a target can override: root on the host could use the agent and
    # the display for as long as the relay is connected
    *("-o", "ForwardAgent=no", "-o", "ForwardX11=no"),
)


def ssh(host: str, options: Sequence[str] = ()) -> list[str]:
    """OpenSSH's client with the user's own config. `options` come first, and so win over ours."""
    return [SSH[0], *options, *SSH[1:], "--", host]


def local_shell() -> list[str]:
    """This machine: for engines that are here, and for tests."""
    return ["sh", "-c"]
