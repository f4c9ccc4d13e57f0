"""A training heard by hooks, which are there while somebody listens and are gone after."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self


class Listening:
    """A context in which hooks are in place; entered again, it goes on where it was.

    Raises:
        RuntimeError: on entering what has been entered and not left.
    """

    def __init__(self) -> None:
        self._hooks: list[Any] = []

    def _hook(self) -> Iterable[Any]:
        """The handles of the hooks, which are put in place on the way."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._hooks:
            raise RuntimeError(f"this {type(self).__name__} is listening already.")
        self._hooks += self._hook()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
