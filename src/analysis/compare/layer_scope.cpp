#include <algorithm>
#include <optional>
#include <unordered_set>

#include "src/analysis/compare/layer_mapping.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::analysis::compare {
namespace {

using Parts = std::vector<std::string_view>;

std::string JoinParts(const Parts& parts, size_t count) {
  std::string joined;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) {
      joined += '.';
    }
    joined += parts[i];
  }
  return joined;
}

std::optional<ScopeState> StateOf(std::string_view part) {
  if (part == "forward") {
    return ScopeState::kForward;
  }
  if (part == "backward") {
    return ScopeState::kBackward;
  }
  return std::nullopt;
}

struct Frame {
  std::string_view file;
  std::string_view function;
};

// "File a.py, line 1, in f, \n y = x"
Frame ParseFrame(std::string_view text) {
  Frame frame;
  const Parts fields = base::Split(text, ',');
  frame.file = fields[0];
  if (fields.size() > 2) {
    const Parts words = base::Split(base::Trim(fields[2]), ' ');
    frame.function = words.size() > 1 ? words[1] : std::string_view();
  }
  return frame;
}

bool IsModelFrame(std::string_view frame, Framework framework) {
  return framework == Framework::kMindSpore
             ? base::ContainsAny(frame, {"in construct"})
             : base::ContainsAny(frame, {"in forward,", "in backward,"});
}

// The framework's own function through which the model made this call: the outermost of the
// framework's frames that stand between the recording hook ("Template" frames) and the model's
// code. Empty when there is none.
std::string_view FrameScope(const std::vector<std::string>& frames, Framework framework) {
  size_t end = 0;
  size_t begin = 0;
  for (; end < frames.size() && !IsModelFrame(frames[end], framework); ++end) {
    if (frames[end].find("Template") != std::string::npos) {
      begin = end + 1;
    }
  }
  std::string_view scope;
  for (size_t i = begin; i < end; ++i) {
    const Frame frame = ParseFrame(frames[i]);
    if (!base::ContainsAny(frame.file, {"site-packages/torch", "package/torch",
                                        "site-packages/mindspore", "package/mindspore"})) {
      break;
    }
    const bool plumbing = base::ContainsAny(frame.file, {"msprobe", "MindSpeed"}) ||
                          frame.function == "construct" || frame.function == "__call__";
    if (!plumbing) {
      scope = frame.function;
    }
  }
  return scope;
}

// "Cell.<path>.<Class>.<state>.<call>" or "Cell.<path>.<Class>.parameters_grad"; at least four
// parts.
std::optional<EntryScope> ModuleScope(const Parts& parts) {
  const size_t count = parts.size();
  EntryScope scope;
  if (parts.back() == "parameters_grad") {
    scope.state = ScopeState::kParametersGrad;
    scope.type_name = parts[count - 2];
    scope.path = JoinParts(parts, count - 2);
    return scope;
  }
  const std::optional<ScopeState> state = StateOf(parts[count - 2]);
  if (!state) {
    return std::nullopt;
  }
  scope.state = *state;
  scope.type_name = parts[count - 3];
  scope.path = JoinParts(parts, count - 3);
  return scope;
}

// "<kind>.<api>.<call>.<state>"; at least four parts.
std::optional<EntryScope> ApiScope(const Parts& parts, std::string_view parent,
                                   std::string_view frame_scope) {
  const std::optional<ScopeState> state = StateOf(parts.back());
  if (!state) {
    return std::nullopt;
  }
  EntryScope scope;
  scope.state = *state;
  scope.type_name = parts[parts.size() - 3];
  const Parts parent_parts = base::Split(parent, '.');
  scope.path = parent_parts.size() > 3 ? JoinParts(parent_parts, parent_parts.size() - 3)
                                       : std::string(kTopLayer);
  if (!frame_scope.empty()) {
    scope.path.append(".").append(frame_scope);
  }
  scope.path.append(".").append(scope.type_name);
  return scope;
}

// A backward call stands where its forward call stood.
void TakeForwardPaths(const Side& side, std::vector<EntryScope>& scopes) {
  std::unordered_map<std::string_view, size_t> index_of_name;
  index_of_name.reserve(side.entries.size());
  for (size_t i = 0; i < side.entries.size(); ++i) {
    index_of_name.emplace(side.entries[i].name, i);
  }
  for (size_t i = 0; i < scopes.size(); ++i) {
    if (scopes[i].state != ScopeState::kBackward || scopes[i].path.empty()) {
      continue;
    }
    const auto forward =
        index_of_name.find(dump::WithDirection(side.entries[i].name, dump::Direction::kForward));
    if (forward != index_of_name.end() && !scopes[forward->second].path.empty()) {
      scopes[i].path = scopes[forward->second].path;
    }
  }
}

// Calls visit(prefix_length, digits_begin, digits_end, number) for every numbered layer below one
// of `stacks` ("<path>.layers").
template <typename Visit>
void ForEachLayerNumber(const std::unordered_set<std::string>& stacks, const std::string& path,
                        Visit&& visit) {
  constexpr std::string_view kLayers = ".layers.";
  for (size_t at = path.find(kLayers); at != std::string::npos; at = path.find(kLayers, at + 1)) {
    const size_t prefix_length = at + kLayers.size() - 1;
    if (!stacks.contains(path.substr(0, prefix_length))) {
      continue;
    }
    const size_t segment_end = std::min(path.find('.', prefix_length + 1), path.size());
    const size_t begin = path.find_first_of("0123456789", prefix_length + 1);
    size_t end = begin;
    while (end < segment_end && path[end] >= '0' && path[end] <= '9') {
      ++end;
    }
    if (begin >= segment_end) {
      continue;
    }
    const std::string_view digits = std::string_view(path).substr(begin, end - begin);
    if (const std::optional<int64_t> number = base::ParseInt(digits)) {
      visit(prefix_length, begin, end, *number);
    }
  }
}

// Pipeline stages number their layers from the stage's first one: every ParallelTransformer's
// layers start at 0.
void RenumberLayers(std::vector<EntryScope>& scopes) {
  std::unordered_set<std::string> stacks;
  for (const EntryScope& scope : scopes) {
    if (scope.type_name == "ParallelTransformer" && !scope.path.empty()) {
      stacks.insert(scope.path + ".layers");
    }
  }
  if (stacks.empty()) {
    return;
  }
  std::unordered_map<std::string, int64_t> smallest;
  for (const EntryScope& scope : scopes) {
    ForEachLayerNumber(
        stacks, scope.path, [&](size_t prefix_length, size_t, size_t, int64_t number) {
          const auto [entry, added] = smallest.emplace(scope.path.substr(0, prefix_length), number);
          if (!added) {
            entry->second = std::min(entry->second, number);
          }
        });
  }
  for (EntryScope& scope : scopes) {
    std::string renumbered;
    size_t copied = 0;
    ForEachLayerNumber(
        stacks, scope.path, [&](size_t prefix_length, size_t begin, size_t end, int64_t number) {
          renumbered.append(scope.path, copied, begin - copied);
          renumbered += std::to_string(number - smallest[scope.path.substr(0, prefix_length)]);
          copied = end;
        });
    if (copied > 0) {
      renumbered.append(scope.path, copied);
      scope.path = std::move(renumbered);
    }
  }
}

}  // namespace

std::string_view EntryScope::relative_path() const {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(path).substr(dot + 1);
}

std::vector<EntryScope> ScopesOf(const Side& side, const dump::ConstructFile& construct,
                                 const dump::StackFile* stack, bool grouped_frames,
                                 std::vector<std::string>& warnings) {
  const bool use_frames = stack != nullptr && (!stack->grouped_layout() || grouped_frames);
  std::vector<EntryScope> scopes;
  scopes.reserve(side.entries.size());
  size_t unknown = 0;
  std::string_view first_unknown;
  for (const SideEntry& entry : side.entries) {
    const Parts parts = base::Split(entry.name, '.');
    std::optional<EntryScope> scope;
    if (parts.size() >= 4) {
      if (parts[0] == "Cell" || parts[0] == "Module" || parts.back() == "parameters_grad") {
        scope = ModuleScope(parts);
      } else {
        std::string_view frame_scope;
        if (use_frames && parts[0] != "Primitive" && parts[0] != "Jit") {
          const std::vector<std::string>* frames = stack->Find(entry.name);
          frame_scope = frames == nullptr ? "" : FrameScope(*frames, side.framework);
        }
        scope = ApiScope(parts, construct.ParentOf(entry.name), frame_scope);
      }
    }
    if (!scope && unknown++ == 0) {
      first_unknown = entry.name;
    }
    scopes.push_back(scope ? std::move(*scope) : EntryScope());
  }
  if (unknown > 0) {
    warnings.push_back(side.json_path.string() + ": " + std::to_string(unknown) +
                       " entries have no place in the model and stay unmatched, first " +
                       std::string(first_unknown));
  }
  TakeForwardPaths(side, scopes);
  RenumberLayers(scopes);
  return scopes;
}

}  // namespace msprobe::analysis::compare
