"""Sphinx configuration of ``make docs``: warnings and unknown names of ours are errors.

The source folder is that of the repository, so that links between documents lead to the same
files on the site as on GitHub.
"""

import importlib
import inspect
import re
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import flowbert

project = "flowbert"
copyright = "the authors of flowbert, Apache-2.0"
version = release = flowbert.__version__

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
highlight_language = "none"
myst_enable_extensions = ["colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 3  # named as on GitHub
napoleon_custom_sections = ["Shapes"]
napoleon_use_rtype = False
napoleon_use_ivar = True
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "set_fit_request, set_score_request",  # scikit-learn makes them
}
autodoc_member_order = "groupwise"
autodoc_inherit_docstrings = False  # Lightning and torch describe their own methods
autodoc_typehints_format = "short"
autosummary_generate = False
maximum_signature_line_length = 60
python_use_unqualified_type_names = True
add_module_names = False

nitpicky = True
# Neither names of other libraries (no network) nor types of signatures that nobody makes.
_INTERNAL = (
    r"flowbert\..*\.(_\w+|BatchLoader|EncoderFiles|Findings|Folder|PicklableNetwork|Registered|Row|Store"
    r"|TensorOrFloat|CustomEncoder|Table|BatchSampler|R)"
)
nitpick_ignore_regex = [("py:.*", r"(?!flowbert).*"), ("py:(class|obj)", _INTERNAL)]

html_theme = "furo"
html_title = "flowbert"
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"


def show_one_picture(_app, _docname, source):
    """Markdown's <picture> becomes a picture per theme and width, of which site.css shows one."""

    def pictures(match):
        *sources, last = re.findall(r"<(?:source|img) [^>]*>", match[0])
        alt = re.search(r' alt="[^"]*"', last)[0]
        images = []
        for source in [*sources, last]:
            file = re.search(r'src(?:set)?="([^"]*)"', source)[1]
            theme = "only-dark" if "-dark" in file else "only-light"
            width = (
                " phone" if "-phone" in file else " wide" if len(sources) > 1 else ""
            )
            images.append(f'<img src="{file}" class="{theme}{width}"{alt}>')
        return "\n\n".join(images)

    source[0] = re.sub(r"<picture>.*?</picture>", pictures, source[0], flags=re.DOTALL)


def keep_intervals_whole(_app, _docname, source):
    """An interval in a table is not broken at its comma."""
    source[0] = re.sub(
        r"^\|.*\|$",
        lambda row: re.sub(r"(?<=\d), (?=-?\d[\d.]*\])", ",\u00a0", row[0]),
        source[0],
        flags=re.MULTILINE,
    )


def fold_notes(_app, docname, source):
    """The sidebar has the research notes below their list, where furo folds them."""
    if docname != "docs/research/README":
        return
    notes = re.findall(r"^\| \[(.+)\]\((.+)\.md\)", source[0], re.MULTILINE)
    entries = [f"{name.capitalize()} <{file}>" for name, file in notes]
    lines = ["", ":::{toctree}", ":hidden:", "", *entries, ":::", ""]
    source[0] += "\n".join(lines)


_DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)\n((?:   .*\n)*)", re.MULTILINE)


def write_pages(app):
    """Write a page for each class and function that the pages of the reference name."""
    folder = Path(app.srcdir) / "docs/reference"
    (folder / "api").mkdir(exist_ok=True)
    written = set()
    for page in folder.glob("*.rst"):
        for kind, name, options in _DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            members = public_names(name, options) if kind == "module" else [name]
            for member in members:
                path = folder / "api" / f"{member}.rst"
                write_page(path, member, "data" if kind == "data" else None)
                written.add(path)
    for path in set((folder / "api").iterdir()) - written:
        path.unlink()


def write_page(path, name, kind):
    """A class with its members, also those that it inherits from classes of flowbert."""
    module, _, short = name.rpartition(".")
    value = getattr(importlib.import_module(module), short)
    kind = kind or ("class" if inspect.isclass(value) else "function")
    lines = [short, "=" * len(short), "", f".. auto{kind}:: {name}"]
    if kind == "class":
        others = [
            base.__name__
            for base in value.__mro__
            if base.__module__.partition(".")[0] != "flowbert"
        ]
        lines.append(f"   :inherited-members: {', '.join(others)}")
    text = "\n".join([*lines, ""])
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def list_pages(_app, docname, source):
    """A page of the reference lists the pages of its classes and functions."""
    if docname.startswith("docs/reference/") and "/api/" not in docname:
        directives = rf"(?:{_DIRECTIVE.pattern})+"
        source[0] = re.sub(directives, write_tables, source[0], flags=re.MULTILINE)


def write_tables(match):
    """A table per module, with its docstring above; what follows a module joins its table."""
    lines = []
    for kind, name, options in _DIRECTIVE.findall(match[0]):
        if kind == "module":
            lines += ["", f".. automodule:: {name}", "   :no-members:", ""]
            lines += [".. currentmodule:: None"]
        if kind == "module" or not lines:
            lines += [
                "",
                ".. autosummary::",
                "   :toctree: api",
                "   :nosignatures:",
                "",
            ]
        members = public_names(name, options) if kind == "module" else [name]
        lines += [f"   ~{member}" for member in members]
    return "\n".join([*lines, "", ""])


def public_names(name, options):
    """Classes and functions of a module, of __all__ or its own, that options do not exclude."""
    excluded = re.findall(r"\w+", options)
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [
        member
        for member, value in vars(module).items()
        if getattr(value, "__module__", None) == name and member[0] != "_"
    ]
    # Those of extras are documented there.
    own = vars(module)
    members = {member: own[member] for member in names if member in own}
    return [
        f"{name}.{member}"
        for member, value in members.items()
        if member not in excluded
        and (inspect.isclass(value) or inspect.isfunction(value))
    ]


def simplify_types(_app, _what, _name, _object, _options, signature, returns):
    """Types of parameters without ranges, which are for the checks of options."""
    if signature:
        return re.sub(r"Annotated\[(\w+), '[^']*'\]", r"\1", signature), returns
    return None


def write_formula(writer, node):
    """Formulas as MathML, which browsers show without a script."""
    display = node.tagname == "math_block"
    writer.body.append(tex2mathml(node.astext(), as_block=display))
    raise SkipNode


def setup(app):
    """Register the functions above."""
    app.connect("source-read", show_one_picture)
    app.connect("source-read", keep_intervals_whole)
    app.connect("source-read", fold_notes)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", list_pages)
    app.connect("autodoc-process-signature", simplify_types)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
