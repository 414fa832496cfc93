"""A named phase, as a context manager and as a decorator."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Callable, Optional, Type, TypeVar

from . import _lane

_F = TypeVar("_F", bound=Callable[..., Any])


class phase:
    """``with phase("validation"): ...`` or ``@phase("validation")``.

    Phases may nest and overlap. One object may be used again, even while it is in use. A decorated coroutine function
    is in its phase while it is awaited, a generator function while it is iterated.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> "phase":
        _lane.phase_begin(self.name)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        _lane.phase_end(self.name)

    def __call__(self, function: _F) -> _F:
        name = self.name
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with phase(name):
                    return await function(*args, **kwargs)

            return coroutine  # type: ignore[return-value]
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                with phase(name):
                    return (yield from function(*args, **kwargs))

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            with phase(name):
                return function(*args, **kwargs)

        return plain  # type: ignore[return-value]
