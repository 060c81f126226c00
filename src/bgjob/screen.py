"""The name by which a server of 0.1.0 that still runs imports the screen, after this version was installed."""

from bgjob.terminal.screen import *  # noqa: F403
