"""Sphinx configuration of ``make docs``: warnings and unknown names of ours are errors.

The source folder is that of the repository, so that links between documents lead to the same
files on the site as on GitHub.
"""

import importlib
import inspect
import re

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
autodoc_member_order = "bysource"
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
    r"|TensorOrFloat)"
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


def summarize(_app, docname, source):
    """Insert a table of what a page of the reference documents, below its title."""
    if not docname.startswith("docs/reference/") or docname.endswith("index"):
        return
    names = []
    for kind, name in re.findall(r"^\.\. auto(\w+):: (\S+)", source[0], re.MULTILINE):
        names += public_names(name) if kind == "module" else [name]
    table = ["", "", ".. autosummary::", "   :nosignatures:", ""]
    table += [f"   ~{name}" for name in names]
    title, underline, rest = source[0].split("\n", 2)
    source[0] = "\n".join([title, underline, *table, "", rest])


def public_names(name):
    """Classes and functions that autodoc documents of a module: of __all__, or its own."""
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
        if inspect.isclass(value) or inspect.isfunction(value)
    ]


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
    app.connect("source-read", summarize)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
