"""axe-core on what a page shows: rules for people with a screen reader, a keyboard, or weak eyes."""

from pathlib import Path

from playwright.sync_api import Page

from tests.support.npm_packages import NpmPackages

PACKAGES = NpmPackages(Path(__file__).parent)
SCRIPT = PACKAGES.modules / "axe-core" / "axe.min.js"
FIND = """async () => {
    const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
    return [passes.length, violations.map(({ id, impact, nodes }) =>
        `${impact}: ${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`)];
}"""


def violations(page: Page) -> list[str]:
    """Each rule that is broken, with the elements that break it."""
    # by the debugger: a script of the page would be refused by its content policy
    page.evaluate(SCRIPT.read_text())
    passed, broken = page.evaluate(FIND)
    assert passed > 0, "no rule was tried"
    return [str(each) for each in broken]
