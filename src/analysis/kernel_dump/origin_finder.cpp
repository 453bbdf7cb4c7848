#include "src/analysis/kernel_dump/origin_finder.h"

#include <algorithm>
#include <utility>

#include "src/io/kernel_dump/format.h"

namespace msprobe::analysis::kernel_dump {

Result<OriginFinder> OriginFinder::Make(const FusionRuleFiles& files,
                                        const std::vector<VectorOperator>& reference) {
  OriginFinder finder;
  for (const std::filesystem::path* const path : {&files.network, &files.quantised}) {
    if (!path->empty()) {
      MSP_ASSIGN_OR_RETURN(FusionRules rules, FusionRules::Read(*path));
      finder.rules_.push_back(std::move(rules));
    }
  }
  if (!files.reference.empty()) {
    MSP_ASSIGN_OR_RETURN(const FusionRules rules, FusionRules::Read(files.reference));
    finder.golden_places_ = rules.ByOrigin();
  }
  for (const VectorOperator& op : reference) {
    finder.runs_[op.name].push_back(&op);
  }
  return finder;
}

const std::vector<const VectorOperator*>& OriginFinder::Runs(std::string_view name) const {
  static const std::vector<const VectorOperator*> kNone;
  const auto found = runs_.find(name);
  return found == runs_.end() ? kNone : found->second;
}

bool OriginFinder::HasRules(std::string_view op) const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const FusionRules& rules) { return rules.has(op); });
}

std::optional<ReferencePlace> OriginFinder::InReference(const OutputPlace& origin,
                                                        size_t turn) const {
  if (const auto& runs = Runs(origin.op); turn < runs.size()) {
    return ReferencePlace{runs[turn], origin.output};
  }
  const auto fused = golden_places_.find(origin);
  if (fused == golden_places_.end()) {
    return std::nullopt;
  }
  const auto& runs = Runs(fused->second.op);
  return turn < runs.size() ? std::optional<ReferencePlace>({runs[turn], fused->second.output})
                            : std::nullopt;
}

std::optional<ReferencePlace> OriginFinder::Find(const OpenOperator& open, std::string_view op,
                                                 size_t turn, bool outputs, size_t number) const {
  std::optional<OutputPlace> origin;
  for (const FusionRules& rules : rules_) {
    std::optional<OutputPlace> further = origin    ? rules.Origin(origin->op, origin->output)
                                         : outputs ? rules.Origin(op, number)
                                                   : rules.InputOrigin(op, number);
    origin = further ? std::move(further) : std::move(origin);
  }
  const io::kernel_dump::DumpedTensor* const tensor = open.dumped(outputs, number);
  if (!origin && tensor != nullptr && tensor->origin) {
    origin = {io::kernel_dump::InFileNames(tensor->origin->op), tensor->origin->output};
  }
  return origin ? InReference(*origin, turn) : std::nullopt;
}

}  // namespace msprobe::analysis::kernel_dump
