"""Self-contained HTML pages, which include the plotting library and forbid the browser to load anything else.

A page extends figures/page.html.jinja, which contains style and script: pages are light or dark like the system, light
on paper, and plots are drawn when they come into view. Everything that is inserted into a page is escaped.
"""

from __future__ import annotations

import functools
import importlib.resources
import json

import jinja2

from isthmus import __version__, spelling


def _text(package: str, name: str) -> str:
    return (importlib.resources.files(package) / name).read_text(encoding="utf-8")


def render(template: str, plots: list[dict], **values) -> str:
    """Returns a page as text. Each plot gets the `id` of an element of class `plot` in the template."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(functools.partial(_text, "isthmus")),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["printable"] = spelling.printable
    for number, plot in enumerate(plots, 1):
        plot["id"] = f"plot{number}"
    drawn = {plot["id"]: {"data": plot["data"], "layout": plot["layout"]} for plot in plots}
    inside_script = json.dumps(drawn, allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    library = _text("plotly", "package_data/plotly.min.js") if plots else ""
    return environment.get_template(template).render(
        library=library, drawn=inside_script, version=__version__, **values
    )  # fmt: skip
