// How the page's columns say things in numbers (docs/formats/graph_page.md): for pages that hold
// their graphs, and for those that are served from a database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/analysis/compare/divergence.h"
#include "src/json/writer.h"
#include "src/report/page_columns.h"
#include "src/report/web_page.h"

namespace msprobe::analysis::graph {

// Bits of a node's code: how it stands, its figure and its level of overflow.
inline constexpr uint32_t kFigureShift = 4;
inline constexpr uint32_t kLevelShift = 8;
inline constexpr int kErrorBits = 12;  // of the fraction of errors, which are looked at by size

using Columns = std::vector<std::pair<std::string, std::vector<uint32_t>>>;

// As the blocks "<id>_<name>".
void AddColumnBlocks(const std::string& id, Columns columns,
                     std::vector<report::PageBlock>& blocks);

uint32_t StandingCode(compare::RowStanding standing);
// 1 pass, 2 warning, 3 error by the rules of 26.x; 0: none.
uint32_t FigureCode(const std::optional<double>& precision);
uint32_t LevelCode(std::string_view level);

// Stacks that repeat, each kept once as numbers of its lines.
class StackList {
 public:
  // 1 and up; 0: none. `lines`: of texts.
  template <typename Lines>
  uint32_t Add(const Lines& lines) {
    std::vector<uint32_t> frames;
    for (const auto& line : lines) {
      frames.push_back(lines_.Add(line));
    }
    return frames.empty() ? 0 : Number(std::move(frames));
  }

  // The members "frames" and "stacks".
  void Write(json::Writer& writer) const;

 private:
  uint32_t Number(std::vector<uint32_t> frames);

  report::TextList lines_;
  std::vector<std::vector<uint32_t>> stacks_;
  std::unordered_map<std::string, uint32_t> number_of_;  // by the numbers of the lines, as text
};

}  // namespace msprobe::analysis::graph
