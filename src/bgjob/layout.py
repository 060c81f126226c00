"""The directories of a home that not only the store must find: shims and the drainer do without it."""

JOBS, DRAFTS, SLOTS = "jobs", "drafts", "slots"
