"""Sphinx configuration of ``make reference``: warnings and unknown names of ours are errors."""

import flowbert

project = "flowbert"
copyright = "the authors of flowbert, Apache-2.0"
version = release = flowbert.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
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

html_theme = "alabaster"
html_theme_options = {
    "description": flowbert.__doc__,
    "page_width": "70rem",
    "sidebar_width": "15rem",
}
html_show_sourcelink = False
