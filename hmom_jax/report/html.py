"""The tree as one page of HTML, and as a few lines of it for notebooks.

Nothing that comes from a corpus can become markup or code. Data stand in a JSON block in which ``<``, ``>`` and ``&``
are escaped, the script puts them on the page as text only, and the content security policy lets no script run but the
page's own (by its hash) and no request leave the page.
"""

import base64
import hashlib
import html
import json
import re
from importlib import resources

from hmom_jax.files import write_text
from hmom_jax.report.contents import Given, page_contents
from hmom_jax.tree.tree import Tree

_UNSAFE = re.compile("[<>&\u2028\u2029]")
_LONE = re.compile("[\ud800-\udfff]")  # halves of characters, which no file of UTF-8 can hold
_MAX_STATIC = 300  # nodes in the static tree


def tree_page(tree: Tree, path, given: Given, *, title: str, n_words: int, n_documents: int) -> str:
    """Return the tree as a page of HTML, and write it to ``path`` where one is given; see :meth:`Tree.to_html`."""
    contents = page_contents(tree, given, n_words=n_words, n_documents=n_documents)
    style, script = _asset("page.css"), _asset("page.js")
    parts = {
        "policy": "; ".join(
            [
                "default-src 'none'",
                f"script-src {_hash(script)}",
                f"style-src {_hash(style)}",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
            ]
        ),
        "title": _escape(str(title)),
        "style": style,
        "script": script,
        "data": _json(contents),
        "static": static_tree(tree),
    }
    # In one pass: what is put in may look like a place to put something in.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))
    if path is not None:
        write_text(path, page)
    return page


def static_tree(tree: Tree, n_words: int = 8) -> str:
    """Return the tree as nested lists that unfold, without script or style sheet."""
    drawn = 1

    def draw(node) -> str:
        nonlocal drawn
        words = "(all documents)" if node.parent is None else " ".join(tree.keywords(node, n_words))
        line = f"<b>{node.n_docs:,}</b> {_escape(words)}"
        if node.is_leaf or drawn + len(node.children) > _MAX_STATIC:
            return f"<li>{line}{'' if node.is_leaf else ' …'}</li>"
        drawn += len(node.children)
        below = "".join(draw(tree.nodes[child]) for child in node.children)
        return (
            f"<li><details{' open' if node.depth < 3 else ''}><summary>{line}</summary><ul>{below}</ul></details></li>"
        )

    return f'<ul class="hmom-tree">{draw(tree.root)}</ul>'


def _asset(name: str) -> str:
    """Return a file of this package, with the line ends that the browser will hash."""
    return resources.files("hmom_jax.report").joinpath(name).read_text("utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _escape(text: str) -> str:
    """Escape text for HTML; what HTML cannot hold is replaced."""
    return html.escape(_LONE.sub("\ufffd", re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "\ufffd", text)))


def _json(value) -> str:
    """Return JSON in which nothing can end a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escaped = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return _LONE.sub("\ufffd", escaped)
