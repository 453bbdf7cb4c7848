#include "src/dump/user_code.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include "src/base/strings.h"

namespace msprobe::dump {
namespace {

constexpr std::array<std::string_view, 8> kForeignFiles = {
    "site-packages/", "dist-packages/", "/torch/",       "/torch_npu/",
    "/mindspore/",    "/msprobe/",      "/lib/python3.", "File <"};
constexpr std::array<std::string_view, 3> kCallers = {", in _call_impl", ", in __call__",
                                                      ", in _wrapped_call_impl"};

bool HoldsAny(std::string_view text, std::span<const std::string_view> marks) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
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

bool IsUserFrame(std::string_view frame) {
  return !HoldsAny(frame.substr(0, frame.find(", line")), kForeignFiles) &&
         !HoldsAny(frame, kCallers);
}

std::vector<std::string> UserFrames(const std::vector<std::string>& frames) {
  std::vector<std::string> own;
  std::copy_if(frames.begin(), frames.end(), std::back_inserter(own), IsUserFrame);
  return own.empty() ? frames : own;
}

std::string UserCodeLine(const std::vector<std::string>& frames) {
  if (frames.empty()) {
    return {};
  }
  const auto own = std::find_if(frames.begin(), frames.end(), IsUserFrame);
  return Shorten(own == frames.end() ? frames.front() : *own);
}

}  // namespace msprobe::dump
