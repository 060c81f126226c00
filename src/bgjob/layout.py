"""The directories of a home; shims and the drainer find them without the store."""

JOBS, INDEX, DRAFTS, TRASH, SLOTS = "jobs", "index", "drafts", "trash", "slots"
HOME = "../.."  # from a job's directory, in which its shim works
