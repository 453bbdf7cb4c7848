#include "src/analysis/rl/rl.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/rl/explain.h"
#include "src/analysis/rl/token_numbers.h"
#include "src/analysis/rl/token_tables.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/kernels/element_pairs.h"

namespace msprobe::analysis::rl {
namespace {

// How far two saved arrays are apart.

struct PairMetrics {
  uint64_t element_count = 0;  // of the common part
  bool shapes_differ = false;  // only the common prefix of every axis was compared
  double same_percent = 0;
  std::optional<uint64_t> first_mismatch;  // flat index in the common part
  double max_abs = 0;                      // NaN where --compat lets it become so
  double max_relative = 0;
  double within_thousandth_percent = 0;  // |a-b| <= 0.001 max(|a|, |b|)
  double within_hundredth_percent = 0;
  double mean_abs = 0;           // over elements finite on both sides
  std::optional<double> cosine;  // nothing where one side is zero
  uint64_t first_nan_count = 0;
  uint64_t second_nan_count = 0;
  uint64_t nan_mismatch_count = 0;  // NaN on one side only
};

}  // namespace

bool HasDifferences(const TokenSummary& summary) {
  return summary.numbers.different > 0 ||
         summary.unpaired + summary.other_shape + summary.failed > 0;
}

bool ComparedNothing(const Comparison& comparison) {
  const auto compared = [](const auto& summary) { return summary.compared > 0; };
  return std::none_of(comparison.keys.begin(), comparison.keys.end(), compared) &&
         std::none_of(comparison.tokens.begin(), comparison.tokens.end(), compared);
}

bool HasDifferentKeys(const Comparison& comparison) {
  return std::any_of(comparison.keys.begin(), comparison.keys.end(), [](const KeySummary& key) {
    return key.identical < key.compared || key.only_first + key.only_second + key.failed > 0;
  });
}

bool HasDifferences(const Comparison& comparison) {
  return HasDifferentKeys(comparison) ||
         std::any_of(comparison.tokens.begin(), comparison.tokens.end(),
                     [](const TokenSummary& tokens) { return HasDifferences(tokens); });
}

namespace {

bool IsNarrowFloat(DType dtype) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  return info.kind == DTypeKind::kFloat && info.size_bytes <= sizeof(float);
}

// Sums over all blocks; Value is the type in which elements are subtracted.
template <typename Value>
class Accumulator {
 public:
  explicit Accumulator(bool compat) : compat_(compat) {}

  void Add(double wide_a, double wide_b) {
    const auto a = static_cast<Value>(wide_a);
    const auto b = static_cast<Value>(wide_b);
    const bool a_nan = std::isnan(a);
    const bool b_nan = std::isnan(b);
    metrics_.first_nan_count += a_nan ? 1 : 0;
    metrics_.second_nan_count += b_nan ? 1 : 0;
    metrics_.nan_mismatch_count += a_nan != b_nan ? 1 : 0;
    const bool same = a == b || (!compat_ && a_nan && b_nan);
    if (same) {
      ++same_;
    } else if (!metrics_.first_mismatch) {
      metrics_.first_mismatch = metrics_.element_count;
    }
    ++metrics_.element_count;
    // Equal infinities differ by NaN in the Python tool.
    const Value difference = same && !compat_ ? Value{0} : std::fabs(a - b);
    const Value scale = a_nan || b_nan ? a + b : std::max(std::fabs(a), std::fabs(b));
    if (compat_ || !std::isnan(difference)) {
      const bool stays_nan = std::isnan(metrics_.max_abs) || std::isnan(difference);
      metrics_.max_abs =
          stays_nan ? std::nan("") : std::max(metrics_.max_abs, static_cast<double>(difference));
    }
    const Value relative = difference / scale;
    if (!std::isnan(relative)) {
      metrics_.max_relative = std::max(metrics_.max_relative, static_cast<double>(relative));
    }
    const bool counts = same && !compat_;
    within_thousandth_ += counts || difference <= Value(0.001) * scale ? 1 : 0;
    within_hundredth_ += counts || difference <= Value(0.01) * scale ? 1 : 0;
    if (std::isfinite(wide_a) && std::isfinite(wide_b)) {
      ++finite_;
      absolute_sum_ += std::fabs(wide_a - wide_b);
      dot_ += wide_a * wide_b;
      first_square_sum_ += wide_a * wide_a;
      second_square_sum_ += wide_b * wide_b;
    }
  }

  PairMetrics Finish() {
    const auto percent = [this](uint64_t count) {
      return 100.0 * static_cast<double>(count) / static_cast<double>(metrics_.element_count);
    };
    metrics_.same_percent = percent(same_);
    metrics_.within_thousandth_percent = percent(within_thousandth_);
    metrics_.within_hundredth_percent = percent(within_hundredth_);
    metrics_.mean_abs = finite_ == 0 ? 0 : absolute_sum_ / static_cast<double>(finite_);
    if (first_square_sum_ > 0 && second_square_sum_ > 0) {
      metrics_.cosine = dot_ / std::sqrt(first_square_sum_) / std::sqrt(second_square_sum_);
    }
    return metrics_;
  }

 private:
  const bool compat_;
  PairMetrics metrics_;
  uint64_t same_ = 0;
  uint64_t within_thousandth_ = 0;
  uint64_t within_hundredth_ = 0;
  uint64_t finite_ = 0;
  double absolute_sum_ = 0;
  double dot_ = 0;
  double first_square_sum_ = 0;
  double second_square_sum_ = 0;
};

template <typename Value>
PairMetrics CompareAs(const TensorView& first, const TensorView& second, bool compat) {
  Accumulator<Value> sums(compat);
  kernels::ForEachPair<double>(first, second, [&](double a, double b) { sums.Add(a, b); });
  return sums.Finish();
}

// NaN equals NaN, and a NaN on one side only counts as different without spoiling the maxima; with
// `compat` NaN equals nothing and is the largest error, as in the Python tool. Floats of up to 32
// bits are subtracted as float32, everything else as float64. An error when the numbers of axes
// differ or there is nothing to compare.
Result<PairMetrics> ComparePair(const TensorView& first, const TensorView& second, bool compat) {
  MSP_ASSIGN_OR_RETURN(const Shape common, CommonShape(first.shape, second.shape));
  const TensorView a = Crop(first, common);
  const TensorView b = Crop(second, common);
  PairMetrics metrics = IsNarrowFloat(first.dtype) && IsNarrowFloat(second.dtype)
                            ? CompareAs<float>(a, b, compat)
                            : CompareAs<double>(a, b, compat);
  metrics.shapes_differ = first.shape != second.shape;
  return metrics;
}

namespace fs = std::filesystem;
using report::Cell;

// Behind those of the location. The first eight are the Python tool's.
constexpr size_t kCompatColumns = 8;
constexpr std::array<ColumnName, 14> kColumns = {{
    {"shape1", "shape1"},
    {"shape2", "shape2"},
    {"相同元素百分比(%)", "same elements (%)"},
    {"首个不匹配元素索引", "first mismatch"},
    {"最大绝对误差", "max absolute error"},
    {"最大相对误差", "max relative error"},
    {"误差在千分之一内元素占比(%)", "within 1/1000 (%)"},
    {"误差在百分之一内元素占比(%)", "within 1/100 (%)"},
    {"平均绝对误差", "mean absolute error"},
    {"余弦相似度", "cosine"},
    {"NaN个数1", "NaN count 1"},
    {"NaN个数2", "NaN count 2"},
    {"仅一侧为NaN的个数", "NaN on one side"},
    kNoteColumn,
}};

struct Row {
  FilePair files;
  std::string first_shape;
  std::string second_shape;
  std::optional<PairMetrics> metrics;
  std::string error;
};

struct KeyRows {
  std::string key;
  std::vector<Row> rows;
};

// The Python tool knows members by number only: those of a dict are all number 0, of which the last
// one counts.
LocatedFiles WithNumbersOnly(const LocatedFiles& files) {
  LocatedFiles numbered;
  for (const auto& [location, path] : files) {
    ArrayLocation numbered_location = location;
    const std::optional<int64_t> number =
        location.member.find_first_not_of("0123456789") == std::string::npos
            ? base::ParseInt(location.member)
            : std::nullopt;
    numbered_location.member = std::to_string(number.value_or(0));
    numbered.insert_or_assign(std::move(numbered_location), path);
  }
  return numbered;
}

std::vector<KeyRows> PairUp(const SavedData& first, const SavedData& second, bool compat) {
  std::set<std::string> keys;
  for (const auto* side : {&first, &second}) {
    for (const auto& [key, files] : side->keys) {
      keys.insert(key);
    }
  }
  std::vector<KeyRows> all;
  for (const std::string& key : keys) {
    const auto files_of = [&](const SavedData& side) {
      const auto found = side.keys.find(key);
      const LocatedFiles files = found == side.keys.end() ? LocatedFiles() : found->second;
      return compat ? WithNumbersOnly(files) : files;
    };
    KeyRows& out = all.emplace_back();
    out.key = key;
    for (FilePair& pair : PairFiles(files_of(first), files_of(second))) {
      if (!compat || (pair.first && pair.second)) {
        out.rows.emplace_back().files = std::move(pair);
      }
    }
  }
  return all;
}

Status CompareRow(Row& row, bool compat, std::array<std::vector<std::byte>, 2>& scratch) {
  const std::optional<fs::path>* const paths[] = {&row.files.first, &row.files.second};
  std::string* const shapes[] = {&row.first_shape, &row.second_shape};
  std::optional<OpenArray> arrays[2];
  for (size_t i = 0; i < 2; ++i) {
    if (paths[i]->has_value()) {
      MSP_ASSIGN_OR_RETURN(arrays[i], OpenSavedArray(**paths[i], scratch[i]));
      *shapes[i] = ShapeText(arrays[i]->view.shape);
    }
  }
  if (arrays[0] && arrays[1]) {
    MSP_ASSIGN_OR_RETURN(row.metrics, ComparePair(arrays[0]->view, arrays[1]->view, compat));
  }
  return {};
}

std::string NoteOf(const Row& row, Language language) {
  if (!row.error.empty()) {
    return row.error;
  }
  if (!row.metrics) {
    return std::string(PartnerNote(row.files, language));
  }
  return row.metrics->shapes_differ ? std::string(ShapesNote(language)) : "";
}

report::Table MakeTable(const KeyRows& key, const Options& options) {
  const size_t column_count = options.compat ? kCompatColumns : kColumns.size();
  report::Table table("Sheet1", NamesOf(std::span(kColumns).first(column_count), options.language));
  for (const Row& row : key.rows) {
    if (options.compat && !row.metrics) {
      continue;
    }
    std::vector<Cell> cells = LocationCells(table, row.files.location);
    cells.push_back(table.KeepText(row.first_shape));
    cells.push_back(table.KeepText(row.second_shape));
    if (row.metrics) {
      const PairMetrics& metrics = *row.metrics;
      cells.insert(cells.end(),
                   {NumberCell(metrics.same_percent),
                    metrics.first_mismatch ? CountCell(*metrics.first_mismatch) : Cell(),
                    NumberCell(metrics.max_abs), NumberCell(metrics.max_relative),
                    NumberCell(metrics.within_thousandth_percent),
                    NumberCell(metrics.within_hundredth_percent), NumberCell(metrics.mean_abs),
                    metrics.cosine ? NumberCell(*metrics.cosine) : Cell(),
                    CountCell(metrics.first_nan_count), CountCell(metrics.second_nan_count),
                    CountCell(metrics.nan_mismatch_count)});
    }
    cells.resize(kLocationColumns + kColumns.size() - 1);
    cells.push_back(NoteCell(table, NoteOf(row, options.language)));
    cells.resize(kLocationColumns + column_count);
    table.AddRow(cells);
  }
  return table;
}

KeySummary Summarize(const KeyRows& key) {
  KeySummary summary;
  summary.key = key.key;
  for (const Row& row : key.rows) {
    if (!row.error.empty()) {
      ++summary.failed;
    } else if (!row.metrics) {
      ++(row.files.first ? summary.only_first : summary.only_second);
    } else {
      const PairMetrics& metrics = *row.metrics;
      ++summary.compared;
      summary.identical += !metrics.first_mismatch && !metrics.shapes_differ ? 1 : 0;
      summary.other_shape += metrics.shapes_differ ? 1 : 0;
      summary.nan_mismatches += metrics.nan_mismatch_count;
      if (metrics.max_abs > summary.max_abs) {
        summary.max_abs = metrics.max_abs;
        summary.worst = LocationText(row.files.location);
      }
    }
  }
  return summary;
}

Status AddTokens(const TokenKey& key, const Options& options, const SavedData& first,
                 const SavedData& second, base::ThreadPool& pool, Comparison& comparison) {
  const TokenComparison tokens =
      CompareTokenKey(key, options.tokens, first, second, pool, options.quiet);
  const auto write = [&](const report::Table& table, std::string_view ending) {
    return WriteTable(table, options.output / (key.first + std::string(ending)), options.formats,
                      false, pool, comparison.files);
  };
  MSP_RETURN_IF_ERROR(write(WorstTokensTable(tokens, options.language), kTokensEnding));
  MSP_RETURN_IF_ERROR(write(TokenStepsTable(tokens, options.language), kTokenStepsEnding));
  const std::vector<std::string> warnings = WarningsOf(tokens);
  comparison.warnings.insert(comparison.warnings.end(), warnings.begin(), warnings.end());
  comparison.tokens.push_back(Summarize(tokens));
  return {};
}

// Before anything is compared: none of the results is there yet, or --force is given.
Status CheckFiles(const Options& options, const std::vector<KeyRows>& keys) {
  std::vector<std::string> stems;
  for (const KeyRows& key : keys) {
    stems.push_back(key.key);
  }
  for (const TokenKey& key : options.tokens.keys) {
    stems.push_back(key.first + std::string(kTokensEnding));
    stems.push_back(key.first + std::string(kTokenStepsEnding));
  }
  for (const std::string& stem : stems) {
    for (const FileFormat format : options.formats) {
      MSP_RETURN_IF_ERROR(
          base::CheckOutputFile(options.output / (stem + std::string(EndingOf(format)))));
    }
  }
  return {};
}

// A name that the run lacks may be that of a framework.
void UseOurKey(const SavedData& run, std::string& key) {
  const std::string ours(OurNameOfKey(key));
  if (run.keys.count(key) == 0 && run.keys.count(ours) > 0) {
    key = ours;
  }
}

// Samples have other lengths: without the mask, pads would be compared.
void UseOurKeys(const SavedData& run, TokenOptions& tokens) {
  for (const auto& [key, ours] :
       {std::pair(&tokens.mask, kMaskKey), std::pair(&tokens.ids, kIdsKey)}) {
    if (key->empty() && run.keys.count(std::string(ours)) > 0) {
      *key = ours;
    }
    UseOurKey(run, *key);
  }
}

}  // namespace

Result<Comparison> Run(const Options& given) {
  Options options = given;
  Comparison comparison;
  ConvertedRuns converted;
  MSP_RETURN_IF_ERROR(converted.Convert(options.first, options.second, comparison.warnings));
  MSP_ASSIGN_OR_RETURN(SavedData first, FindSavedData(options.first));
  MSP_ASSIGN_OR_RETURN(SavedData second, FindSavedData(options.second));
  if (!IsSavedBySingleSave(given.first)) {
    UseOurKeys(first, options.tokens);
  }
  for (TokenKey& key : options.tokens.keys) {
    UseOurKey(first, key.first);
    UseOurKey(second, key.second);
  }
  MSP_RETURN_IF_ERROR(CheckTokenKeys(options.tokens, first, second));
  for (const SavedData* run : {&first, &second}) {
    comparison.warnings.insert(comparison.warnings.end(), run->warnings.begin(),
                               run->warnings.end());
  }
  std::vector<KeyRows> keys = PairUp(first, second, options.compat);
  std::vector<Row*> rows;
  for (KeyRows& key : keys) {
    for (Row& row : key.rows) {
      rows.push_back(&row);
    }
  }
  MSP_RETURN_IF_ERROR(CheckFiles(options, keys));
  base::ThreadPool pool(options.threads);
  std::vector<std::array<std::vector<std::byte>, 2>> scratch(pool.thread_count());
  {
    base::Progress progress("comparing", rows.size(), "arrays", options.quiet);
    pool.ParallelFor(rows.size(), [&](size_t index, size_t worker) {
      Row& row = *rows[index];
      const Status status = CompareRow(row, options.compat, scratch[worker]);
      if (!status.ok()) {
        row.error = status.message();
      }
      progress.Add();
    });
  }
  MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
  for (const KeyRows& key : keys) {
    for (const Row& row : key.rows) {
      if (!row.error.empty()) {
        comparison.warnings.push_back(fmt::format("{}: {}: {}", base::Printable(key.key),
                                                  LocationText(row.files.location), row.error));
      }
    }
    comparison.keys.push_back(Summarize(key));
    MSP_RETURN_IF_ERROR(WriteTable(MakeTable(key, options), options.output / key.key,
                                   options.formats, options.compat, pool, comparison.files));
  }
  for (const TokenKey& key : options.tokens.keys) {
    MSP_RETURN_IF_ERROR(AddTokens(key, options, first, second, pool, comparison));
    if (options.tokens.explain) {
      MSP_ASSIGN_OR_RETURN(const GapTokens tokens,
                           LoadGapTokens(key, options.tokens, first, second, pool));
      comparison.warnings.insert(comparison.warnings.end(), tokens.warnings.begin(),
                                 tokens.warnings.end());
      comparison.explanations.push_back(ExplainGap(key, tokens));
    }
  }
  return comparison;
}

namespace {

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

bool Differs(const KeySummary& key) {
  return key.identical < key.compared || key.only_first + key.only_second + key.failed > 0;
}

// "2 of 5 keys: log_prob, pair".
std::string DifferentKeys(const Comparison& comparison) {
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> names;
  for (const KeySummary& key : comparison.keys) {
    if (Differs(key)) {
      names.push_back(base::Printable(key.key));
    }
  }
  const size_t named = std::min(names.size(), kMostNamed);
  return fmt::format(
      "{} of {}: {}{}", FormatCount(names.size()), Plural(comparison.keys.size(), "key"),
      base::Join(std::span(names).first(named), ", "), named < names.size() ? ", ..." : "");
}

report::Verdict MakeVerdict(const Comparison& comparison) {
  report::Verdict verdict;
  verdict.unit = "keys";
  if (ComparedNothing(comparison)) {
    verdict.Say("NOTHING COMPARED", "no array has a partner", Tone::kBad,
                AnswerOutcome::kNothingCompared);
  } else if (HasDifferences(comparison)) {
    verdict.Say("DIFFERENT",
                HasDifferentKeys(comparison) ? DifferentKeys(comparison) : "see the tokens below",
                Tone::kBad, AnswerOutcome::kFindings);
  } else {
    verdict.Say("IDENTICAL", fmt::format("all {}", Plural(comparison.keys.size(), "key")),
                Tone::kGood);
  }
  verdict.number =
      static_cast<double>(std::count_if(comparison.keys.begin(), comparison.keys.end(), Differs));
  return verdict;
}

// Column Shape counts pairs of other shapes, NaN elements that are NaN on one side only.
Section KeysSection(const Comparison& comparison) {
  report::Table table("keys", {"Key", "Pairs", "Same", "Only test", "Only reference", "Shape",
                               "Failed", "NaN", "Max error", "Where"});
  const auto count = [](uint64_t value) { return Cell::Integer(static_cast<int64_t>(value)); };
  for (const KeySummary& key : comparison.keys) {
    table.AddRow({table.KeepText(base::Printable(key.key)), count(key.compared),
                  count(key.identical), count(key.only_first), count(key.only_second),
                  count(key.other_shape), count(key.failed), count(key.nan_mismatches),
                  Cell::Number(key.max_abs), table.KeepText(key.worst)});
  }
  return report::MakeSection("", report::DataTable{std::move(table)});
}

Section TokensSection(const TokenSummary& summary) {
  const TokenNumbers& numbers = summary.numbers;
  std::string text =
      fmt::format("tokens of {} (test) and {} (reference): {} compared", summary.key.first,
                  summary.key.second, Plural(numbers.tokens, "token"));
  const auto tell = [&](uint64_t count, const std::string& words) {
    text += count > 0 ? ", " + words : std::string();
  };
  tell(numbers.masked, FormatCount(numbers.masked) + " masked");
  tell(summary.unpaired, Plural(summary.unpaired, "array") + " without a partner");
  tell(summary.other_shape, Plural(summary.other_shape, "pair") + " of other shapes");
  tell(summary.failed, Plural(summary.failed, "pair") + " failed");
  List list{ListKind::kNamed, {}};
  if (numbers.tokens > 0) {
    std::string difference =
        fmt::format("max {:.6g}, mean {:.6g}, std {:.6g}", numbers.max_difference,
                    numbers.difference.mean(), numbers.difference.standard_deviation());
    if (numbers.log_difference.count() > 0) {
      difference += fmt::format("; mean of the logarithms, test - reference: {:.6g}",
                                numbers.log_difference.mean());
    }
    list.items.push_back(
        {"probability difference", std::move(difference), Tone::kPlain, numbers.max_difference});
  }
  if (!summary.worst_token.empty()) {
    list.items.push_back({"worst token", summary.worst_token});
  }
  if (!summary.largest_mean.empty()) {
    list.items.push_back({"largest mean", fmt::format("{}; smallest: {}", summary.largest_mean,
                                                      summary.smallest_mean)});
  }
  return report::MakeSection(std::move(text), std::move(list));
}

constexpr double kLeastShownShare = 0.005;
constexpr double kLeastAdvisedShare = 0.1;

// Where the gap comes from, the largest share first.
Section CausesSection(const Explanation& explanation, bool is_only) {
  report::Table table("causes", {"cause", "share", "tokens", "steps", "text"});
  for (const Cause& cause : explanation.causes) {
    table.AddRow({table.KeepText(cause.name), Cell::Number(cause.share),
                  Cell::Integer(static_cast<int64_t>(cause.tokens)), table.KeepText(cause.steps),
                  table.KeepText(cause.text)});
  }
  List list{ListKind::kNamed, {}};
  for (const Cause& cause : explanation.causes) {
    if (cause.share >= kLeastShownShare) {
      const bool is_fault = cause.name != "noise" && cause.name != "unexplained";
      list.items.push_back({cause.name,
                            fmt::format("{:.0f} % of the gap, steps {}: {}", 100 * cause.share,
                                        cause.steps, cause.text),
                            is_fault ? Tone::kBad : Tone::kPlain, cause.share});
    }
  }
  if (explanation.causes.empty()) {
    list.items.push_back({"gap", "there is none"});
  } else {
    list.items.insert(list.items.begin(),
                      {"gap", fmt::format("{:.3g} per token, the mean absolute difference of {}",
                                          explanation.gap, Plural(explanation.tokens, "token"))});
  }
  Section section = report::MakeSection(
      is_only ? std::string("Causes")
              : fmt::format("Causes of {}={}", explanation.key.first, explanation.key.second),
      std::move(list));
  report::DataTable data{std::move(table)};
  data.display_limit.items = 0;  // the list says the same to people
  section.blocks.emplace_back(std::move(data));
  return section;
}

// A case per key, and one per key whose tokens were compared.
std::vector<report::TestCase> CasesOf(const Comparison& comparison) {
  std::vector<report::TestCase> cases;
  const auto add = [&](std::string name, bool differs, std::string message) {
    report::TestCase& test = cases.emplace_back();
    test.name = std::move(name);
    if (differs) {
      test.Fail("different", "different", std::move(message));
    }
  };
  for (const KeySummary& key : comparison.keys) {
    add(key.key, Differs(key),
        fmt::format("{} of {} differ, {} without a partner, {} failed; max error {:.6g}{}{}",
                    key.compared - key.identical, Plural(key.compared, "pair"),
                    key.only_first + key.only_second, key.failed, key.max_abs,
                    key.worst.empty() ? "" : " at ", key.worst));
  }
  for (const TokenSummary& tokens : comparison.tokens) {
    add(fmt::format("tokens of {}", tokens.key.first), HasDifferences(tokens),
        fmt::format("{} of {} differ; worst token: {}", tokens.numbers.different,
                    Plural(tokens.numbers.tokens, "token"), tokens.worst_token));
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Comparison& comparison) {
  report::Document document;
  document.command = "rl_compare";
  document.verdict = MakeVerdict(comparison);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "different", HasDifferences(comparison));
  document.cases = CasesOf(comparison);
  for (const Explanation& explanation : comparison.explanations) {
    document.sections.push_back(
        CausesSection(explanation, &explanation == &comparison.explanations.front()));
  }
  document.sections.push_back(KeysSection(comparison));
  for (const TokenSummary& tokens : comparison.tokens) {
    document.sections.push_back(TokensSection(tokens));
  }
  for (const Explanation& explanation : comparison.explanations) {
    for (const Cause& cause : explanation.causes) {
      if (cause.share >= kLeastAdvisedShare && cause.name != "noise") {
        document.Advise(report::Advice(fmt::format("rl_compare.{}", cause.name)));
      }
    }
  }
  document.AddFiles(comparison.files);
  document.warnings = comparison.warnings;
  return document;
}

}  // namespace msprobe::analysis::rl
