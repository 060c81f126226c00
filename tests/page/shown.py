"""What a page shows, as a person would name it."""

from playwright.sync_api import Locator, Page, expect


def row(page: Page, name: str) -> Locator:
    """The row of the job that has this name."""
    return page.locator(".row").filter(has=page.locator(f".name:text-is({name!r})"))


def names(page: Page) -> list[str]:
    """Of the rows that are drawn, from the top down."""
    return page.locator(".row .name").all_text_contents()


def headings(page: Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(".heading h3").all_text_contents()]


def choose(page: Page, name: str, entry: str) -> None:
    """From the menu of a job's row."""
    row(page, name).locator(".menu-button").click()
    page.get_by_role("menuitem", name=entry, exact=True).click()


def expect_selected(page: Page, name: str) -> None:
    expect(page.locator(".row.selected .name")).to_have_text(name)


def expect_view(page: Page, name: str) -> None:
    expect(page.locator("body")).to_have_attribute("data-view", name)


def expect_part(page: Page, name: str) -> None:
    """Of the view of a job: log, terminal or facts."""
    expect(page.locator(".view.job")).to_have_attribute("data-part", name)
