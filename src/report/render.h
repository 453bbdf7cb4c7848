// A document in the forms that people and programs read. Texts of a document may hold anything:
// every form makes them harmless (terminal: printable; JSON, XML, HTML: escaped).
//
// Numbers that are not finite are written in one way everywhere: NaN, Infinity, -Infinity. In JSON
// they are texts, so that what is written is always valid JSON and nothing is lost.
#pragma once

#include <string>
#include <string_view>

#include "src/report/document.h"
#include "src/report/screen.h"

namespace msprobe::report {

// The verdict first, then the sections, what to do next, and all files by name. Ends with a line
// feed. The verdict and paths are never cut.
std::string RenderTerminal(const Document& document, const ScreenOptions& options);

// One JSON object, indented by one, with a line feed behind it: docs/formats/answer_json.md.
std::string RenderJson(const Document& document);

// One test case per TestCase, or one for the verdict where there are none. `gate` decides about
// levels on request.
std::string RenderJunit(const Document& document, const Gate& gate);

// A line per case that does not pass, up to 50, as GitHub shows beside the code: "::error
// file=,line=,title=::" where the exit code is not 0, otherwise "::warning". `workspace`: what
// paths are relative to.
std::string RenderGithubAnnotations(const Document& document, const Gate& gate,
                                    std::string_view workspace);

}  // namespace msprobe::report
