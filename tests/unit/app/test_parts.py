"""What is set in the environment reaches the parts that it is for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hookfuse.app.parts import station_settings
from hookfuse.app.station import Station
from hookfuse.config import load
from tests.unit.transport.receiver import OK, answering, receiving, request
from tests.unit.transport.test_proxy import connecting


def test_requests_go_through_the_proxy_of_the_settings(tmp_path: Path) -> None:
    """With HOOKFUSE_PROXY_URL the station's sender asks that proxy, and dials nobody itself."""

    async def scenario() -> None:
        async with receiving(connecting) as proxy, receiving(answering(OK)) as receiver:
            environment = {
                "HOOKFUSE_DATA_DIR": str(tmp_path),
                "HOOKFUSE_ALLOWED_NETWORKS": "127.0.0.0/8",
                "HOOKFUSE_PROXY_URL": f"http://127.0.0.1:{proxy.port}",
            }
            async with Station(station_settings(load(environment).settings)) as station:
                assert (await station.sender.send(request(receiver.url()))).status == 200
            assert proxy.requests[0].startswith(f"CONNECT 127.0.0.1:{receiver.port} ".encode())
            assert (proxy.connections, receiver.connections) == (1, 1)

    asyncio.run(scenario())
