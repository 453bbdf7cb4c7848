#include "src/checkpoint/megatron/stages.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::checkpoint {
namespace {

using Counts = std::vector<int64_t>;

// Of one part of the pipeline: more than any model has, and parts can be added up without overflow.
constexpr int64_t kMostLayers = 1'000'000'000;

std::vector<int64_t> Starts(const Counts& counts) {
  std::vector<int64_t> starts(counts.size(), 0);
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), int64_t{0});
  return starts;
}

// Every part has room for the layers that its file holds.
bool Fits(const Counts& candidate, const StageLayers& layers) {
  if (candidate.size() != layers.counts.size()) {
    return false;
  }
  for (size_t i = 0; i < candidate.size(); ++i) {
    if (layers.counts[i].value_or(0) > candidate[i]) {
      return false;
    }
  }
  return true;
}

// num_layer_list: "3,5" or "[3, 5]", one number per part.
Counts ListedCounts(const MegatronArgs& args) {
  Counts counts;
  std::string_view text = base::Trim(args.Text("num_layer_list"));
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  }
  for (std::string_view part : base::Split(text, ',')) {
    const std::optional<int64_t> count = base::ParseInt(base::Trim(part));
    if (!count || *count < 0 || *count > kMostLayers) {
      return {};
    }
    counts.push_back(*count);
  }
  return counts;
}

std::optional<int64_t> FirstGiven(const MegatronArgs& args, std::string_view name,
                                  std::string_view other_name) {
  const std::optional<int64_t> value = args.Integer(name);
  return value ? value : args.Integer(other_name);
}

// num_layers spread evenly over all parts but the first and last stage's where those have numbers
// of their own. Nothing when it does not come out even.
Counts SpreadCounts(const StageLayers& layers, const MegatronArgs& args, int64_t total) {
  const std::optional<int64_t> first =
      FirstGiven(args, "num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers");
  const std::optional<int64_t> last =
      FirstGiven(args, "num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers");
  const auto parts = static_cast<int64_t>(layers.counts.size());
  const int64_t virtual_stages = parts / layers.stages;
  const int64_t others = layers.stages - static_cast<int64_t>(first.has_value()) -
                         static_cast<int64_t>(last.has_value());
  if (first.value_or(0) < 0 || last.value_or(0) < 0 || others < 0 || first.value_or(0) > total ||
      last.value_or(0) > total - first.value_or(0)) {
    return {};
  }
  const int64_t rest = total - first.value_or(0) - last.value_or(0);
  const int64_t other_parts = others * virtual_stages;
  if ((other_parts == 0 && rest != 0) || (other_parts > 0 && rest % other_parts != 0) ||
      first.value_or(0) % virtual_stages != 0 || last.value_or(0) % virtual_stages != 0) {
    return {};
  }
  Counts counts;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t stage = part % layers.stages;
    if (stage == 0 && first) {
      counts.push_back(*first / virtual_stages);
    } else if (stage == layers.stages - 1 && last) {
      counts.push_back(*last / virtual_stages);
    } else {
      counts.push_back(rest / other_parts);
    }
  }
  return counts;
}

}  // namespace

std::vector<int64_t> FirstLayers(const StageLayers& layers, const MegatronArgs& args,
                                 std::vector<std::string>& warnings) {
  Counts counted;
  int64_t known_total = 0;
  int64_t longest = 0;
  bool complete = true;
  for (const std::optional<int64_t>& count : layers.counts) {
    counted.push_back(count.value_or(0));
    known_total += counted.back();
    longest = std::max(longest, counted.back());
    complete = complete && count.has_value();
  }
  const std::optional<int64_t> recorded = args.Integer("num_layers");
  if (complete && (!recorded || known_total == *recorded)) {
    return Starts(counted);
  }
  if (const Counts listed = ListedCounts(args); Fits(listed, layers)) {
    return Starts(listed);
  }
  if (recorded && *recorded >= 0) {
    if (const Counts spread = SpreadCounts(layers, args, *recorded); Fits(spread, layers)) {
      return Starts(spread);
    }
  }
  if (complete) {
    warnings.push_back(fmt::format(
        "args record {} layers, the files hold {}: layers are numbered as they were found",
        *recorded, known_total));
    return Starts(counted);
  }
  for (size_t i = 0; i < counted.size(); ++i) {
    counted[i] = layers.counts[i].value_or(longest);
  }
  warnings.push_back(fmt::format(
      "the layers of a missing pipeline stage are unknown: {} are assumed, as in the longest one",
      longest));
  return Starts(counted);
}

std::vector<int64_t> EvenFirstLayers(const StageLayers& layers) {
  // One layer where the first stage has none, so that stages stay apart. The Python tool takes all
  // virtual stages of the first stage together.
  int64_t count = 0;
  for (size_t stage = 0; count == 0 && stage < static_cast<size_t>(layers.stages); ++stage) {
    for (size_t part = stage; part < layers.counts.size();
         part += static_cast<size_t>(layers.stages)) {
      count = std::max(count, layers.counts[part].value_or(0));
    }
    if (layers.counts[stage].has_value()) {
      break;
    }
  }
  return Starts(Counts(layers.counts.size(), std::max<int64_t>(count, 1)));
}

}  // namespace msprobe::checkpoint
