"""How Sphinx builds the site: `make docs` writes it to out/docs."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx_gallery.sorting import ExplicitOrder

import scorewise

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))

project = "scorewise"
author = "the authors of scorewise"
release = version = scorewise.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "plot_in_markdown",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_extensions", "_templates"]
templates_path = ["_templates"]

# -- the look: everything is in the site itself, so that it works from a disk ----------------------

html_theme = "pydata_sphinx_theme"
html_title = "scorewise"
# The script of the package is one file, which needs no fonts and no network.
MATHJAX = Path(str(find_spec("sphinx-mathjax-offline").origin)).parent / "static/mathjax/tex-svg.js"
html_static_path = ["_static", str(MATHJAX)]
mathjax_path = MATHJAX.name
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
WITHOUT_SIDEBAR = ("index", "quickstart", "install", "simplex", "coming-from")
html_sidebars = {page: [] for page in WITHOUT_SIDEBAR}
html_copy_source = False
html_show_search_summary = False  # a page on a disk may not read the others
html_context = {"default_mode": "auto"}
copyright = "the authors of scorewise; licence: Apache-2.0"

# -- Markdown --------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -- the reference ---------------------------------------------------------------------------------

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc sections have the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_use_plots = False

# -- pictures and examples -------------------------------------------------------------------------

plot_formats = [("png", 160)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = True
plot_rcparams = {
    "figure.figsize": (6.4, 3.6),
    "figure.constrained_layout.use": True,
    "font.size": 10,
}
plot_apply_rcparams = True

# In the order of their page.
EXAMPLES = [
    "abstain_with_a_guarantee.py",
    "calibrate_then_trust.py",
    "compare_measures.py",
    "out_of_distribution.py",
    "boosted_trees.py",
    "xgboost_booster.py",
    "catboost_virtual_ensembles.py",
    "histogram_gradient_boosting.py",
    "logistic_regression.py",
    "gaussian_process.py",
    "tabular_foundation_model.py",
    "torch_ensemble.py",
    "hugging_face.py",
    "llm_answers.py",
    "saved_predictions.py",
    "triage.py",
    "own_rule.py",
    "deployed_model.py",
    "active_learning.py",
    "labels_for_a_target.py",
    "multi_label.py",
    "segmentation.py",
]
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "min_reported_time": float("inf"),
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": ExplicitOrder(EXAMPLES),
}
# Threads of OpenMP and of workers wait for each other where examples are this small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# -- pages that stand elsewhere in the repository --------------------------------------------------

# A page of the site is made of them, so links to them become links to that page.
INCLUDED = {
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/gpu.md": "gpu-benchmarks.md",
    "reproduction/page.md": "paper.md",
    "reproduction/datasets.md": "datasets.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "src/scorewise/kernels/cpu/README.md": "cpu-kernel.md",
    "src/scorewise/kernels/cuda/README.md": "cuda-kernel.md",
}
INCLUDED |= {f"examples/{name}": f"gallery/{Path(name).stem}.rst" for name in EXAMPLES}


def link_to_included_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make links that work in the repository work in the site."""
    for path, page in INCLUDED.items():
        source[0] = source[0].replace(f"](../{path}", f"]({page}")


def describe_thumbnails(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give thumbnails the alternative text that sphinx-gallery leaves out."""
    if docname == "gallery/index":
        title = r":alt:(?=\n.*?thumbnail-title\">(.*?)</div>)"
        source[0] = re.sub(title, r":alt: Picture of the example: \1", source[0], flags=re.DOTALL)


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", link_to_included_pages)
    app.connect("source-read", describe_thumbnails)
