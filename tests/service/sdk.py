"""The svix SDK, pointed at a service of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from svix.api import SvixAsync, SvixOptions

from tests.service.conftest import Service


@asynccontextmanager
async def client(service: Service, key: str) -> AsyncIterator[SvixAsync]:
    found = SvixAsync(key, SvixOptions(server_url=service.url, retry_schedule=[]))
    yield found
    # The SDK leaves its connections open.
    await found._httpx_client.aclose()


async def pages(read: Any, make: Any) -> list[Any]:
    """Everything in a list, page by page, and then the first page again by its way back."""
    seen: list[Any] = []
    iterator: Any = None
    page: Any = None
    while page is None or not page.done:
        before: Any = page
        page = await read(make(iterator))
        seen += page.data
        iterator = page.iterator
        if before is not None:
            back = await read(make(page.prev_iterator))
            assert [each.id for each in back.data] == [each.id for each in before.data]
    return seen
