#include "src/analysis/compare/code_line.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

// Frames that say how a call was made, not where in the model. `_call_impl` and `__call__` run
// hooks around a module's forward.
constexpr std::array<std::string_view, 9> kForeignMarks = {
    "site-packages/",  "dist-packages/", "/torch/",
    "/torch_npu/",     "/mindspore/",    "/msprobe/",
    ", in _call_impl", ", in __call__",  ", in _wrapped_call_impl",
};

bool IsForeign(std::string_view frame) {
  return std::any_of(kForeignMarks.begin(), kForeignMarks.end(), [&](std::string_view mark) {
    return frame.find(mark) != std::string_view::npos;
  });
}

// "File /a/models.py, line 43, in forward, \n return x" -> "models.py:43 in forward: return x".
// Other layouts stay as they are, in one line.
std::string Shorten(std::string_view frame) {
  const size_t line = frame.find(", line ");
  const size_t in = line == std::string_view::npos ? line : frame.find(", in ", line);
  if (!frame.starts_with("File ") || in == std::string_view::npos) {
    return base::ReplaceAll(frame, "\n", " ");
  }
  std::string_view path = frame.substr(5, line - 5);
  const size_t slash = path.rfind('/');
  path = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const std::string_view number = frame.substr(line + 7, in - line - 7);
  std::string_view function = frame.substr(in + 5);
  std::string_view code;
  if (const size_t comma = function.find(','); comma != std::string_view::npos) {
    code = base::Trim(function.substr(comma + 1));
    function = function.substr(0, comma);
  }
  std::string text;
  text.append(path).append(":").append(number).append(" in ").append(base::Trim(function));
  if (!code.empty()) {
    text.append(": ").append(base::ReplaceAll(code, "\n", " "));
  }
  return text;
}

}  // namespace

std::string UserCodeLine(const std::vector<std::string>& frames) {
  if (frames.empty()) {
    return {};
  }
  const auto own = std::find_if(frames.begin(), frames.end(),
                                [](const std::string& frame) { return !IsForeign(frame); });
  return Shorten(own == frames.end() ? frames.front() : *own);
}

}  // namespace msprobe::analysis::compare
