"""Templates: everything that is put into one is escaped, whatever it is."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hookfuse.dashboard import drawing, words
from hookfuse.dashboard.statics import Statics

_FILTERS = (
    words.ago,
    words.breakable,
    words.count,
    words.host,
    words.measure,
    words.plain,
    words.pretty,
    words.rate,
    words.reason,
    words.rule,
    words.seconds,
    words.share,
    words.size,
    words.stamp,
    words.trouble,
    words.word,
    words.action_name,
)


class Views:
    def __init__(self, statics: Statics) -> None:
        self._templates = Environment(
            loader=PackageLoader("hookfuse.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {each.__name__: each for each in _FILTERS}
        self._templates.globals |= {
            "static": statics.url,
            "gauge": drawing.gauge,
            "sparkline": drawing.sparkline,
            "conditions": words.CONDITIONS,
            "groups_of_conditions": words.GROUPS,
            "states": words.STATES,
        }

    def render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)
