"""JSON objects as dataclasses that forget nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar, cast

from .errors import NotSpanreel

D = TypeVar("D", bound="Document")


@dataclass(frozen=True)
class Document:
    """A JSON object of the API."""

    #: The object itself.
    raw: dict[str, Any] = field(repr=False, compare=False, hash=False)

    @classmethod
    def read(cls: type[D], raw: Any) -> D:
        """The document in `raw`. Members that are absent or null take their default."""
        if not isinstance(raw, dict):
            raise NotSpanreel(f"a {cls.__name__} is no JSON object")
        values: dict[str, Any] = {}
        for name, member, needed, reader in _members(cast("Hashable", cls)):
            value = raw.get(member)
            if value is not None:
                values[name] = reader(value) if reader else value
            elif needed:
                raise NotSpanreel(f"a {cls.__name__} without {member!r}")
        return cls(raw=raw, **values)

    @property
    def unknown(self) -> dict[str, Any]:
        """Members that this version does not know."""
        known = {member for _, member, _, _ in _members(cast("Hashable", type(self)))}
        return {name: value for name, value in self.raw.items() if name not in known}


Reader = Callable[[Any], Any]


@cache
def _members(cls: Hashable) -> tuple[tuple[str, str, bool, Reader | None], ...]:
    """Of each field: its name, that of its member, whether it must be there, and what reads it."""
    return tuple(
        (
            f.name,
            f.metadata.get("member", f.name),
            f.default is MISSING and f.default_factory is MISSING,
            f.metadata.get("reader"),
        )
        for f in fields(cast("type[Document]", cls))
        if f.name != "raw"
    )


def one(kind: type[D]) -> Any:
    """An optional member that is a document."""
    return field(default=None, metadata={"reader": kind.read})


def filled(kind: type[D]) -> Any:
    """A document that stands there even when nothing is known."""
    return field(default_factory=lambda: kind.read({}), metadata={"reader": kind.read})


def many(kind: type[D]) -> Any:
    """A list of documents; empty when absent."""

    return field(default_factory=list, metadata={"reader": lambda items: each(kind, items)})


def each(kind: type[D], items: Any) -> list[D]:
    """The documents in a list."""
    if not isinstance(items, list):
        raise NotSpanreel(f"what should be a list of {kind.__name__} is none")
    return [kind.read(item) for item in items]


def renamed(name: str) -> Any:
    """A text whose member has a name that Python does not allow."""
    return field(default="", metadata={"member": name})


def listed() -> Any:
    """A list of plain values; empty when absent."""
    return field(default_factory=list)


def counted() -> Any:
    """An object of plain values; empty when absent."""
    return field(default_factory=dict)
