#include "src/analysis/graph/stack_lines.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "src/analysis/graph/node_names.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A call of the recorder: "api_template(" or "<Name>Template(", a capital in front, as a word.
bool CallsRecorder(std::string_view line) {
  constexpr std::string_view kSmall = "api_template(";
  for (size_t at = line.find(kSmall); at != std::string_view::npos;
       at = line.find(kSmall, at + 1)) {
    if (at == 0 || !IsWordPart(line[at - 1])) {
      return true;
    }
  }
  constexpr std::string_view kLarge = "Template(";
  for (size_t at = line.find(kLarge); at != std::string_view::npos;
       at = line.find(kLarge, at + 1)) {
    size_t start = at;
    while (start > 0 && IsLetter(line[start - 1])) {
      --start;
    }
    const bool is_word = start == 0 || !IsWordPart(line[start - 1]);
    if (is_word && start < at && line[start] >= 'A' && line[start] <= 'Z') {
      return true;
    }
  }
  return false;
}

struct Frame {
  std::string_view file;
  std::string_view function;
};

// "File /a/b.py, line 3, in f, \n y = f(x)"
Frame ParseStackFrame(std::string_view line) {
  Frame frame;
  const std::vector<std::string_view> fields = base::Split(line, ',');
  frame.file = base::Trim(fields[0]);
  if (frame.file.starts_with("File ")) {
    frame.file = base::Trim(frame.file.substr(5));
  }
  for (size_t i = 1; i < fields.size(); ++i) {
    const std::string_view field = base::Trim(fields[i]);
    if (field.starts_with("in ")) {
      frame.function = base::Trim(field.substr(3));
      break;
    }
  }
  return frame;
}

}  // namespace

StackLines ShortStack(std::string_view node_name, StackLines lines) {
  if (IsModuleName(node_name)) {
    const std::vector<std::string_view> fields = base::Split(node_name, '.');
    if (fields.size() < 4) {
      return lines;
    }
    const std::string call = std::string(fields[fields.size() - 4]) + "(";
    const auto found = std::find_if(lines.begin(), lines.end(), [&call](const std::string& line) {
      return line.find(call) != std::string::npos;
    });
    return found == lines.end() ? lines : lines.subspan(found - lines.begin(), 1);
  }
  const auto found = std::find_if(lines.begin(), lines.end(), CallsRecorder);
  return found == lines.end() || found + 1 == lines.end()
             ? lines
             : lines.subspan(found - lines.begin() + 1, 1);
}

bool ShowsRecomputation(StackLines lines) {
  constexpr size_t kReach = 2;  // frames between a backward function and the framework's
  std::vector<Frame> frames;
  frames.reserve(lines.size());
  for (const std::string& line : lines) {
    frames.push_back(ParseStackFrame(line));
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    if (frame.function == "recompute_fn" && frame.file.ends_with("torch/utils/checkpoint.py")) {
      return true;
    }
    const bool is_backward =
        frame.function == "backward" || (frame.function == "checkpoint_function_backward" &&
                                         frame.file.find("megatron") != std::string_view::npos);
    for (size_t next = i + 1; is_backward && next <= i + kReach && next < frames.size(); ++next) {
      if (frames[next].file.ends_with("torch/autograd/function.py")) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace msprobe::analysis::graph
