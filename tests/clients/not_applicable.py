"""Scenarios of the conformance suites that do not apply to bgjob, each with its reason."""

ASKS_NOTHING = (
    "The server asks for input only by a task: no sampling, no roots, nothing in the middle of a call."
)
NO_LOGGING = "The server sends no log messages; what it has to say is in the answers."
NO_SESSIONS = "The server has no sessions: each request stands alone, and a broken stream is asked for again."
NO_SKILLS = "The server has no skills."
SUITE_SKIPS = (
    "The suite skips its own check: it does not know the stream yet on which tasks are told of. The project's own "
    "tests show it."
)
NO_PARAMETERS_IN_HEADERS = "No tool takes an argument from a header of its own (x-mcp-header)."
NO_STREAM_TO_TELL = (
    "A client of the handshake cannot subscribe over HTTP, and is told so in its capabilities: without sessions "
    "there is no stream on which to notify it. Over stdio it can."
)
LISTS_STAY = "The list does not change while a server runs, so no change is announced."

SCENARIOS = {
    "elicitation-sep1034-defaults": ASKS_NOTHING,
    "elicitation-sep1330-enums": ASKS_NOTHING,
    "http-custom-header-server-validation": NO_PARAMETERS_IN_HEADERS,
    "input-required-result-basic-elicitation": ASKS_NOTHING,
    "input-required-result-basic-list-roots": ASKS_NOTHING,
    "input-required-result-basic-sampling": ASKS_NOTHING,
    "input-required-result-capability-check": ASKS_NOTHING,
    "input-required-result-ignore-extra-params": ASKS_NOTHING,
    "input-required-result-missing-input-response": ASKS_NOTHING,
    "input-required-result-multi-round": ASKS_NOTHING,
    "input-required-result-multiple-input-requests": ASKS_NOTHING,
    "input-required-result-non-tool-request": ASKS_NOTHING,
    "input-required-result-request-state": ASKS_NOTHING,
    "input-required-result-result-type": ASKS_NOTHING,
    "input-required-result-tampered-state": ASKS_NOTHING,
    "logging-set-level": NO_LOGGING,
    "resources-subscribe": NO_STREAM_TO_TELL,
    "resources-unsubscribe": NO_STREAM_TO_TELL,
    "sep-2640-skills-directory": NO_SKILLS,
    "sep-2640-skills-enumeration": NO_SKILLS,
    "sep-2640-skills-manifest": NO_SKILLS,
    "server-session-lifecycle": NO_SESSIONS,
    "server-sse-polling": NO_SESSIONS,
    "tasks-status-notifications": SUITE_SKIPS,
    "tools-call-elicitation": ASKS_NOTHING,
    "tools-call-sampling": ASKS_NOTHING,
    "tools-call-with-logging": NO_LOGGING,
}
OF_A_HANDSHAKE = {"server-sse-multiple-streams": NO_SESSIONS}
"""These apply to newer revisions, and not to those that begin with a handshake."""
CHECKS = {
    "sep-2575-server-sends-prompts-list-changed-on-subscription": LISTS_STAY,
    "sep-2575-server-sends-tools-list-changed-on-subscription": LISTS_STAY,
}
"""Single checks, in scenarios that apply."""
