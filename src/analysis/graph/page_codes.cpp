#include "src/analysis/graph/page_codes.h"

#include <cmath>
#include <memory>

#include <fmt/format.h>

namespace msprobe::analysis::graph {

void AddColumnBlocks(const std::string& id, Columns columns,
                     std::vector<report::PageBlock>& blocks) {
  for (auto& [name, values] : columns) {
    blocks.push_back({fmt::format("{}_{}", id, name),
                      [kept = std::make_shared<std::vector<uint32_t>>(std::move(values))](
                          std::string& out) { report::AppendPlanes(*kept, out); }});
  }
}

uint32_t StandingCode(compare::RowStanding standing) {
  switch (standing) {
    case compare::RowStanding::kNotCompared:
      return 0;
    case compare::RowStanding::kIdentical:
      return 1;
    case compare::RowStanding::kAgrees:
      return 2;
    case compare::RowStanding::kDrifts:
      return 4;
    case compare::RowStanding::kDiffers:
      return 5;
  }
  return 0;
}

uint32_t FigureCode(const std::optional<double>& precision) {
  return precision && *precision >= 0 && *precision <= 1
             ? 1 + static_cast<uint32_t>(std::lround(*precision * 2))
             : 0;
}

uint32_t LevelCode(std::string_view level) {
  return level == "medium" ? 1U : level == "high" ? 2U : level == "critical" ? 3U : 0U;
}

uint32_t StackList::Number(std::vector<uint32_t> frames) {
  const std::string key = fmt::format("{}", fmt::join(frames, ","));
  const auto [known, is_new] =
      number_of_.try_emplace(key, static_cast<uint32_t>(stacks_.size() + 1));
  if (is_new) {
    stacks_.push_back(std::move(frames));
  }
  return known->second;
}

void StackList::Write(json::Writer& writer) const {
  writer.Member("frames", lines_.texts());
  writer.Key("stacks");
  writer.BeginArray();
  for (const std::vector<uint32_t>& stack : stacks_) {
    writer.BeginArray();
    for (const uint32_t frame : stack) {
      writer.Int(frame);
    }
    writer.EndArray();
  }
  writer.EndArray();
}

}  // namespace msprobe::analysis::graph
