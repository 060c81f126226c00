"""Performs the requests of a token: with the rights of the token, and its rules for jobs."""

from collections.abc import Iterator, Mapping

from bgjob.api import Jobs, open_jobs
from bgjob.core.config import ALLOW_LIST
from bgjob.core.frozen import replace
from bgjob.core.patterns import narrowed
from bgjob.mcp.service import Service
from bgjob.store.config_file import read_config_file
from bgjob.store.targets_file import read_targets
from bgjob.web.tokens import Rules, Token, environment_under


class Services:
    """One for all tokens with the same rights and rules."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        # by the environment of the server: the variables that a token gives its jobs cannot lead to other files
        self._file, self._targets = read_config_file(environ), read_targets(environ)
        self._jobs: dict[Rules, Jobs] = {}
        self._services: dict[tuple[Rules, frozenset[str]], Service] = {}
        self.jobs = self._jobs_under(Rules())
        """Under no rules."""

    def of(self, token: Token) -> Service:
        """BgjobError: the rules of the token are no longer valid."""
        key = token.rules, token.scopes
        if key not in self._services:
            self._services[key] = Service(self._jobs_under(token.rules), scopes=token.scopes)
        return self._services[key]

    def __iter__(self) -> Iterator[Service]:
        return iter(list(self._services.values()))

    def close(self) -> None:
        for jobs in self._jobs.values():
            jobs.close()

    def _jobs_under(self, rules: Rules) -> Jobs:
        if rules not in self._jobs:
            opened = open_jobs(
                environment_under(rules, self._environ), file=self._file, targets=self._targets
            )
            self._jobs[rules] = self._within_own_list(opened) if ALLOW_LIST in dict(rules.env) else opened
        return self._jobs[rules]

    def _within_own_list(self, jobs: Jobs) -> Jobs:
        """The allow-list of a token narrows that of the server: a command must match both."""
        own, settings = self.jobs.context.settings.allowed_commands, jobs.context.settings
        both = narrowed(own, settings.allowed_commands)
        return Jobs(replace(jobs.context, settings=replace(settings, allowed_commands=both)))
