"""The name by which a zygote of 0.1.0 that still runs imports limited_child, after this version was installed."""

from bgjob.shim.limited_child import Bounds, spawn

__all__ = ["Bounds", "spawn"]
