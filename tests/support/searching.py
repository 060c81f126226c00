"""What tests of the search share."""

from typing import Any


def matches(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The matches of all jobs, each with the id of its job."""
    return [{"job_id": job["job_id"], **match} for job in found["jobs"] for match in job["matches"]]
