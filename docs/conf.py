"""Sphinx configuration of ``make docs``: warnings and unknown names of ours are errors.

The source folder is that of the repository, so that links between documents lead to the same
files on the site as on GitHub.
"""

import flowbert

project = "flowbert"
copyright = "the authors of flowbert, Apache-2.0"
version = release = flowbert.__version__

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
highlight_language = "none"
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
python_use_unqualified_type_names = True
add_module_names = False

nitpicky = True
# Neither names of other libraries (no network) nor types of signatures that nobody makes.
_INTERNAL = (
    r"flowbert\..*\.(_\w+|BatchLoader|EncoderFiles|Registered|Row|Store|TensorOrFloat)"
)
nitpick_ignore_regex = [("py:.*", r"(?!flowbert).*"), ("py:(class|obj)", _INTERNAL)]

html_theme = "furo"
html_title = "flowbert"
html_show_sourcelink = False
