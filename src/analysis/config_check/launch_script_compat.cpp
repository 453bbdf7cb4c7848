// The Python tool's own reading of a launch script, with every quirk that its users' files may
// depend on. It knows no words and no quotes, only patterns over the text.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/config_check/launch_script.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr std::string_view kPythonBlanks = " \t\n\r\f\v";
constexpr std::string_view kBlockStart = "_ARGS=\"";
constexpr size_t kBlockNameLimit = 20;  // characters in front of _ARGS
// Blocks replaced by blocks double the text each time, and every variable is a search through the
// script: beyond this many bytes looked at nothing more is replaced.
constexpr size_t kWorkLimitBytes = size_t{64} << 20U;

bool IsBlank(char c) { return kPythonBlanks.find(c) != std::string_view::npos; }
bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Every line cut at its first #, empty lines gone.
std::string WithoutComments(std::string_view text) {
  std::string result;
  for (std::string_view line : base::Split(text, '\n')) {
    line = line.substr(0, line.find('#'));
    line = line.substr(0, line.find_last_not_of(kPythonBlanks) + 1);
    if (!line.empty()) {
      result += result.empty() ? "" : "\n";
      result += line;
    }
  }
  return result;
}

// Where `words` stand one behind the other, with blanks between and behind; npos if nowhere.
template <size_t kCount>
bool StandsAt(std::string_view text, size_t at, const std::array<std::string_view, kCount>& words) {
  for (size_t i = 0; i < kCount; ++i) {
    if (!text.substr(at).starts_with(words[i])) {
      return false;
    }
    at += words[i].size();
    if (i == 0 && kCount > 1 && at < text.size() && text[at] >= '0' && text[at] <= '9') {
      ++at;  // python3
    }
    if (at == text.size() || !IsBlank(text[at])) {
      return false;
    }
    at = std::min(text.find_first_not_of(kPythonBlanks, at), text.size());
  }
  return true;
}

// From the launcher to the first | or the end, over lines. Empty: no launcher.
std::string_view LaunchText(std::string_view script) {
  constexpr std::array<std::string_view, 1> kMsrun = {"msrun"};
  constexpr std::array<std::string_view, 1> kTorchrun = {"torchrun"};
  constexpr std::array<std::string_view, 3> kModule = {"python", "-m", "torch.distributed.launch"};
  for (size_t at = script.find_first_of("mtp"); at != std::string_view::npos;
       at = script.find_first_of("mtp", at + 1)) {
    if (StandsAt(script, at, kMsrun) || StandsAt(script, at, kTorchrun) ||
        StandsAt(script, at, kModule)) {
      return script.substr(at, script.find('|', at) - at);
    }
  }
  return {};
}

// {"GPT_ARGS", its text} in the order of the script.
std::vector<std::pair<std::string, std::string>> FindBlocks(std::string_view script) {
  std::vector<std::pair<std::string, std::string>> blocks;
  size_t from = 0;
  for (size_t at = script.find(kBlockStart); at != std::string_view::npos;
       at = script.find(kBlockStart, at)) {
    size_t begin = at;
    while (begin > from && at - begin < kBlockNameLimit && IsWordCharacter(script[begin - 1])) {
      --begin;
    }
    const size_t text = at + kBlockStart.size();
    const size_t end = script.find('"', text);
    if (begin == at || end == std::string_view::npos) {
      ++at;
      continue;
    }
    blocks.emplace_back(script.substr(begin, at - begin + kBlockStart.size() - 2),
                        base::ReplaceAll(script.substr(text, end - text), "\n", " "));
    at = end + 1;
    from = at;
  }
  return blocks;
}

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// The value with the variable that it begins with replaced by what the last NAME= is followed by.
std::string Resolve(std::string_view value, std::string_view script) {
  if (!value.starts_with('$')) {
    return std::string(value);
  }
  const size_t begin = value.starts_with("${") ? 2 : 1;
  size_t end = begin;
  while (end < value.size() && IsWordCharacter(value[end])) {
    ++end;
  }
  if (end == begin) {
    return std::string(value);
  }
  const std::string name = std::string(value.substr(begin, end - begin)) + "=";
  for (size_t at = script.rfind(name); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : script.rfind(name, at - 1)) {
    const size_t text = script.find_first_not_of(kPythonBlanks, at + name.size());
    if (text != std::string_view::npos) {
      return std::string(script.substr(text, script.find('\n', text) - text));
    }
  }
  return std::string(value);
}

}  // namespace

Parameters ReadLaunchScriptAsPythonTool(std::string_view text) {
  const std::string script = WithoutComments(text);
  std::string command(LaunchText(script));
  size_t work = 0;
  for (const auto& [name, block] : FindBlocks(script)) {
    const std::string reference = "$" + name;
    work += command.size() + CountOf(command, reference) * block.size();
    if (work > kWorkLimitBytes) {
      break;
    }
    command = base::ReplaceAll(command, reference, block);
  }
  Parameters parameters;
  const std::string_view view = command;
  for (size_t at = view.find("--"); at != std::string_view::npos; at = view.find("--", at)) {
    const size_t name = at + 2;
    size_t end = name;
    while (end < view.size() && (IsWordCharacter(view[end]) || view[end] == '-')) {
      ++end;
    }
    if (end == name) {
      ++at;
      continue;
    }
    const std::string key(view.substr(name, end - name));
    const size_t value = std::min(view.find_first_not_of(kPythonBlanks, end), view.size());
    size_t value_end = value;
    while (value > end && value_end < view.size() && !IsBlank(view[value_end]) &&
           view[value_end] != '\\') {
      ++value_end;
    }
    const bool has_value = value_end > value;
    work += has_value && view[value] == '$' ? script.size() : 0;
    const std::string_view source = work > kWorkLimitBytes ? std::string_view() : script;
    parameters.Set(key, has_value
                            ? TextParameter(Resolve(view.substr(value, value_end - value), source))
                            : TrueParameter());
    at = has_value ? value_end : end;
  }
  return parameters;
}

}  // namespace msprobe::analysis::config_check::internal
