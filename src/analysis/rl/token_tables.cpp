#include "src/analysis/rl/token_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/rl/token_numbers.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/kernels/element_pairs.h"
#include "src/report/writers.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".npy";

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int64_t> NumberBehind(std::string_view name, std::string_view word) {
  return name.starts_with(word) && IsDigits(name.substr(word.size()))
             ? base::ParseInt(name.substr(word.size()))
             : std::nullopt;
}

bool IsFolder(const fs::path& path) { return base::IsFolder(path); }

class Finder {
 public:
  Result<SavedData> Run(const fs::path& folder) {
    const fs::path data = folder / "data";
    if (!IsFolder(data)) {
      return NotFoundError(fmt::format("{} holds no folder \"data\"", folder.string()))
          .WithHint("name the folder that was given to SingleSave");
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> keys, base::ListFolder(data));
    for (const std::string& key : keys) {
      if (!IsFolder(data / key)) {
        continue;
      }
      key_ = key;
      found_.keys[key];  // also where it holds nothing
      MSP_RETURN_IF_ERROR(
          Numbered(data / key, "step", [this](const fs::path& step, int64_t number) {
            location_.step = number;
            return Numbered(step, "rank", [this](const fs::path& rank, int64_t rank_number) {
              location_.rank = rank_number;
              return Rank(rank);
            });
          }));
    }
    return std::move(found_);
  }

 private:
  // Calls visit(path, number) for every folder <word><number>; others are reported.
  template <typename Visit>
  Status Numbered(const fs::path& folder, std::string_view word, const Visit& visit) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    for (const std::string& name : names) {
      const fs::path path = folder / name;
      if (!IsFolder(path)) {
        continue;
      }
      const std::optional<int64_t> number = NumberBehind(name, word);
      if (!number) {
        found_.warnings.push_back(
            fmt::format("{} is left out: its name is not {}<number>", path.string(), word));
        continue;
      }
      MSP_RETURN_IF_ERROR(visit(path, *number));
    }
    return {};
  }

  Status Rank(const fs::path& folder) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    bool has_micro_steps = false;
    for (const std::string& name : names) {
      const std::optional<int64_t> number = NumberBehind(name, "micro_step");
      if (number && IsFolder(folder / name)) {
        has_micro_steps = true;
        location_.micro_step = *number;
        MSP_RETURN_IF_ERROR(Files(folder / name));
      }
    }
    location_.micro_step = 0;
    return has_micro_steps ? Status() : Files(folder);
  }

  Status Files(const fs::path& folder) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    for (const std::string& name : names) {
      if (!name.ends_with(kEnding)) {
        continue;
      }
      const std::string stem = name.substr(0, name.size() - kEnding.size());
      const std::string prefix = key_ + ".";
      location_.member = stem == key_               ? std::string()
                         : stem.starts_with(prefix) ? stem.substr(prefix.size())
                                                    : stem;
      found_.keys[key_].insert_or_assign(location_, folder / name);
    }
    return {};
  }

  SavedData found_;
  std::string key_;
  ArrayLocation location_;
};

}  // namespace

std::strong_ordering ArrayLocation::operator<=>(const ArrayLocation& other) const {
  if (const auto order =
          std::tie(step, rank, micro_step) <=> std::tie(other.step, other.rank, other.micro_step);
      std::is_neq(order)) {
    return order;
  }
  if (IsDigits(member) && IsDigits(other.member) && member.size() != other.member.size()) {
    return member.size() <=> other.member.size();
  }
  return member <=> other.member;
}

Result<SavedData> FindSavedData(const fs::path& folder) { return Finder().Run(folder); }

std::vector<FilePair> PairFiles(const LocatedFiles& first, const LocatedFiles& second) {
  std::map<ArrayLocation, FilePair> paired;
  for (const auto& [location, path] : first) {
    paired[location].first = path;
  }
  for (const auto& [location, path] : second) {
    paired[location].second = path;
  }
  std::vector<FilePair> pairs;
  pairs.reserve(paired.size());
  for (auto& [location, pair] : paired) {
    pair.location = location;
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

std::string LocationText(const ArrayLocation& location) {
  return fmt::format("step {}, rank {}, micro step {}{}", location.step, location.rank,
                     location.micro_step,
                     location.member.empty() ? "" : ", " + base::Printable(location.member));
}

const fs::path* FindBeside(const LocatedFiles& files, const ArrayLocation& location) {
  auto found = files.find(location);
  if (found == files.end()) {
    ArrayLocation alone = location;
    alone.member.clear();
    found = files.find(alone);
  }
  return found == files.end() ? nullptr : &found->second;
}

namespace {

// For the first array, the second one and the mask.
using Scratch = std::array<std::vector<std::byte>, 3>;

Status ComparePair(TokenPair& pair, size_t index, const TokenOptions& options,
                   const SavedData& first, Scratch& scratch, WorstTokens& worst) {
  std::optional<OpenArray> a;
  std::optional<OpenArray> b;
  if (pair.files.first) {
    MSP_ASSIGN_OR_RETURN(a, OpenSavedArray(*pair.files.first, scratch[0]));
    pair.first_shape = a->view.shape;
  }
  if (pair.files.second) {
    MSP_ASSIGN_OR_RETURN(b, OpenSavedArray(*pair.files.second, scratch[1]));
    pair.second_shape = b->view.shape;
  }
  if (!a || !b) {
    return {};
  }
  std::optional<OpenArray> mask;
  if (!options.mask.empty()) {
    const fs::path* path = FindBeside(first.keys.at(options.mask), pair.files.location);
    if (path == nullptr) {
      return NotFoundError(fmt::format("no mask: {} is not stored there", options.mask));
    }
    MSP_ASSIGN_OR_RETURN(mask, OpenSavedArray(*path, scratch[2]));
  }
  MSP_ASSIGN_OR_RETURN(pair.numbers,
                       CompareTokens(a->view, b->view, mask ? &mask->view : nullptr, index, worst));
  return {};
}

// Ids of the worst tokens of `pair`.
Status ReadIds(const TokenPair& pair, std::span<const size_t> tokens, const fs::path* path,
               TokenComparison& comparison, std::vector<std::byte>& scratch) {
  if (path == nullptr) {
    return NotFoundError("nothing is stored there");
  }
  MSP_ASSIGN_OR_RETURN(const OpenArray ids, OpenSavedArray(*path, scratch));
  const Shape& shape = *pair.first_shape;
  if (ids.view.shape != shape) {
    return MismatchError(fmt::format("shape {}, the log-probabilities have {}",
                                     ShapeText(ids.view.shape), ShapeText(shape)));
  }
  kernels::NumberReader<double> reader(ids.view);
  for (const size_t token : tokens) {
    const WorstToken& worst = comparison.worst[token];
    const int64_t length = shape.empty() ? 1 : shape.back();
    comparison.ids[token] =
        reader.Read(static_cast<size_t>(worst.sequence * length + worst.position), 1)[0];
  }
  return {};
}

void ReadAllIds(const std::string& key, const LocatedFiles& files, TokenComparison& comparison) {
  comparison.ids.resize(comparison.worst.size());
  std::map<size_t, std::vector<size_t>> tokens_of_pair;
  for (size_t token = 0; token < comparison.worst.size(); ++token) {
    tokens_of_pair[comparison.worst[token].pair].push_back(token);
  }
  std::vector<std::byte> scratch;
  for (const auto& [index, tokens] : tokens_of_pair) {
    const TokenPair& pair = comparison.pairs[index];
    const Status status =
        ReadIds(pair, tokens, FindBeside(files, pair.files.location), comparison, scratch);
    if (!status.ok() && comparison.ids_problem.empty()) {
      comparison.ids_problem = fmt::format("no ids of {} at {}: {}", base::Printable(key),
                                           LocationText(pair.files.location), status.message());
    }
  }
}

std::string WorstTokenText(const TokenComparison& comparison) {
  if (comparison.worst.empty()) {
    return {};
  }
  const WorstToken& worst = comparison.worst.front();
  const bool has_id = !comparison.ids.empty() && comparison.ids.front().has_value();
  return fmt::format("{}, sequence {}, position {}{}: {:.6g} and {:.6g}",
                     LocationText(comparison.pairs[worst.pair].files.location), worst.sequence,
                     worst.position,
                     has_id ? fmt::format(", token {}", *comparison.ids.front()) : "",
                     std::exp(worst.first), std::exp(worst.second));
}

std::string MeanText(const TokenPair* pair) {
  return pair == nullptr ? std::string()
                         : fmt::format("{:.6g} at {}", pair->numbers->difference.mean(),
                                       LocationText(pair->files.location));
}

Status CheckKey(const SavedData& run, const std::string& key, std::string_view side) {
  if (run.keys.count(key) != 0) {
    return {};
  }
  std::vector<std::string> known;
  for (const auto& [name, files] : run.keys) {
    known.push_back(base::Printable(name));
  }
  const std::optional<std::string> nearest = base::NearestMatch(key, known);
  return UsageError(fmt::format("the {} run holds no key {}", side, base::Printable(key)))
      .WithHint(nearest.has_value() ? fmt::format("did you mean {}?", *nearest)
                                    : "its keys: " + base::Join(known, ", "));
}

}  // namespace

Status CheckTokenKeys(const TokenOptions& options, const SavedData& first,
                      const SavedData& second) {
  std::set<std::string> names;
  for (const TokenKey& key : options.keys) {
    MSP_RETURN_IF_ERROR(CheckKey(first, key.first, "test"));
    MSP_RETURN_IF_ERROR(CheckKey(second, key.second, "reference"));
    if (!names.insert(key.first).second) {
      return UsageError(
                 fmt::format(
                     "the tokens of {} are requested twice: the tables would have the same name",
                     base::Printable(key.first)))
          .WithHint("compare with one partner at a time, each with an --output_path of its own");
    }
    for (const std::string_view ending : {kTokensEnding, kTokenStepsEnding}) {
      const std::string table = key.first + std::string(ending);
      if (first.keys.count(table) + second.keys.count(table) > 0) {
        return UsageError(fmt::format("the table of tokens would have the name of the key {}",
                                      base::Printable(table)));
      }
    }
  }
  for (const std::string& key : {options.mask, options.ids}) {
    if (!key.empty()) {
      MSP_RETURN_IF_ERROR(CheckKey(first, key, "first"));
    }
  }
  return {};
}

TokenComparison CompareTokenKey(const TokenKey& key, const TokenOptions& options,
                                const SavedData& first, const SavedData& second,
                                base::ThreadPool& pool, bool quiet) {
  TokenComparison comparison;
  comparison.key = key;
  for (FilePair& files : PairFiles(first.keys.at(key.first), second.keys.at(key.second))) {
    comparison.pairs.emplace_back().files = std::move(files);
  }
  std::vector<Scratch> scratch(pool.thread_count());
  std::vector<WorstTokens> worst(pool.thread_count(), WorstTokens(options.worst));
  {
    base::Progress progress("comparing tokens", comparison.pairs.size(), "arrays", quiet);
    pool.ParallelFor(comparison.pairs.size(), [&](size_t index, size_t worker) {
      TokenPair& pair = comparison.pairs[index];
      const Status status =
          ComparePair(pair, index, options, first, scratch[worker], worst[worker]);
      if (!status.ok()) {
        pair.error = status.message();
      }
      progress.Add();
    });
  }
  for (const TokenPair& pair : comparison.pairs) {
    if (pair.numbers) {
      comparison.all.Add(*pair.numbers);
    }
  }
  for (size_t worker = 1; worker < worst.size(); ++worker) {
    worst[0].Add(worst[worker]);
  }
  comparison.worst = worst[0].Sorted();
  if (!options.ids.empty()) {
    ReadAllIds(options.ids, first.keys.at(options.ids), comparison);
  }
  return comparison;
}

TokenSummary Summarize(const TokenComparison& comparison) {
  TokenSummary summary;
  summary.key = comparison.key;
  summary.numbers = comparison.all;
  const TokenPair* largest = nullptr;
  const TokenPair* smallest = nullptr;
  const auto mean_of = [](const TokenPair* pair) { return pair->numbers->difference.mean(); };
  for (const TokenPair& pair : comparison.pairs) {
    summary.failed += pair.error.empty() ? 0 : 1;
    if (!pair.numbers) {
      summary.unpaired += pair.error.empty() ? 1 : 0;
      continue;
    }
    ++summary.compared;
    summary.other_shape += pair.first_shape != pair.second_shape ? 1 : 0;
    if (pair.numbers->tokens > 0) {
      largest = largest == nullptr || mean_of(&pair) > mean_of(largest) ? &pair : largest;
      smallest = smallest == nullptr || mean_of(&pair) < mean_of(smallest) ? &pair : smallest;
    }
  }
  summary.worst_token = WorstTokenText(comparison);
  if (largest != smallest) {
    summary.largest_mean = MeanText(largest);
    summary.smallest_mean = MeanText(smallest);
  }
  return summary;
}

std::vector<std::string> WarningsOf(const TokenComparison& comparison) {
  std::vector<std::string> warnings;
  const auto warn = [&](std::string_view text) {
    warnings.push_back(
        fmt::format("tokens of {}: {}", base::Printable(comparison.key.first), text));
  };
  for (const TokenPair& pair : comparison.pairs) {
    if (!pair.error.empty()) {
      warn(fmt::format("{}: {}", LocationText(pair.files.location), pair.error));
    }
  }
  const auto tell = [&](uint64_t OddValues::*count, std::string_view consequence) {
    const uint64_t first = comparison.all.first.*count;
    const uint64_t second = comparison.all.second.*count;
    if (first + second > 0) {
      warn(fmt::format("{} of the test and {} of the reference are {}", base::FormatCount(first),
                       base::FormatCount(second), consequence));
    }
  };
  tell(&OddValues::nan, "NaN: left out");
  tell(&OddValues::minus_infinity, "-inf: probability 0, left out of the mean of test - reference");
  tell(&OddValues::too_large,
       "above 0, which no log-probability is: left out; was another key meant?");
  if (!comparison.ids_problem.empty()) {
    warn(comparison.ids_problem);
  }
  return warnings;
}

using report::Cell;

std::vector<std::string> NamesOf(std::span<const ColumnName> columns, Language language) {
  std::vector<std::string> names = {"step", "rank", "micro_step", "id"};
  for (const ColumnName& column : columns) {
    names.emplace_back(language == Language::kChinese ? column.chinese : column.english);
  }
  return names;
}

std::vector<Cell> LocationCells(report::Table& table, const ArrayLocation& location) {
  const bool is_number = location.member.find_first_not_of("0123456789") == std::string::npos;
  return {Cell::Integer(location.step), Cell::Integer(location.rank),
          Cell::Integer(location.micro_step),
          is_number ? Cell::Integer(base::ParseInt(location.member).value_or(0))
                    : table.KeepText(location.member)};
}

Cell CountCell(uint64_t count) { return Cell::Integer(static_cast<int64_t>(count)); }

Cell NumberCell(double value) { return std::isfinite(value) ? Cell::Number(value) : Cell(); }

Cell NoteCell(report::Table& table, std::string_view note) {
  return note.empty() ? Cell() : table.KeepText(note);
}

std::string_view PartnerNote(const FilePair& files, Language language) {
  const bool chinese = language == Language::kChinese;
  return files.first ? (chinese ? "仅存在于第一次运行" : "only in the first run")
                     : (chinese ? "仅存在于第二次运行" : "only in the second run");
}

std::string_view ShapesNote(Language language) {
  return language == Language::kChinese ? "形状不同，仅比较公共部分"
                                        : "shapes differ: only the common part is compared";
}

std::string_view EndingOf(FileFormat format) {
  return format == FileFormat::kXlsx ? ".xlsx" : format == FileFormat::kCsv ? ".csv" : ".jsonl";
}

Status WriteTable(const report::Table& table, const std::filesystem::path& stem,
                  std::span<const FileFormat> formats, bool plain, base::ThreadPool& pool,
                  std::vector<std::filesystem::path>& files) {
  for (const FileFormat format : formats) {
    std::filesystem::path path = stem;
    path += EndingOf(format);
    switch (format) {
      case FileFormat::kXlsx: {
        report::XlsxOptions xlsx;
        xlsx.freeze_header = xlsx.autofilter = !plain;
        xlsx.styled_header = true;
        const report::Table* const sheets[] = {&table};
        MSP_RETURN_IF_ERROR(report::WriteXlsx(path, sheets, xlsx, pool));
        break;
      }
      case FileFormat::kCsv:
        MSP_RETURN_IF_ERROR(report::WriteCsv(path, table));
        break;
      case FileFormat::kJson:
        MSP_RETURN_IF_ERROR(report::WriteJsonLines(path, table));
        break;
    }
    files.push_back(path);
  }
  return {};
}

namespace {

constexpr std::array<ColumnName, 8> kWorstColumns = {{
    {"序列", "sequence"},
    {"位置", "position"},
    {"对数概率1", "log probability 1"},
    {"对数概率2", "log probability 2"},
    {"概率1", "probability 1"},
    {"概率2", "probability 2"},
    {"概率差", "probability difference"},
    {"词元", "token"},  // only where ids are wanted
}};

constexpr std::array<ColumnName, 15> kStepColumns = {{
    {"shape1", "shape1"},
    {"shape2", "shape2"},
    {"词元数", "tokens"},
    {"掩码词元数", "masked tokens"},
    {"最大概率差", "max probability difference"},
    {"平均概率差", "mean probability difference"},
    {"概率差标准差", "std of probability difference"},
    {"平均对数概率差(1-2)", "mean log probability difference (1-2)"},
    {"NaN个数1", "NaN count 1"},
    {"NaN个数2", "NaN count 2"},
    {"负无穷个数1", "minus infinity count 1"},
    {"负无穷个数2", "minus infinity count 2"},
    {"大于0个数1", "above 0 count 1"},
    {"大于0个数2", "above 0 count 2"},
    kNoteColumn,
}};

constexpr double kMostExactIntegers = 9007199254740992;  // 2^53

Cell IdCell(const std::optional<double>& id) {
  if (!id || !std::isfinite(*id)) {
    return {};
  }
  return std::fabs(*id) <= kMostExactIntegers && std::trunc(*id) == *id
             ? Cell::Integer(static_cast<int64_t>(*id))
             : Cell::Number(*id);
}

std::string TokenNote(const TokenPair& pair, Language language) {
  const bool chinese = language == Language::kChinese;
  if (!pair.error.empty()) {
    return pair.error;
  }
  if (!pair.numbers) {
    return std::string(PartnerNote(pair.files, language));
  }
  if (pair.first_shape != pair.second_shape) {
    return std::string(ShapesNote(language));
  }
  return pair.numbers->tokens > 0 ? "" : chinese ? "没有可比较的词元" : "no token to compare";
}

void AppendNumbers(const TokenNumbers& numbers, std::vector<Cell>& cells) {
  cells.push_back(CountCell(numbers.tokens));
  cells.push_back(CountCell(numbers.masked));
  const bool any = numbers.tokens > 0;
  cells.push_back(any ? NumberCell(numbers.max_difference) : Cell());
  cells.push_back(any ? NumberCell(numbers.difference.mean()) : Cell());
  cells.push_back(any ? NumberCell(numbers.difference.standard_deviation()) : Cell());
  cells.push_back(numbers.log_difference.count() > 0 ? NumberCell(numbers.log_difference.mean())
                                                     : Cell());
  for (const uint64_t OddValues::*count :
       {&OddValues::nan, &OddValues::minus_infinity, &OddValues::too_large}) {
    cells.push_back(CountCell(numbers.first.*count));
    cells.push_back(CountCell(numbers.second.*count));
  }
}

}  // namespace

report::Table WorstTokensTable(const TokenComparison& comparison, Language language) {
  const bool has_ids = !comparison.ids.empty();
  const size_t column_count = kWorstColumns.size() - (has_ids ? 0 : 1);
  report::Table table("tokens", NamesOf(std::span(kWorstColumns).first(column_count), language));
  for (size_t i = 0; i < comparison.worst.size(); ++i) {
    const WorstToken& token = comparison.worst[i];
    std::vector<Cell> cells = LocationCells(table, comparison.pairs[token.pair].files.location);
    cells.insert(
        cells.end(),
        {Cell::Integer(token.sequence), Cell::Integer(token.position), Cell::Number(token.first),
         Cell::Number(token.second), Cell::Number(std::exp(token.first)),
         Cell::Number(std::exp(token.second)), Cell::Number(token.difference)});
    if (has_ids) {
      cells.push_back(IdCell(comparison.ids[i]));
    }
    table.AddRow(cells);
  }
  return table;
}

report::Table TokenStepsTable(const TokenComparison& comparison, Language language) {
  report::Table table("steps", NamesOf(kStepColumns, language));
  for (const TokenPair& pair : comparison.pairs) {
    std::vector<Cell> cells = LocationCells(table, pair.files.location);
    for (const std::optional<Shape>& shape : {pair.first_shape, pair.second_shape}) {
      cells.push_back(shape ? table.KeepText(ShapeText(*shape)) : Cell());
    }
    if (pair.numbers) {
      AppendNumbers(*pair.numbers, cells);
    }
    cells.resize(kLocationColumns + kStepColumns.size() - 1);
    cells.push_back(NoteCell(table, TokenNote(pair, language)));
    table.AddRow(cells);
  }
  return table;
}

}  // namespace msprobe::analysis::rl
