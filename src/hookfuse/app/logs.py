"""Logs: one line for each thing that happened, as JSON for machines or in colour for people.

Attempts have a logger of their own. There is one line for each of them with all its fields, so it must cost little: it
takes a short way to the stream. No line holds a payload, a URL, a header or a key. Reasons, names and errors may be
other people's text: in either form nothing of it can end a line or steer a terminal.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
import structlog

from hookfuse.config import Settings
from hookfuse.core.inert import inert
from hookfuse.core.notice import Occurrence
from hookfuse.core.outcome import OK
from hookfuse.core.state import Transition
from hookfuse.delivery.courier import Attempted

_LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def _add_time(logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    line["timestamp"] = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return line


def set_up_logs(settings: Settings, stream: TextIO | None = None) -> None:
    """Send the logs of the program and of its libraries to `stream`, by default stderr, in the form that was chosen."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_shaping(wants_json(settings, stream), stream),
            ],
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, _add_time],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(_LEVELS[settings.log_level], logging.WARNING))
    logging.getLogger("hookfuse").setLevel(_LEVELS[settings.log_level])


def wants_json(settings: Settings, stream: TextIO) -> bool:
    return settings.log_format == "json" or (settings.log_format == "auto" and not stream.isatty())


def _shaping(as_json: bool, stream: TextIO) -> list[Any]:
    if not as_json:
        return [_make_inert, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_write_trace)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_json)]


def _json(line: Mapping[str, object], **_: object) -> str:
    text = msgspec.json.encode(line, enc_hook=str).decode()
    if text.isprintable():
        return text
    # JSON escapes what is below a space; a terminal heeds signs above it, too.
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1].replace("\x7f", "\\u007f") for sign in text)


def _make_inert(logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """For people; whatever is no text is shown as its representation, which is inert."""
    for name, value in line.items():
        if isinstance(value, str):
            line[name] = inert(value)
    return line


def _write_trace(stream: TextIO, error: Any) -> None:
    """Without the values of variables, which hold payloads and secrets; indented, so that it looks like no new line."""
    written = io.StringIO()
    structlog.dev.plain_traceback(written, error)
    for line in written.getvalue().strip("\n").split("\n"):
        stream.write(f"\n    {inert(line)}")


class EventLog:
    """Says what happened to deliveries, breakers and endpoints, in one line for each."""

    def __init__(self, settings: Settings, stream: TextIO | None = None) -> None:
        stream = stream or sys.stderr
        self._level = _LEVELS[settings.log_level]
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, _add_time, *_shaping(wants_json(settings, stream), stream)],
            wrapper_class=structlog.make_filtering_bound_logger(self._level),
            cache_logger_on_first_use=True,
        ).bind()

    def attempted(self, attempted: Attempted) -> None:
        healthy = attempted.verdict.outcome.kind is OK
        if self._level <= logging.INFO or (self._level <= logging.WARNING and not healthy):
            (self._log.info if healthy else self._log.warning)("attempt", **attempt_fields(attempted))

    def changed(self, made: Transition) -> None:
        self._log.warning(
            "breaker",
            key=made.key,
            before=made.before.value,
            after=made.after.value,
            override=made.override.value,
            generation=made.generation,
            reason=made.reason,
            why=made.why,
            actor=made.actor,
        )

    def failing(self, reached: Occurrence) -> None:
        """An endpoint has failed for as long as a stage lasts."""
        facts = reached.facts
        self._log.warning(
            "failing",
            app_id=reached.app_id,
            endpoint_id=reached.endpoint_id,
            seconds=facts["stage_ms"] // 1000,
            since=datetime.fromtimestamp(facts["since_ms"] / 1000, UTC).isoformat(timespec="seconds"),
            reason=facts.get("reason", ""),
        )


def attempt_fields(attempted: Attempted) -> dict[str, object]:
    """An attempt with everything that is known of it and may be told."""
    claim, result, verdict = attempted.claim, attempted.result, attempted.verdict
    return {
        "message_id": claim.message_id,
        "endpoint_id": claim.endpoint_id,
        "app_id": claim.app_id,
        "event_type": claim.event_type,
        "number": claim.attempts + 1,
        "status": result.status,
        "trouble": None if result.trouble is None else result.trouble.value,
        "detail": result.detail,
        "latency_ms": round(result.latency * 1000, 1),
        "outcome": verdict.outcome.kind.value,
        "delivery": verdict.step.value,
        "reason": verdict.reason,
        "next_in": None if verdict.delay_ms is None else verdict.delay_ms / 1000,
        "bytes": len(claim.payload),
    }
