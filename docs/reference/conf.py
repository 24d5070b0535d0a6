"""How Sphinx builds the reference, ``make reference``: warnings and unknown names of ours are errors."""

import flowbert

project = "flowbert"
copyright = "the authors of flowbert, Apache-2.0"
version = release = flowbert.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
napoleon_custom_sections = ["Shapes"]
napoleon_use_rtype = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # Lightning's and torch's own methods are described by them
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
add_module_names = False

nitpicky = True
# Names of other libraries are not looked up (no network), nor private bases and types in signatures that no one makes.
_NAMES = r"_\w+|Dense|Normalize|Packing|Processes|ResumableRun|ScoreFolder|grid\.Source|Step|TensorOrFloat"
_INTERNAL = rf"flowbert\.(.*\.)?({_NAMES})"
nitpick_ignore_regex = [("py:.*", r"(?!flowbert).*"), ("py:class", _INTERNAL)]

html_theme = "alabaster"
html_theme_options = {"description": flowbert.__doc__, "page_width": "70rem", "sidebar_width": "15rem"}
html_show_sourcelink = False
