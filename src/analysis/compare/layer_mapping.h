// Scope paths of a dump's calls, and the rules that translate them from one framework to the other:
// what layer mapping is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/side.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

// The type name of a model's root, and the first part of the path of calls outside of all modules.
inline constexpr std::string_view kTopLayer = "TopLayer";

enum class ScopeState : uint8_t { kForward, kBackward, kParametersGrad };

// Where one entry stands in the model.
struct EntryScope {
  std::string path;  // "Cell.network.layers.0.attention.qkv_proj", "TopLayer.outer"; empty: unknown
  std::string type_name;  // a module's class, an API's own name
  ScopeState state = ScopeState::kForward;

  // The path without its first part: the same in both frameworks when the modules have the same
  // names.
  std::string_view relative_path() const;
};

// One scope per entry, in entry order. `stack` may be null; frames in its newer layout count only
// with `grouped_frames`. Entries whose names follow no known form are counted in one warning and
// have no path.
std::vector<EntryScope> ScopesOf(const Side& side, const dump::ConstructFile& construct,
                                 const dump::StackFile* stack, bool grouped_frames,
                                 std::vector<std::string>& warnings);

// Rules per module type: a run of path segments on the NPU side, and what stands for it on the
// bench side.
class LayerRules {
 public:
  // An empty path gives no rules: every segment stands for itself.
  static Result<LayerRules> Load(const std::filesystem::path& file);

  struct Step {
    std::string_view target;  // may be empty: the segments vanish
    size_t consumed = 1;      // segments
  };
  // What stands for segments[from], and perhaps some behind it, below a node of this type. from <
  // segments.size().
  Step Translate(std::string_view type_name, const std::vector<std::string_view>& segments,
                 size_t from) const;

 private:
  struct Rule {
    std::vector<std::string> segments;
    std::string target;
  };
  // By type and first segment ("<type>\n<segment>"); longest rule first.
  std::unordered_map<std::string, std::vector<Rule>> rules_;
};

inline constexpr uint32_t kNoPartnerEntry = UINT32_MAX;

// The bench entry that stands at the same place of the model as each NPU entry, by the rules of
// `file` (empty: none); reads construct.json and stack.json beside both dumps. `grouped_frames`:
// use frames of the newer stack layout, too.
Result<std::vector<uint32_t>> PairEntriesByLayer(const std::filesystem::path& file,
                                                 bool grouped_frames, const Side& npu,
                                                 const Side& bench,
                                                 std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::compare
