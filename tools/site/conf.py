"""Sphinx's settings for the site of docs/, one language at a time: tools/dev/build_site.sh sets SITE_LANGUAGE and SITE_VERSION."""
import os
import re

from sphinx.search.en import SearchEnglish

chinese = os.environ["SITE_LANGUAGE"] == "zh"
project = "msprobe"
version = release = os.environ["SITE_VERSION"]
author = "the developers of msprobe"
project_copyright = ""
language = "zh_CN" if chinese else "en"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
# Anchors as GitHub makes them; pages are written for both.
myst_heading_anchors = 6
highlight_language = "text"

html_theme = "furo"
html_title = "msprobe %s" % version
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Summaries are fetched from the pages found, which browsers do not allow below file://.
html_show_search_summary = False
html_search_language = "msprobe"
html_static_path = ["_static"]
html_css_files = ["site.css"]

# Chinese, Japanese, Korean: scripts without blanks between words.
UNSPACED = r"\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af"


class Search(SearchEnglish):
    """English words by their stems, and Chinese text by all pairs of neighbouring letters, so that no dictionary is needed: a query is
    found where all its pairs are. Single letters are indexed as well. Both languages stand in one index, as they do on the pages."""
    lang = "msprobe"
    language_name = "English and Chinese"
    js_splitter_code = r"""
var splitQuery = (query) => query.split(/[^\p{L}\p{N}_]+/u).flatMap((word) =>
  word.split(/([UNSPACED]+)/u).filter((part) => part).flatMap((part) => {
    if (!/^[UNSPACED]/u.test(part) || part.length < 2) return [part];
    const letters = Array.from(part);
    return letters.slice(1).map((letter, i) => letters[i] + letter);
  }));
""".replace("UNSPACED", UNSPACED)

    def split(self, input):  # pylint: disable=redefined-builtin
        words = []
        for part in re.findall(r"[%s]+|[^\W%s]+" % (UNSPACED, UNSPACED), input):
            words.append(part) if not re.match("[%s]" % UNSPACED, part) else words.extend(
                list(part) + [part[i:i + 2] for i in range(len(part) - 1)])
        return words


def setup(app):
    app.add_search_language(Search)
