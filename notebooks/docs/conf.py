"""Settings of the documentation: ``python -m sphinx -W -b html notebooks/docs build``."""

import html
import inspect
import re
from types import ModuleType

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

import hmom_jax

project, author = "hmom_jax", "the authors of hmom_jax"
release = version = hmom_jax.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "hmom_jax"
html_copy_source = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
autodoc_typehints = "none"  # shapes are jaxtyping strings, which read badly in a signature
autodoc_member_order = "bysource"
nitpicky = True  # a reference that leads nowhere is a warning, and a warning is an error
html_math_renderer = "mathml"

_MATH = re.compile(r"(?<![\\$\w])\$([^$\n]+(?:\n[^$\n]+)?)\$")
_log = logging.getLogger(__name__)


def public_names() -> set[str]:
    """Return every name that users may call: what the package offers, and the public members of its classes."""
    names = set()
    for name in [*hmom_jax.__all__, *hmom_jax._ESTIMATORS]:
        thing = getattr(hmom_jax, name)
        if isinstance(thing, ModuleType):
            inside = [
                name for name, member in vars(thing).items() if getattr(member, "__module__", "") == thing.__name__
            ]
            names |= {f"{thing.__name__}.{name}" for name in inside if not name.startswith("_")}
            continue
        names.add(f"hmom_jax.{name}")
        if inspect.isclass(thing):
            names |= {f"hmom_jax.{name}.{member}" for member in vars(thing) if _is_method(thing, member)}
    return names


def _is_method(owner, name: str) -> bool:
    member = inspect.getattr_static(owner, name)
    is_method = inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
    return is_method and not name.startswith("_")


def _check_names(app, env) -> None:
    """Warn of public names that no page describes."""
    for name in sorted(public_names() - set(env.get_domain("py").objects)):
        _log.warning("undocumented public name: %s", name)


def _dollars(app, what, name, thing, options, lines) -> None:
    """Turn the dollars of docstrings into mathematics; doctests are left alone."""
    parts = re.split(r"((?:^\s*(?:>>>|\.\.\.) .*$\n?)+)", "\n".join(lines), flags=re.MULTILINE)
    parts[::2] = [_MATH.sub(lambda match: ":math:`" + " ".join(match[1].split()) + "`", part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def _several(app, what, name, thing, options, lines) -> None:
    """Let attributes share a line: Sphinx would take all but the last for types."""
    several = lambda match: match[0].replace(", ", ",\u200b")
    lines[:] = [re.sub(r"^:ivar [\w, ]+:", several, line) for line in lines]


def _skip(app, what, name, thing, skip, options):
    """Leave out fields of named tuples, which their class describes, and what scikit-learn adds to estimators."""
    if type(thing).__name__ in ("_tuplegetter", "member_descriptor"):
        return True
    return True if name.startswith("set_") and name.endswith("_request") else None


def _mathml(display: bool):
    """Return a renderer that needs no script and no network: browsers read MathML themselves."""

    def visit(self, node):
        # Without braces an index goes under the accent; and one kind of dots is all there is.
        source = re.sub(r"\\(tilde|dot|hat)\s*(\\[a-zA-Z]+|\w)", r"{\\\1{\2}}", node.astext().strip())
        source = source.replace(r"\dots", r"\ldots")
        try:
            markup = tex2mathml(source, as_block=display)
        except MathError as error:
            _log.warning("%s: %s", source, error, location=node)
            markup = html.escape(source)
        self.body.append(f'<div class="math">{markup}</div>' if display else markup)
        raise nodes.SkipNode

    return visit, None


def setup(app) -> None:
    """Connect the above."""
    app.add_html_math_renderer("mathml", inline_renderers=_mathml(False), block_renderers=_mathml(True))
    app.connect("autodoc-process-docstring", _dollars, priority=400)  # before the sections are read
    app.connect("autodoc-process-docstring", _several, priority=600)  # after the sections are read
    app.connect("autodoc-skip-member", _skip)
    app.connect("env-check-consistency", _check_names)
