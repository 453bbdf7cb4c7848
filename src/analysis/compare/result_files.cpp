// Writes the files of a pair: the table as xlsx, csv or both, the text of the advisor, the data
// mapping. The advisor takes the first row whose verdict fails and chooses its advice by whether
// that is an input or a result, of a forward or a backward call, and by operators whose sums
// have no fixed order.
#include "src/analysis/compare/result_files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/analysis/compare/result_table.h"
#include "src/analysis/compare/summary.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/report/writers.h"

namespace msprobe::analysis::compare {
namespace {

// Operators whose kernels may sum in a different order from run to run.
constexpr std::array<std::string_view, 6> kNonDeterministic = {"conv2d",   "conv3d",     "matmul",
                                                               "nll_loss", "layer_norm", "lstm"};

bool TextHas(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

report::Advice AdviceFor(const Side& npu, const SideRow& row) {
  if (npu.is_debug) {
    return report::Advice("advisor.saved_value");
  }
  const bool forward = TextHas(row.name, "forward");
  const bool input = TextHas(row.name, "input");
  if (!input && std::any_of(kNonDeterministic.begin(), kNonDeterministic.end(),
                            [&](std::string_view name) { return TextHas(row.name, name); })) {
    return report::Advice("advisor.any_order");
  }
  return report::Advice(input     ? forward ? "advisor.input" : "advisor.gradient"
                        : forward ? "advisor.forward"
                                  : "advisor.backward");
}

bool Fails(CompareMode mode, Verdict verdict) {
  switch (mode) {
    case CompareMode::kRealData:
      return verdict == Verdict::kNo;
    case CompareMode::kStatistics:
      return verdict == Verdict::kWarning;
    case CompareMode::kMd5:
      return verdict == Verdict::kDifferent;
  }
  return false;
}

}  // namespace

std::optional<size_t> FirstFailingRow(const PairResult& result) {
  for (size_t i = 0; i < result.rows.size(); ++i) {
    if (Fails(result.mode, result.rows[i].verdict)) {
      return i;
    }
  }
  return std::nullopt;
}

std::string AdvisorText(const Side& npu, const Side& bench, const PairResult& result,
                        const DivergenceReport& divergence) {
  const std::optional<size_t> row = FirstFailingRow(result);
  const std::optional<DivergencePoint>& origin = divergence.first_origin;
  std::string start;
  if (origin) {
    start = fmt::format("The runs diverge first at {} ({}): {}.", origin->row_name,
                        OriginKindName(origin->kind), origin->reason);
  }
  if (row) {
    const SideRow& suspect = npu.rows[result.rows[*row].pair.npu];
    return fmt::format("Line: {}\nSuspect Nodes: {}\nExpert Advice: {}{}{}\n", *row, suspect.name,
                       report::AdviceText(AdviceFor(npu, suspect)), start.empty() ? "" : " ",
                       start);
  }
  const bool compared =
      std::any_of(divergence.rows.begin(), divergence.rows.end(),
                  [](RowStatus standing) { return standing != RowStatus::kNotCompared; });
  if (!compared) {
    return "Line: NA\nSuspect Nodes: NA\nExpert Advice: Nothing was compared: no row has values on "
           "both sides.\n";
  }
  uint64_t red = 0;
  for (size_t i = 0; i < result.rows.size(); ++i) {
    red += ConcernOf(npu, bench, result.rows[i], divergence.rows[i]) == RowConcern::kError ? 1 : 0;
  }
  // Line and suspect are the table's; the Python tool's are NA here, too.
  return fmt::format("Line: NA\nSuspect Nodes: NA\nExpert Advice: {}{}{}\n",
                     red == 0 ? "Every compared row meets its threshold"
                              : fmt::format("No threshold fails, but rows are red ({})", red),
                     start.empty() ? "." : ", yet the runs are not the same. ", start);
}

namespace {

namespace fs = std::filesystem;

// Rows worth showing with --only-diff: whatever disagrees, failed, is coloured, or carries a note.
std::vector<bool> DifferentRows(const ComparedPair& pair) {
  std::vector<bool> keep(pair.result.rows.size());
  for (size_t i = 0; i < keep.size(); ++i) {
    const RowResult& row = pair.result.rows[i];
    const bool passes = row.verdict == Verdict::kYes || row.verdict == Verdict::kPass ||
                        row.verdict == Verdict::kEmpty || row.verdict == Verdict::kNone;
    keep[i] = pair.divergence.rows[i] == RowStatus::kDiffers ||
              pair.divergence.rows[i] == RowStatus::kDrifts || !passes ||
              row.fill != report::Fill::kNone || row.pair.bench == kNoRow;
  }
  return keep;
}

// Names may hold anything: double-quoted YAML with the two characters that matter escaped.
std::string YamlText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + "\"";
}

std::string DataMappingText(const RowMapping& mapping) {
  std::string text;
  for (const auto& [npu_name, bench_name] : mapping.derived_data_mapping) {
    text += fmt::format("{}: {}\n", YamlText(npu_name), YamlText(bench_name));
  }
  return text;
}

fs::path WithEnding(const fs::path& stem, const char* ending) {
  fs::path path = stem;
  path += ending;
  return path;
}

}  // namespace

Result<std::vector<fs::path>> WriteTableFiles(const OutputRules& rules, const report::Table& table,
                                              const fs::path& stem, bool styled_header,
                                              base::ThreadPool& pool) {
  std::vector<fs::path> written;
  if (rules.xlsx) {
    report::XlsxOptions xlsx;
    xlsx.styled_header = styled_header;
    const report::Table* const sheets[] = {&table};
    written.push_back(WithEnding(stem, ".xlsx"));
    MSP_RETURN_IF_ERROR(report::WriteXlsx(written.back(), sheets, xlsx, pool));
  }
  if (rules.csv && rules.csv_parts) {
    MSP_ASSIGN_OR_RETURN(const std::vector<fs::path> parts,
                         report::WriteCsvParts(stem, table, report::kRowsPerCsvPart, &pool));
    written.insert(written.end(), parts.begin(), parts.end());
  } else if (rules.csv) {
    written.push_back(WithEnding(stem, ".csv"));
    MSP_RETURN_IF_ERROR(report::WriteCsv(written.back(), table, &pool));
  }
  if (rules.json) {
    written.push_back(WithEnding(stem, ".jsonl"));
    MSP_RETURN_IF_ERROR(report::WriteJsonLines(written.back(), table, &pool));
  }
  return written;
}

Result<std::vector<fs::path>> WriteResultFiles(const OutputRules& rules, const PlannedPair& plan,
                                               const ComparedPair& pair, const std::string& stamp,
                                               base::ThreadPool& pool) {
  if (pair.result.rows.empty()) {
    return std::vector<fs::path>();
  }
  const fs::path folder = base::Below(rules.folder, plan.result_subfolder);
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  const std::string base_name = !rules.name.empty() ? rules.name
                                : plan.is_debug     ? "debug_compare_result"
                                                    : "compare_result";
  std::vector<bool> keep;
  if (rules.only_different) {
    keep = DifferentRows(pair);
  }
  const report::Table table =
      ResultTableInBlocks(pair.npu, pair.bench, pair.result,
                          pair.show_stack_column && pair.stack ? &*pair.stack : nullptr,
                          rules.only_different ? &keep : nullptr, rules.xlsx);
  MSP_ASSIGN_OR_RETURN(
      std::vector<fs::path> written,
      WriteTableFiles(rules, table,
                      folder / fmt::format("{}{}_{}", base_name, plan.rank_suffix, stamp),
                      /*styled_header=*/false, pool));
  if (!pair.mapping.derived_data_mapping.empty()) {
    written.push_back(folder / fmt::format("data_mapping_{}.yaml", stamp));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(written.back(), DataMappingText(pair.mapping)));
  }
  if (rules.advisor) {
    // Debug saves get a file of their own: both are written within the same second.
    const std::string_view kind = plan.is_debug && !plan.rank_suffix.empty() ? "_debug" : "";
    written.push_back(folder / fmt::format("advisor{}{}_{}.txt", kind, plan.rank_suffix, stamp));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        written.back(), AdvisorText(pair.npu, pair.bench, pair.result, pair.divergence)));
  }
  return written;
}

}  // namespace msprobe::analysis::compare
