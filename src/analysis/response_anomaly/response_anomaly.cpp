#include "src/analysis/response_anomaly/response_anomaly.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "src/analysis/response_anomaly/judge.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/report/writers.h"

namespace msprobe::analysis::response_anomaly {
namespace {

using json::Config;
using json::Json;
using json::SettingsReader;

constexpr int64_t kLargestWindow = 1 << 16;
constexpr uint64_t kLargestLimitsFile = uint64_t{1} << 20U;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// A number from `least` to `most`.
Status ReadNumber(const SettingsReader& reader, std::string_view key, double least, double most,
                  double& out) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  const bool is_number = value->is_number_integer() || value->is_number_float();
  if (!is_number || !std::isfinite(json::NumberOf(*value)) || json::NumberOf(*value) < least ||
      json::NumberOf(*value) > most) {
    const std::string allowed = std::isinf(least)  ? fmt::format("a number up to {}", most)
                                : std::isinf(most) ? fmt::format("a number from {}", least)
                                                   : fmt::format("{} to {}", least, most);
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: {}", json::ShownValue(*value), allowed));
  }
  out = json::NumberOf(*value);
  return {};
}

// The object under `key`, checked for unknown keys; null when there is none.
Result<const Json*> FindSection(const Config& config, const Json& object, std::string_view key,
                                std::vector<std::string> valid) {
  const Json* section = json::Find(object, key);
  if (section == nullptr || section->is_null()) {
    return nullptr;
  }
  if (!section->is_object()) {
    return config.ErrorAt(*section, key,
                          fmt::format("is {}; allowed: keys", json::ShownValue(*section)));
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(*section, valid));
  return section;
}

Status ReadRepetition(const Config& config, const Json& section, Limits& limits) {
  const SettingsReader reader(config, section, "repetition");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  MSP_RETURN_IF_ERROR(reader.Int("single_window_thresh", 0, kMost, limits.single_window_thresh));
  MSP_RETURN_IF_ERROR(reader.Int("multi_window_thresh", 0, kMost, limits.multi_window_thresh));
  MSP_ASSIGN_OR_RETURN(
      const Json* trajectory,
      FindSection(config, section, "trajectory", {"n", "distinct_n_thresh", "logp_thresh"}));
  if (trajectory != nullptr) {
    const SettingsReader inner(config, *trajectory, "repetition.trajectory");
    MSP_RETURN_IF_ERROR(inner.Int("n", 1, kLargestWindow, limits.n));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "distinct_n_thresh", 0, 1, limits.distinct_n_thresh));
    MSP_RETURN_IF_ERROR(
        ReadNumber(inner, "logp_thresh", -kUnbounded, 0, limits.trajectory_logp_thresh));
  }
  MSP_ASSIGN_OR_RETURN(
      const Json* acf,
      FindSection(config, section, "acf", {"acf_threshold", "logp_thresh", "harmonic_thresh"}));
  if (acf != nullptr) {
    const SettingsReader inner(config, *acf, "repetition.acf");
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "acf_threshold", 0, 1, limits.acf_threshold));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "logp_thresh", -kUnbounded, 0, limits.acf_logp_thresh));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "harmonic_thresh", 0, 1, limits.harmonic_thresh));
  }
  return {};
}

Result<Limits> ReadLimits(const Config& config) {
  Limits limits;
  const Json& root = config.root();
  if (root.is_null()) {
    return limits;  // an empty file
  }
  if (!root.is_object()) {
    return config.ErrorAt(root, "", "must hold keys such as window_size");
  }
  const std::vector<std::string> keys = {"window_size", "stride", "rare_character", "garbled",
                                         "repetition"};
  MSP_RETURN_IF_ERROR(config.CheckKeys(root, keys));
  const SettingsReader reader(config, root, "");
  MSP_RETURN_IF_ERROR(reader.Int("window_size", 1, kLargestWindow, limits.window_size));
  MSP_RETURN_IF_ERROR(reader.Int("stride", 1, kLargestWindow, limits.stride));
  if (limits.stride > limits.window_size) {
    const Json* place = json::Find(root, "stride");
    return config.ErrorAt(
        place != nullptr ? *place : *json::Find(root, "window_size"), "stride",
        fmt::format("is {}, more than the window_size of {}: tokens between the windows would "
                    "not be looked at",
                    limits.stride, limits.window_size));
  }
  MSP_ASSIGN_OR_RETURN(const Json* rare,
                       FindSection(config, root, "rare_character",
                                   {"explogp_sum_thresh", "category_thresh", "top1_logp_thresh"}));
  if (rare != nullptr) {
    const SettingsReader inner(config, *rare, "rare_character");
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "explogp_sum_thresh", 0, 1, limits.explogp_sum_thresh));
    MSP_RETURN_IF_ERROR(inner.Int("category_thresh", 0, 1'000'000, limits.category_thresh));
    MSP_RETURN_IF_ERROR(
        ReadNumber(inner, "top1_logp_thresh", -kUnbounded, 0, limits.rare_top1_logp_thresh));
  }
  MSP_ASSIGN_OR_RETURN(
      const Json* garbled,
      FindSection(config, root, "garbled", {"top1_logp_thresh", "window_ratio", "window_thresh"}));
  if (garbled != nullptr) {
    const SettingsReader inner(config, *garbled, "garbled");
    MSP_RETURN_IF_ERROR(
        ReadNumber(inner, "top1_logp_thresh", -kUnbounded, 0, limits.garbled_top1_logp_thresh));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "window_ratio", 0, 1, limits.window_ratio));
    MSP_RETURN_IF_ERROR(inner.Int("window_thresh", 0, 1'000'000, limits.window_thresh));
  }
  MSP_ASSIGN_OR_RETURN(
      const Json* repetition,
      FindSection(config, root, "repetition",
                  {"trajectory", "acf", "single_window_thresh", "multi_window_thresh"}));
  if (repetition != nullptr) {
    MSP_RETURN_IF_ERROR(ReadRepetition(config, *repetition, limits));
  }
  return limits;
}

}  // namespace

Result<Limits> ParseLimits(std::string_view text, std::string file_name) {
  MSP_ASSIGN_OR_RETURN(const Config config, json::ParseYamlConfig(text, std::move(file_name)));
  return ReadLimits(config);
}

Result<Limits> LoadLimits(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestLimitsFile));
  return ParseLimits(text, path.string());
}

namespace {

constexpr size_t kPieceBytes = size_t{256} << 10U;
// A buffer that grew for a long line is given back.
constexpr size_t kKeptBufferBytes = size_t{8} << 20U;

}  // namespace

Result<LineReader> LineReader::Open(const std::filesystem::path& path, size_t longest_line) {
  if (base::IsFolder(path)) {
    return UsageError(fmt::format("{} is a folder", path.string()))
        .WithHint("give a file with one request per line");
  }
  MSP_ASSIGN_OR_RETURN(base::Descriptor input, base::OpenStream(path));
  return LineReader(std::move(input), path == "-" ? "the standard input" : path.string(),
                    longest_line);
}

Result<LineReader::Line> LineReader::Next(std::string_view& line) {
  line = {};
  for (;;) {
    const size_t end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      const size_t begin = std::exchange(begin_, end + 1);
      searched_ = begin_;
      if (std::exchange(too_long_, false)) {
        return Line::kTooLong;
      }
      line = std::string_view(buffer_).substr(begin, end - begin);
      return line.size() > longest_ ? Line::kTooLong : Line::kLine;
    }
    if (ended_) {
      const size_t begin = std::exchange(begin_, buffer_.size());
      searched_ = begin_;
      line = std::string_view(buffer_).substr(begin);
      const bool was_too_long = std::exchange(too_long_, false) || line.size() > longest_;
      return was_too_long ? Line::kTooLong : line.empty() ? Line::kEnd : Line::kLine;
    }
    buffer_.erase(0, std::exchange(begin_, 0));
    if (buffer_.size() > longest_) {
      too_long_ = true;
      buffer_.clear();
    }
    if (buffer_.empty() && buffer_.capacity() > kKeptBufferBytes) {
      buffer_ = {};
    }
    const size_t before = buffer_.size();
    searched_ = before;
    buffer_.resize(before + kPieceBytes);
    ssize_t count = 0;
    do {
      count = ::read(input_.get(), buffer_.data() + before, kPieceBytes);
    } while (count < 0 && errno == EINTR);
    buffer_.resize(before + static_cast<size_t>(count > 0 ? count : 0));
    if (count < 0) {
      return IoError(fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
    }
    bytes_read_ += static_cast<uint64_t>(count);
    ended_ = count == 0;
  }
}

using report::Cell;

const std::vector<std::string>& RowColumns() {
  static const std::vector<std::string> columns = {"line",
                                                   "name",
                                                   "is_ill",
                                                   "ill_type",
                                                   "illness",
                                                   "first_token",
                                                   "tokens",
                                                   "candidates",
                                                   "by_categories",
                                                   "nans",
                                                   "positive_infinities",
                                                   "negative_infinities",
                                                   "windows",
                                                   "rare_tokens",
                                                   "garbled_windows",
                                                   "repeats_both",
                                                   "repeats_trajectory",
                                                   "repeats_period",
                                                   "model",
                                                   "error"};
  return columns;
}

report::Table NewTable() { return report::Table("requests", RowColumns()); }

void AddRow(const Row& row, report::Table& table) {
  const Judgement& judgement = row.judgement;
  const auto count = [](size_t value) { return Cell::Integer(static_cast<int64_t>(value)); };
  const auto text = [&](std::string_view value) {
    return value.empty() ? Cell() : table.KeepText(value);
  };
  if (!row.error.empty()) {
    std::vector<Cell> cells(RowColumns().size());
    cells[0] = count(row.line);
    cells[1] = text(row.name);
    cells.back() = text(row.error);
    table.AddRow(cells);
    return;
  }
  const bool is_ill = judgement.illness != Illness::kNone;
  const std::array<Cell, 20> cells = {
      count(row.line),
      text(row.name),
      Cell::Boolean(is_ill),
      Cell::Integer(static_cast<int64_t>(judgement.illness)),
      Cell::Text(IllnessName(judgement.illness)),
      judgement.first_token ? count(*judgement.first_token) : Cell(),
      count(judgement.tokens),
      count(judgement.candidates),
      Cell::Boolean(judgement.by_categories),
      count(judgement.nans),
      count(judgement.positive_infinities),
      count(judgement.negative_infinities),
      count(judgement.windows),
      count(judgement.rare_tokens),
      count(judgement.garbled_windows),
      count(judgement.repeats_both),
      count(judgement.repeats_trajectory),
      count(judgement.repeats_period),
      text(row.model),
      Cell()};
  table.AddRow(cells);
}

namespace {

// Rows on their way to the file.
class RowFile {
 public:
  static Result<RowFile> Create(const std::filesystem::path& path) {
    RowFile rows;
    rows.is_csv_ = base::AsciiLower(path.extension().string()) == ".csv";
    MSP_ASSIGN_OR_RETURN(rows.file_, base::AtomicFile::Create(path));
    return rows;
  }

  Status Add(const Row& row) {
    AddRow(row, table_);
    return table_.row_count() >= kRowsAtOnce ? Flush() : Status();
  }
  Status Commit() {
    MSP_RETURN_IF_ERROR(Flush());
    return file_.Commit();
  }

 private:
  static constexpr size_t kRowsAtOnce = 512;

  Status Flush() {
    std::string text = is_csv_ ? report::CsvText(table_) : report::JsonLinesText(table_);
    if (is_csv_) {
      if (std::exchange(has_header_, true)) {
        text.erase(0, text.find('\n') + 1);
      } else {
        text.insert(0, "\xef\xbb\xbf");
      }
    }
    table_ = NewTable();
    return file_.Write(text);
  }

  base::AtomicFile file_;
  report::Table table_ = NewTable();
  bool is_csv_ = false;
  bool has_header_ = false;
};

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

void Count(const Row& row, bool is_known_model, Findings& findings) {
  const Judgement& judgement = row.judgement;
  ++findings.requests;
  findings.tokens += judgement.tokens;
  ++findings.of[static_cast<size_t>(judgement.illness)];
  findings.by_categories += judgement.by_categories ? 1U : 0U;
  findings.unfinished += is_known_model && !judgement.by_categories ? 1U : 0U;
  findings.only_minus_infinity += judgement.illness == Illness::kNotFinite &&
                                          judgement.nans + judgement.positive_infinities == 0
                                      ? 1U
                                      : 0U;
  findings.short_repeats +=
      judgement.illness == Illness::kNone &&
              judgement.repeats_both + judgement.repeats_trajectory + judgement.repeats_period > 0
          ? 1U
          : 0U;
  if (judgement.illness != Illness::kNone && findings.ill.size() < Findings::kMostNamed) {
    findings.ill.push_back(row);
  }
}

}  // namespace

Result<Findings> Run(const Options& options, const OnRow& on_row) {
  Limits limits;
  if (!options.config.empty()) {
    MSP_ASSIGN_OR_RETURN(limits, LoadLimits(options.config));
  }
  ModelTable models;
  if (!options.models.empty()) {
    MSP_ASSIGN_OR_RETURN(models, ModelTable::Load(options.models, options.categories));
  }
  Findings findings;
  if (!options.categories.empty() && models.with_categories() == 0) {
    findings.warnings.push_back(
        fmt::format("{} has no file <name>_<size>.json for a model of {}: nothing is judged by "
                    "categories",
                    options.categories.string(), options.models.string()));
  }
  MSP_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(options.input));
  std::vector<RowFile> files;
  for (const std::filesystem::path& path : options.row_files) {
    MSP_ASSIGN_OR_RETURN(RowFile file, RowFile::Create(path));
    files.push_back(std::move(file));
  }
  Judge judge(limits, models);
  Request request;
  Row row;
  for (;;) {
    std::string_view line;
    MSP_ASSIGN_OR_RETURN(const LineReader::Line kind, lines.Next(line));
    if (kind == LineReader::Line::kEnd) {
      break;
    }
    const uint64_t number = row.line + 1;
    row = {};
    row.line = number;
    if (kind == LineReader::Line::kLine && IsBlank(line)) {
      continue;
    }
    Status read = kind == LineReader::Line::kTooLong
                      ? BadFormatError(fmt::format("longer than {}",
                                                   base::FormatBytes(LineReader::kLongestLine)))
                      : ParseRequest(line, request);
    if (read.ok()) {
      read = judge.CheckWork(request.tokens.size());
    }
    if (read.ok()) {
      row.name = request.name;
      row.model = request.model;
      row.judgement = judge.Examine(request);
      const Model* model = models.Find(request.model);
      Count(row, model != nullptr && model->categories != nullptr, findings);
    } else {
      row.error = read.message();
      ++findings.unreadable;
      if (findings.unread.size() < Findings::kMostNamed) {
        findings.unread.push_back(row);
      }
    }
    for (RowFile& file : files) {
      MSP_RETURN_IF_ERROR(file.Add(row));
    }
    if (on_row) {
      MSP_RETURN_IF_ERROR(on_row(row));
    }
  }
  findings.bytes = lines.bytes_read();
  for (size_t i = 0; i < files.size(); ++i) {
    MSP_RETURN_IF_ERROR(files[i].Commit());
    findings.files.push_back(options.row_files[i]);
  }
  return findings;
}

namespace {

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownRequests = 20;
constexpr size_t kShownLines = 5;

// The worst first.
constexpr std::array<Illness, 4> kIllnesses = {Illness::kNotFinite, Illness::kGarbled,
                                               Illness::kRepetition, Illness::kRareCharacters};

std::string_view WordsOf(Illness illness) {
  switch (illness) {
    case Illness::kRareCharacters:
      return "rare characters";
    case Illness::kGarbled:
      return "garbled";
    case Illness::kRepetition:
      return "repetition";
    case Illness::kNotFinite:
      return "not finite";
    case Illness::kNone:
      break;
  }
  return "normal";
}

std::string WhyOf(const Judgement& judgement) {
  switch (judgement.illness) {
    case Illness::kRareCharacters:
      return Plural(judgement.rare_tokens, "token");
    case Illness::kGarbled:
      return fmt::format("{} of {}", judgement.garbled_windows,
                         Plural(judgement.windows, "window"));
    case Illness::kRepetition:
      return fmt::format(
          "{} of {}",
          judgement.repeats_both + judgement.repeats_trajectory + judgement.repeats_period,
          Plural(judgement.windows, "window"));
    case Illness::kNotFinite: {
      std::string why;
      const auto add = [&](size_t count, const char* what) {
        if (count > 0) {
          why += fmt::format("{}{} {}", why.empty() ? "" : ", ", FormatCount(count), what);
        }
      };
      add(judgement.nans, "NaN");
      add(judgement.positive_infinities, "+inf");
      add(judgement.negative_infinities, "-inf");
      return why;
    }
    case Illness::kNone:
      break;
  }
  return {};
}

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  verdict.unit = "requests";
  verdict.number = static_cast<double>(findings.ill_count());
  if (findings.requests == 0) {
    verdict.Say("NOTHING JUDGED", "no line holds a request", Tone::kBad,
                AnswerOutcome::kNothingCompared);
  } else if (findings.ill_count() > 0) {
    verdict.word = "ILL";
    std::string counts;
    for (const Illness illness : kIllnesses) {
      if (const uint64_t count = findings.of[static_cast<size_t>(illness)]; count > 0) {
        counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", FormatCount(count),
                              WordsOf(illness));
      }
    }
    verdict.text = fmt::format("ILL: {} of {}: {}", FormatCount(findings.ill_count()),
                               Plural(findings.requests, "request"), counts);
    verdict.tone = Tone::kBad;
    verdict.outcome = AnswerOutcome::kFindings;
  } else {
    verdict.Say("NORMAL", fmt::format("all {}", Plural(findings.requests, "request")), Tone::kGood);
  }
  if (findings.unreadable > 0) {
    verdict.text += fmt::format("; {} cannot be read", Plural(findings.unreadable, "line"));
    verdict.outcome = AnswerOutcome::kIncomplete;
    verdict.tone = Tone::kBad;
  }
  return verdict;
}

Section IllSection(const Findings& findings) {
  report::Table table("ill", {"Line", "Request", "Illness", "Found in", "First token", "Tokens"});
  for (const Row& row : findings.ill) {
    const Judgement& judgement = row.judgement;
    const std::array<Cell, 6> cells = {
        Cell::Integer(static_cast<int64_t>(row.line)),
        table.KeepText(base::Printable(row.name)),
        Cell::Text(WordsOf(judgement.illness)),
        table.KeepText(WhyOf(judgement)),
        judgement.first_token ? Cell::Integer(static_cast<int64_t>(*judgement.first_token))
                              : Cell(),
        Cell::Integer(static_cast<int64_t>(judgement.tokens))};
    table.AddRow(cells);
  }
  Section section;
  section.blocks.emplace_back(report::DataTable{std::move(table), {kShownRequests}});
  if (findings.ill_count() > findings.ill.size()) {
    section.blocks.emplace_back(
        report::Text{fmt::format("The first {} are listed; -o writes a row for every request.",
                                 FormatCount(findings.ill.size()))});
  }
  return section;
}

Section UnreadSection(const Findings& findings) {
  List list{ListKind::kNamed, {}, {kShownLines}};
  for (const Row& row : findings.unread) {
    list.items.push_back({fmt::format("line {}", row.line), base::Printable(row.error)});
  }
  return report::MakeSection("Lines that cannot be read", std::move(list));
}

Section NotesSection(const Findings& findings) {
  Section section{"Also", {}};
  List list{ListKind::kBullets, {}};
  const auto add = [&](uint64_t count, std::string text) {
    if (count > 0) {
      list.items.push_back({"", std::move(text)});
    }
  };
  add(findings.only_minus_infinity,
      fmt::format("{}: -inf is the only value that is not finite. Servers that fill up their "
                  "candidates with -inf do this, and nothing is wrong then.",
                  Plural(findings.only_minus_infinity, "request")));
  add(findings.short_repeats,
      fmt::format("{}: normal, but parts repeat themselves in fewer windows than "
                  "single_window_thresh and multi_window_thresh ask for.",
                  Plural(findings.short_repeats, "request")));
  add(findings.unfinished,
      fmt::format("{} of a known model: the last token does not end a response, and so the "
                  "categories of tokens were not used.",
                  Plural(findings.unfinished, "request")));
  if (list.items.empty()) {
    return {};
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

std::vector<report::TestCase> CasesOf(const Findings& findings) {
  std::vector<report::TestCase> cases;
  for (const Row& row : findings.ill) {
    report::TestCase& test = cases.emplace_back();
    test.name = row.name.empty() ? fmt::format("line {}", row.line) : row.name;
    test.outcome = report::CaseOutcome::kFailed;
    test.level = IllnessName(row.judgement.illness);
    test.type = WordsOf(row.judgement.illness);
    test.message = fmt::format("{}: {}", test.type, WhyOf(row.judgement));
  }
  for (const Row& row : findings.unread) {
    report::TestCase& test = cases.emplace_back();
    test.name = fmt::format("line {}", row.line);
    test.outcome = report::CaseOutcome::kError;
    test.type = "unreadable";
    test.message = row.error;
  }
  if (cases.empty() && findings.requests > 0) {
    cases.push_back({fmt::format("all {}", Plural(findings.requests, "request"))});
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Findings& findings) {
  report::Document document;
  document.command = "response_anomaly";
  document.verdict = MakeVerdict(findings);
  document.levels = report::OutcomesOf(kGateLevels);
  for (const Illness illness : kIllnesses) {
    report::SetFound(document.levels, IllnessName(illness),
                     findings.of[static_cast<size_t>(illness)] > 0);
  }
  report::SetFound(document.levels, "ill", findings.ill_count() > 0);
  if (!findings.ill.empty()) {
    document.sections.push_back(IllSection(findings));
  }
  if (!findings.unread.empty()) {
    document.sections.push_back(UnreadSection(findings));
  }
  if (Section notes = NotesSection(findings); !notes.blocks.empty()) {
    document.sections.push_back(std::move(notes));
  }
  document.AddFiles(findings.files);
  document.warnings = findings.warnings;
  document.cases = CasesOf(findings);
  document.bytes = findings.bytes;
  document.action = "judged";
  return document;
}

}  // namespace msprobe::analysis::response_anomaly
