"""What is asked for, and the settings that the service runs with because of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hookfuse.config import load, variable
from hookfuse.demo.plan import Plan
from hookfuse.errors import InvalidInput

MOST_WORKERS = 16


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the demo is to be."""

    plan: Plan = field(default_factory=Plan)
    port: int = 0
    """0: any that is free."""
    workers: int = 1
    """Above one: so many processes of their own, on Postgres and Redis."""
    database_url: str | None = None
    redis_url: str | None = None
    lasting: bool = False
    """Whether it goes on after the story, until a signal ends it."""

    def __post_init__(self) -> None:
        given = load({}, options={"database_url": self.database_url, "redis_url": self.redis_url, "port": self.port})
        if self.database_url is not None and given.settings.embedded:
            raise InvalidInput("--database-url names a Postgres; without it the demo has a file of its own.")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise InvalidInput(f"--workers is a number from 1 to {MOST_WORKERS}.")
        if self.workers > 1 and (self.database_url is None or self.redis_url is None):
            raise InvalidInput(
                "Several workers share a Postgres and a Redis: name them with --database-url and --redis-url."
            )


def environment(wanted: Wanted, folder: Path, database_url: str | None) -> dict[str, str]:
    """The settings as variables, because worker processes get them too. The caller's own settings are left out."""
    plan = wanted.plan
    given = {
        "data_dir": str(folder),
        "host": "127.0.0.1",
        "port": str(wanted.port),
        "database_url": database_url,
        "redis_url": wanted.redis_url,
        "allowed_networks": "127.0.0.1/32",
        "policy": plan.policy.to_json(),
        "retry_delays": ",".join(f"{delay:g}" for delay in plan.retry.delays),
        "request_timeout": "10",
        "worker_grace": "2",
        "log_level": "error",
    }
    return {variable(name): value for name, value in given.items() if value is not None}
