// Expressions are read once into steps of a stack machine. Python files are never looked for: only
// the folder that a flag names is read, and of it only files called alg_<name>.py. Pairs of tensors
// are gathered into batches; a batch is a file that the user's Python reads and answers with one
// line of JSON per pair. It is killed when a batch takes too long, and what it then has not
// answered stays "unsupported": a comparison needs no metric of the user to go on.
#include "src/analysis/compare/user_metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/dtype.h"

#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/json/writer.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::resources {
extern const std::string_view kUserMetrics;  // user_metrics.py
}

namespace msprobe::analysis::compare {
namespace {

using json::Json;
using kernels::ComparePartial;

// ---- expressions ----

constexpr size_t kMostExpressionBytes = 1000;
constexpr int kMostDepth = 50;

struct Sum {
  std::string_view name;
  double (*of)(const ComparePartial&);
};
constexpr Sum kNamedSums[] = {
    {"count", [](const ComparePartial& s) { return static_cast<double>(s.element_count); }},
    {"different", [](const ComparePartial& s) { return static_cast<double>(s.different_count); }},
    {"dot", [](const ComparePartial& s) { return s.dot; }},
    {"test_square_sum", [](const ComparePartial& s) { return s.npu_square_sum; }},
    {"reference_square_sum", [](const ComparePartial& s) { return s.bench_square_sum; }},
    {"difference_square_sum", [](const ComparePartial& s) { return s.difference_square_sum; }},
    {"max_abs", [](const ComparePartial& s) { return s.max_abs_error; }},
    {"max_rel", [](const ComparePartial& s) { return s.max_relative_error; }},
    {"below_one_thousandth",
     [](const ComparePartial& s) { return static_cast<double>(s.below_one_thousandth_count); }},
    {"below_five_thousandths",
     [](const ComparePartial& s) { return static_cast<double>(s.below_five_thousandths_count); }}};

struct Function {
  std::string_view name;
  size_t arguments;
  double (*of)(double, double);
};
constexpr Function kNamedFunctions[] = {
    {"sqrt", 1, [](double a, double) { return std::sqrt(a); }},
    {"abs", 1, [](double a, double) { return std::fabs(a); }},
    {"exp", 1, [](double a, double) { return std::exp(a); }},
    {"log", 1, [](double a, double) { return std::log(a); }},
    {"log2", 1, [](double a, double) { return std::log2(a); }},
    {"log10", 1, [](double a, double) { return std::log10(a); }},
    {"min", 2, [](double a, double b) { return std::fmin(a, b); }},
    {"max", 2, [](double a, double b) { return std::fmax(a, b); }}};

double Operate(size_t sign, double a, double b) {
  switch (static_cast<char>(sign)) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return a / b;
    default:
      return std::pow(a, b);
  }
}

std::string KnownNames() {
  std::vector<std::string> names;
  for (const Sum& sum : kNamedSums) {
    names.emplace_back(sum.name);
  }
  for (const Function& function : kNamedFunctions) {
    names.push_back(fmt::format("{}()", function.name));
  }
  return base::Join(names, ", ");
}

}  // namespace

// By descent: sums of products of powers of atoms.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  Result<SumsExpression> Read() {
    MSP_RETURN_IF_ERROR(Sums(0));
    return Next() == '\0' ? Result<SumsExpression>(std::move(made_))
                          : Result<SumsExpression>(Wrong());
  }

 private:
  using Kind = SumsExpression::Kind;

  char Next() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Take(char c) {
    const bool there = Next() == c;
    at_ += there ? 1 : 0;
    return there;
  }

  Status Wrong() const {
    return UsageError(fmt::format("the expression \"{}\" is not understood at character {}",
                                  base::Printable(text_), at_ + 1))
        .WithHint("known: " + KnownNames());
  }

  Status Sums(int depth) {
    MSP_RETURN_IF_ERROR(Products(depth));
    while (Next() == '+' || Next() == '-') {
      const char sign = text_[at_++];
      MSP_RETURN_IF_ERROR(Products(depth));
      made_.steps_.push_back({Kind::kOperator, static_cast<size_t>(sign)});
    }
    return {};
  }

  Status Products(int depth) {
    MSP_RETURN_IF_ERROR(Power(depth));
    while (Next() == '*' || Next() == '/') {
      const char sign = text_[at_++];
      MSP_RETURN_IF_ERROR(Power(depth));
      made_.steps_.push_back({Kind::kOperator, static_cast<size_t>(sign)});
    }
    return {};
  }

  Status Power(int depth) {
    if (depth > kMostDepth) {
      return Wrong();
    }
    if (Take('-')) {
      made_.steps_.push_back({Kind::kNumber, 0, 0.0});
      MSP_RETURN_IF_ERROR(Power(depth + 1));
      made_.steps_.push_back({Kind::kOperator, '-'});
      return {};
    }
    MSP_RETURN_IF_ERROR(Atom(depth));
    if (Take('^')) {
      MSP_RETURN_IF_ERROR(Power(depth + 1));
      made_.steps_.push_back({Kind::kOperator, '^'});
    }
    return {};
  }

  Status Atom(int depth) {
    if (Take('(')) {
      MSP_RETURN_IF_ERROR(Sums(depth + 1));
      return Take(')') ? Status() : Wrong();
    }
    Next();
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    size_t end = at_;
    while (end < text_.size() &&
           (is_word(text_[end]) || (end > at_ && text_[end - 1] == 'e' && text_[at_] <= '9' &&
                                    (text_[end] == '-' || text_[end] == '+')))) {
      ++end;
    }
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) {
      return Wrong();
    }
    if (word[0] <= '9') {
      const std::optional<double> number = base::ParseDouble(word);
      if (!number) {
        return Wrong();
      }
      at_ = end;
      made_.steps_.push_back({Kind::kNumber, 0, *number});
      return {};
    }
    for (size_t i = 0; i < std::size(kNamedSums); ++i) {
      if (kNamedSums[i].name == word) {
        at_ = end;
        made_.steps_.push_back({Kind::kSum, i});
        return {};
      }
    }
    for (size_t i = 0; i < std::size(kNamedFunctions); ++i) {
      if (kNamedFunctions[i].name == word) {
        at_ = end;
        return Call(i, depth);
      }
    }
    return Wrong();
  }

  Status Call(size_t function, int depth) {
    if (!Take('(')) {
      return Wrong();
    }
    MSP_RETURN_IF_ERROR(Sums(depth + 1));
    if (kNamedFunctions[function].arguments == 2) {
      if (!Take(',')) {
        return Wrong();
      }
      MSP_RETURN_IF_ERROR(Sums(depth + 1));
    }
    made_.steps_.push_back({Kind::kFunction, function});
    return Take(')') ? Status() : Wrong();
  }

  std::string_view text_;
  size_t at_ = 0;
  SumsExpression made_;
};

Result<SumsExpression> SumsExpression::Parse(std::string_view text) {
  if (text.size() > kMostExpressionBytes) {
    return UsageError(
        fmt::format("an expression is longer than {} characters", kMostExpressionBytes));
  }
  return ExpressionParser(text).Read();
}

double SumsExpression::Of(const ComparePartial& sums) const {
  std::vector<double> stack;
  const auto pop = [&stack] {
    const double value = stack.back();
    stack.pop_back();
    return value;
  };
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNumber) {
      stack.push_back(step.number);
    } else if (step.kind == Kind::kSum) {
      stack.push_back(kNamedSums[step.which].of(sums));
    } else {
      const bool two = step.kind == Kind::kOperator || kNamedFunctions[step.which].arguments == 2;
      const double b = two ? pop() : 0;
      const double a = pop();
      stack.push_back(step.kind == Kind::kOperator ? Operate(step.which, a, b)
                                                   : kNamedFunctions[step.which].of(a, b));
    }
  }
  return stack.back();
}

// ---- files ----

namespace {

// Beyond this many bytes a batch is computed.
constexpr size_t kBatchBytes = size_t{256} << 20U;
constexpr uint64_t kMostAnswerBytes = uint64_t{256} << 20U;
constexpr size_t kMostWarnings = 8;
constexpr uint64_t kMostAlgorithmBytes = uint64_t{1} << 20U;
constexpr size_t kMostTextBytes = 32'767;  // of a cell of a workbook

bool IsAlgorithm(std::string_view name) {
  constexpr std::string_view kBegin = "alg_";
  constexpr std::string_view kEnd = ".py";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) ||
      name.size() <= kBegin.size() + kEnd.size()) {
    return false;
  }
  const std::string_view middle =
      name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  return std::all_of(middle.begin(), middle.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Names of columns that the table has.
std::set<std::string> TakenColumns() {
  std::set<std::string> taken = {"Dirty Valid Len"};
  for (const Edition edition : {Edition::kV8, Edition::kV26}) {
    for (std::string& name : ResultColumns(CompareMode::kRealData, true, edition, true, true)) {
      taken.insert(std::move(name));
    }
  }
  return taken;
}

// The elements as numpy takes them: small floats as float32.
void AppendElements(const TensorView& view, const layout::WholeTensor* whole, std::string& out,
                    std::string& head) {
  const DTypeInfo& info = GetDTypeInfo(view.dtype);
  const bool widens = info.numpy_descr.empty();
  std::vector<std::byte> bytes;
  const auto count = static_cast<size_t>(view.element_count());
  if (whole != nullptr) {
    bytes.resize(count * info.size_bytes);
    whole->Copy(0, view.element_count(), bytes.data());
  } else {
    const Result<tensor::TensorBuffer> made = tensor::MakeContiguous(view, kMostTensorBytes);
    if (made.ok()) {
      const std::span<const std::byte> contiguous = made->view().bytes();
      bytes.assign(contiguous.begin(), contiguous.end());
    }
  }
  if (widens) {
    std::vector<float> floats(count);
    kernels::WidenToFloat(view.dtype, bytes, floats);
    const std::span<const std::byte> wide = std::as_bytes(std::span(floats));
    bytes.assign(wide.begin(), wide.end());
  }
  head += fmt::format(R"({{"dtype": "{}", "bytes": {}, "shape": [{}]}})",
                      widens ? std::string_view("<f4") : info.numpy_descr, bytes.size(),
                      fmt::join(view.shape, ", "));
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

Result<std::unique_ptr<UserMetrics>> UserMetrics::Prepare(const UserMetricRules& rules,
                                                          std::vector<std::string>& warnings) {
  std::unique_ptr<UserMetrics> metrics(new UserMetrics);
  metrics->rules_ = rules;
  if (!rules.folder.empty()) {
    MSP_RETURN_IF_ERROR(metrics->AskFiles(warnings));
  }
  for (const auto& [name, text] : rules.expressions) {
    MSP_ASSIGN_OR_RETURN(SumsExpression expression, SumsExpression::Parse(text));
    metrics->expressions_.push_back(std::move(expression));
    metrics->columns_.push_back(name);
  }
  std::set<std::string> taken = TakenColumns();
  for (const std::string& column : metrics->columns_) {
    if (!taken.insert(column).second) {
      return UsageError(fmt::format("a metric is called \"{}\", which is another column of the "
                                    "table",
                                    base::Printable(column)))
          .WithHint("give it another name");
    }
  }
  return metrics;
}

UserMetrics::~UserMetrics() {
  if (!scratch_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
    base::ForgetOnInterrupt(interrupt_slot_);
  }
}

Status UserMetrics::AskFiles(std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(rules_.folder));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (IsAlgorithm(name)) {
      files_.push_back(name);
    } else if (name != "__init__.py" && name != "__pycache__") {
      warnings.push_back(
          fmt::format("{}: {} is not called alg_<name>.py, with lower-case letters, "
                      "digits and _: it is not used",
                      rules_.folder.string(), base::Printable(name)));
    }
  }
  for (const std::string& name : files_) {
    MSP_RETURN_IF_ERROR(base::ReadTextFile(rules_.folder / name, kMostAlgorithmBytes).status());
  }
  if (files_.empty()) {
    return UsageError(fmt::format("{} holds no file alg_<name>.py", rules_.folder.string()));
  }
  std::error_code error;
  std::string pattern =
      (std::filesystem::temp_directory_path(error) / "msprobe_metrics_XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return IoError(fmt::format("no folder for tensors can be made: {}", pattern));
  }
  scratch_ = pattern;
  interrupt_slot_ = base::RemoveOnInterrupt(pattern);
  MSP_ASSIGN_OR_RETURN(const std::string answer, RunPython("ask"));
  MSP_ASSIGN_OR_RETURN(const Json told, json::ParseDocument(answer), rules_.folder.string());
  if (const Json* problem = json::Find(told, "error")) {
    const Json* file = json::Find(told, "file");
    return BadFormatError(fmt::format(
        "{}: {}", (rules_.folder / (file != nullptr ? json::TextOf(*file) : "")).string(),
        base::Printable(json::TextOf(*problem))));
  }
  const Json* columns = json::Find(told, "columns");
  if (columns == nullptr || !columns->is_array() || columns->size() != files_.size()) {
    return BadFormatError(fmt::format("{}: no names of columns came back", rules_.folder.string()));
  }
  for (const Json& column : *columns) {
    columns_.emplace_back(json::TextOf(column));
  }
  return {};
}

// The text that it left. An error says what it said.
Result<std::string> UserMetrics::RunPython(std::string_view what) {
  const std::filesystem::path answers = scratch_ / "answers";
  std::error_code ignored;
  std::filesystem::remove(answers, ignored);
  base::ChildOptions options;
  options.program = {rules_.python_path.string(),
                     "-c",
                     std::string(resources::kUserMetrics),
                     std::string(what),
                     std::filesystem::absolute(rules_.folder, ignored).string(),
                     (scratch_ / "batch").string(),
                     answers.string()};
  options.program.insert(options.program.end(), files_.begin(), files_.end());
  options.variables = {{"PYTHONDONTWRITEBYTECODE", "1"}};
  options.patience = std::chrono::seconds(rules_.seconds);
  MSP_ASSIGN_OR_RETURN(const base::ChildEnd end, base::RunChild(options));
  if (end.timed_out) {
    Warn(fmt::format("the files of {} were stopped after {} seconds (--metric-seconds)",
                     rules_.folder.string(), rules_.seconds));
  } else if (end.exit_code != 0 || end.signal != 0) {
    const std::string_view said = base::Trim(end.output);
    Warn(fmt::format("{} ended with {}: {}", rules_.python_path.string(),
                     end.signal != 0 ? fmt::format("signal {}", end.signal)
                                     : fmt::format("exit status {}", end.exit_code),
                     base::Printable(said.substr(said.rfind('\n') + 1))));
  }
  Result<std::string> text = base::ReadTextFile(answers, kMostAnswerBytes);
  if (!text.ok() && what == "ask") {
    return BadFormatError(warnings_.empty()
                              ? fmt::format("{} left no answer", rules_.python_path.string())
                              : warnings_.back())
        .WithHint("--python names another Python");
  }
  return text;
}

void UserMetrics::Warn(std::string text) {
  if (warnings_.size() < kMostWarnings) {
    warnings_.push_back(std::move(text));
  } else {
    ++more_warnings_;
  }
}

void UserMetrics::Add(size_t row, std::string_view name, const ComparePartial* sums,
                      const TensorView& npu, const layout::WholeTensor* npu_whole,
                      const TensorView& bench, const layout::WholeTensor* bench_whole) {
  const std::lock_guard lock(mutex_);
  if (sums != nullptr && !expressions_.empty()) {
    std::vector<double> values;
    for (const SumsExpression& expression : expressions_) {
      values.push_back(expression.Of(*sums));
    }
    computed_.emplace_back(row, std::move(values));
  }
  if (files_.empty()) {
    return;
  }
  std::string head = fmt::format("{{\"row\": {}, \"name\": ", row);
  json::Writer(head, -1).Text(name);
  std::string elements;
  head += ", \"a\": ";
  AppendElements(npu, npu_whole, elements, head);
  head += ", \"b\": ";
  AppendElements(bench, bench_whole, elements, head);
  batch_ += head + "}\n" + elements;
  if (batch_.size() > kBatchBytes) {
    RunBatch();
  }
}

void UserMetrics::RunBatch() {
  const std::string batch = std::move(batch_);
  batch_.clear();
  if (batch.empty()) {
    return;
  }
  const Status written = base::WriteFileAtomically(scratch_ / "batch", batch);
  const Result<std::string> answers =
      written.ok() ? RunPython("compare") : Result<std::string>(written);
  if (answers.ok()) {
    TakeAnswers(*answers);
  } else {
    Warn(answers.status().message());
  }
}

void UserMetrics::TakeAnswers(std::string_view answers) {
  for (const std::string_view line : base::Split(answers, '\n')) {
    if (line.empty()) {
      continue;
    }
    const Result<Json> answer = json::ParseDocument(line);
    const Json* row = answer.ok() ? json::Find(*answer, "row") : nullptr;
    const Json* cells = answer.ok() ? json::Find(*answer, "cells") : nullptr;
    if (row == nullptr || !row->is_number_integer() || json::IntOf(*row) < 0 || cells == nullptr ||
        !cells->is_array() || cells->size() != files_.size()) {
      continue;  // cut off
    }
    std::vector<UserCell> taken;
    for (size_t i = 0; i < cells->size(); ++i) {
      UserCell cell;
      const Json& told = (*cells)[i];
      if (const Json* number = json::Find(told, "n")) {
        cell.kind = UserCell::Kind::kNumber;
        cell.number = json::NumberOf(*number);
      } else if (const Json* integer = json::Find(told, "i")) {
        cell.kind = UserCell::Kind::kInteger;
        cell.integer = json::IntOf(*integer);
      } else if (const Json* text = json::Find(told, "t"); text != nullptr && text->is_string()) {
        cell.text = {};
        cell.own_text = json::TextOf(*text);
        cell.own_text.resize(std::min(cell.own_text.size(), kMostTextBytes));
      } else if (const Json* problem = json::Find(told, "e")) {
        const Json* name = json::Find(*answer, "name");
        Warn(fmt::format("{}: {}: {}", files_[i],
                         name != nullptr ? base::Printable(json::TextOf(*name)) : "",
                         base::Printable(json::TextOf(*problem))));
      }
      taken.push_back(std::move(cell));
    }
    answered_.emplace_back(static_cast<size_t>(json::IntOf(*row)), std::move(taken));
  }
}

void UserMetrics::Finish(PairResult& result, std::vector<std::string>& warnings) {
  RunBatch();
  result.user_columns = columns_;
  result.user_cells.clear();
  result.user_cells.resize(result.rows.size());
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const std::string_view word = result.rows[i].metrics[0].text();
    UserCell cell;
    cell.text = word == "shape unmatched" || word == kNotApplicable ? word : cell.text;
    result.user_cells[i].assign(columns_.size(), cell);
  }
  for (auto& [row, cells] : answered_) {
    for (size_t i = 0; row < result.rows.size() && i < cells.size(); ++i) {
      UserCell& cell = cells[i];
      if (!cell.own_text.empty()) {
        cell.text = result.arena->Keep(cell.own_text);
        cell.own_text.clear();
      }
      result.user_cells[row][i] = cell;
    }
  }
  for (const auto& [row, values] : computed_) {
    for (size_t i = 0; row < result.rows.size() && i < values.size(); ++i) {
      UserCell cell;
      cell.kind = UserCell::Kind::kNumber;
      cell.number = values[i];
      result.user_cells[row][files_.size() + i] = cell;
    }
  }
  warnings.insert(warnings.end(), warnings_.begin(), warnings_.end());
  if (more_warnings_ > 0) {
    warnings.push_back(fmt::format("... and {} more of metrics", more_warnings_));
  }
}

}  // namespace msprobe::analysis::compare
