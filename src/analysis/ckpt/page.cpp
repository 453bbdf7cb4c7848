#include "src/analysis/ckpt/page.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/ckpt/details.h"
#include "src/analysis/ckpt/document.h"
#include "src/analysis/ckpt/layers.h"
#include "src/base/strings.h"
#include "src/report/answer_page.h"

namespace msprobe::analysis::ckpt {
namespace {

using report::AnswerPage;
using report::Tone;

constexpr size_t kMostKinds = 120;     // columns that a map can show
constexpr size_t kMostLayers = 1'000;  // rows; several layers share one where there are more

void PutVerdict(const Comparison& comparison, AnswerPage& page) {
  const report::Document document = MakeDocument(comparison);
  page.SetVerdict(document.verdict);
  for (const std::string& next : document.next) {
    page.AddNext(next);
  }
}

// What is behind the layer in a name, with '*' for numbers: the experts of a layer are of one kind.
std::string KindOf(std::string_view name, std::string_view layer) {
  const std::string_view rest =
      name.size() > layer.size() ? name.substr(layer.size() + (name[layer.size()] == '.' ? 1 : 0))
                                 : name;
  std::string kind;
  for (const std::string_view part : base::Split(rest, '.')) {
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    kind.append(kind.empty() ? "" : ".").append(number ? "*" : part);
  }
  return kind;
}

// One cell of the map: the parameters of one kind in one layer, or in the layers that share a row.
struct MapCell {
  double value = 0;
  size_t count = 0;
  size_t different = 0;
  std::string worst;
  size_t layer = 0;  // of the worst
};

// Layers by kinds; the largest relative l2 of a cell stands for it.
void PutMap(const Comparison& comparison, AnswerPage& page) {
  std::vector<std::string> layers;
  std::vector<std::string> kinds;
  std::unordered_map<std::string, uint32_t> layer_numbers;
  std::unordered_map<std::string, uint32_t> kind_numbers;
  const auto number_of = [](std::string name, std::vector<std::string>& names,
                            std::unordered_map<std::string, uint32_t>& numbers) {
    const auto [found, is_new] = numbers.emplace(name, static_cast<uint32_t>(names.size()));
    if (is_new) {
      names.push_back(std::move(name));
    }
    return found->second;
  };
  std::vector<std::pair<uint32_t, uint32_t>> at;  // of each pair
  for (const PairResult& pair : comparison.pairs) {
    const std::string_view layer = LayerOf(pair.name);
    at.emplace_back(number_of(std::string(layer), layers, layer_numbers),
                    number_of(KindOf(pair.name, layer), kinds, kind_numbers));
  }
  if (layers.size() < 2) {
    return;
  }
  if (kinds.size() > kMostKinds) {
    page.AddNote(fmt::format("no map of layers by kind: {} are too many",
                             base::Plural(kinds.size(), "kind")));
    return;
  }
  const size_t share = (layers.size() + kMostLayers - 1) / kMostLayers;
  std::map<std::pair<uint32_t, uint32_t>, MapCell> map;
  for (size_t i = 0; i < at.size(); ++i) {
    const PairResult& pair = comparison.pairs[i];
    MapCell& cell = map[{static_cast<uint32_t>(at[i].first / share), at[i].second}];
    const double value =
        pair.computed() ? pair.metrics.relative_l2 : std::numeric_limits<double>::quiet_NaN();
    if (cell.count == 0 || std::isnan(value) || value > cell.value) {
      cell.value = value;
      cell.worst = pair.name;
      cell.layer = at[i].first;
    }
    ++cell.count;
    cell.different += pair.outcome > Outcome::kClose ? 1 : 0;
  }
  std::vector<std::string> rows;
  for (size_t first = 0; first < layers.size(); first += share) {
    const size_t last = std::min(first + share, layers.size()) - 1;
    rows.push_back(first == last ? layers[first]
                                 : fmt::format("{} .. {}", layers[first], layers[last]));
  }
  std::vector<AnswerPage::Cell> cells;
  for (const auto& [where, cell] : map) {
    cells.push_back({where.first, where.second, cell.value,
                     fmt::format("{} of {} different, most of all {}", cell.different,
                                 base::Plural(cell.count, "parameter"), cell.worst),
                     cell.count == 1 ? cell.worst : layers[cell.layer] + "."});
  }
  page.BeginSection("Layers by kind",
                    share == 1 ? "largest relative l2"
                               : fmt::format("largest relative l2; {} layers share a row", share));
  page.AddMap(rows, kinds, cells);
}

}  // namespace

Status WritePage(const std::filesystem::path& path, const std::vector<std::filesystem::path>& files,
                 Comparison& comparison) {
  AnswerPage page("ckpt_compare");
  PutVerdict(comparison, page);
  page.SetSides(comparison.a.path.string(), comparison.b.path.string());
  page.AddFact(base::FormatCount(comparison.pairs.size()),
               comparison.pairs.size() == 1 ? "parameter" : "parameters");
  const size_t different = comparison.CountOf(Outcome::kDifferent);
  page.AddFact(base::FormatCount(different), "different",
               different > 0 ? Tone::kBad : Tone::kPlain);
  PutMap(comparison, page);
  if (!comparison.settings.empty()) {
    report::Table table("settings", {"Setting", "Checkpoint 1", "Checkpoint 2"});
    for (const SettingDifference& setting : comparison.settings) {
      const report::Cell cells[] = {table.KeepText(setting.name), table.KeepText(setting.text_a),
                                    table.KeepText(setting.text_b)};
      table.AddRow(cells);
    }
    page.BeginSection("Settings of the optimizer that differ");
    page.AddTable(table);
  }
  page.BeginSection("Parameters");
  page.AddTable(DetailsTable(comparison));
  std::vector<report::OutputFile> written;
  for (const std::filesystem::path& file : files) {
    written.push_back({file});
  }
  page.AddFiles(written, path);
  MSP_RETURN_IF_ERROR(page.Write(path));
  comparison.warnings.insert(comparison.warnings.end(), page.notes().begin(), page.notes().end());
  return {};
}

}  // namespace msprobe::analysis::ckpt
