"""`class Point(Frozen)`: what `@dataclass(frozen=True)` makes of a class, without the code that it generates.

That takes half a millisecond a class, and importing `dataclasses` eight: a server starts with fifty such
classes. Every annotation is a field. The functions of `dataclasses` (replace, fields, asdict) take a Frozen.
"""

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field

MISSING = object()
NOTHING: Any = {}
"""A default. What is empty here is never filled: a Frozen has it as a Mapping."""


class _DataclassFields:
    """Made when a function of `dataclasses` asks for them."""

    def __get__(self, _instance: object, owner: "type[Frozen]") -> "dict[str, Field[Any]]":
        import dataclasses

        made = dataclasses.make_dataclass("_", owner.defaults)
        return {field.name: field for field in dataclasses.fields(made)}


@dataclass_transform(frozen_default=True)
class Frozen:
    defaults: ClassVar[dict[str, Any]] = {}
    """The default of each field, or MISSING, in the order of the fields."""
    _required: ClassVar[tuple[str, ...]] = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    else:
        __dataclass_fields__ = _DataclassFields()

    def __init_subclass__(cls) -> None:
        own = {name: cls.__dict__.get(name, MISSING) for name in cls.__annotations__}
        cls.defaults = {**cls.defaults, **own}
        cls._required = tuple(name for name, value in cls.defaults.items() if value is MISSING)
        type.__setattr__(cls, "__match_args__", tuple(cls.defaults))  # mypy takes it for a constant

    def __init__(self, *values: Any, **named: Any) -> None:
        own, names = vars(self), self.__match_args__
        own.update(self.defaults)
        own.update(zip(names, values, strict=False))
        own.update(named)
        is_missing = any(own[name] is MISSING for name in self._required)
        if is_missing or len(own) > len(names) or len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}")

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


Some = TypeVar("Some", bound=Frozen)


def replace(value: Some, /, **changes: Any) -> Some:
    """As that of `dataclasses`."""
    return type(value)(**{**vars(value), **changes})
