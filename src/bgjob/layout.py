"""The directories of a home that not only the store must find: shims and the drainer do without it."""

JOBS, DRAFTS, SLOTS = "jobs", "drafts", "slots"
HOME = "../.."  # from a job's directory, in which its shim works
