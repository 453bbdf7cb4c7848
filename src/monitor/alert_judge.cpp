#include "src/monitor/alert_judge.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::monitor {

void WriteAnomaly(const Anomaly& anomaly, json::Writer& json) {
  json.Key(anomaly.key);
  json.BeginObject();
  json.Member("rank", anomaly.rank);
  json.Member("step", anomaly.step);
  json.Member("micro_step", anomaly.micro_step);
  json.Member("pp_stage", anomaly.pp_stage);
  json.Member("vpp_stage", anomaly.vpp_stage);
  json.Member("call_id", anomaly.call_id);
  json.Member("tag_name", anomaly.tag_name);
  json.Member("message", anomaly.message);
  json.Member("group_mates", anomaly.group_mates);
  json.EndObject();
}

namespace {

constexpr std::string_view kEnd = "\n}";

Status SystemError(std::string_view what, const std::filesystem::path& path) {
  return IoError(
      fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(errno)));
}

}  // namespace

AnomalyFileWriter::~AnomalyFileWriter() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status AnomalyFileWriter::Open(const std::filesystem::path& path, bool& replaced) {
  path_ = path;
  MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  // Its name is known beforehand: where everybody may write, somebody may have put a link or a FIFO
  // there.
  descriptor_ =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
  if (descriptor_ < 0) {
    return SystemError("open", path);
  }
  if (!IsOwnFile()) {
    ::close(descriptor_);
    descriptor_ = -1;
    return IoError(fmt::format("{} is not a regular file of this user", path.string()))
        .WithHint("give MONITOR_OUTPUT_DIR a folder that only you can write to");
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    descriptor_ = -1;
    return IoError(fmt::format("{} is written by another process", path.string()))
        .WithHint(
            "give each training its own MONITOR_OUTPUT_DIR; alerts of this one are only logged");
  }
  struct stat state {};
  replaced = ::fstat(descriptor_, &state) == 0 && state.st_size > 0;
  if (::ftruncate(descriptor_, 0) != 0) {
    return SystemError("empty", path);
  }
  return WriteAt(0, "{}");
}

bool AnomalyFileWriter::IsOwnFile() const {
  struct stat file {};
  struct stat folder {};
  return ::fstat(descriptor_, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1 &&
         (file.st_uid == ::geteuid() ||
          // Network file systems may give all that this user makes to another one.
          (::stat(path_.parent_path().c_str(), &folder) == 0 && file.st_uid == folder.st_uid));
}

Status AnomalyFileWriter::WriteAt(uint64_t offset, std::string_view text) {
  const uint64_t end = offset + text.size();
  while (!text.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return SystemError("write", path_);
    }
    offset += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  size_bytes_ = end;
  return {};
}

Status AnomalyFileWriter::Append(const std::vector<Anomaly>& anomalies) {
  if (anomalies.empty() || descriptor_ < 0) {
    return {};
  }
  std::string text;
  json::Writer json(text, 1);
  json.BeginObject();
  for (const Anomaly& anomaly : anomalies) {
    WriteAnomaly(anomaly, json);
  }
  json.EndObject();
  if (!has_entries_) {
    has_entries_ = true;
    return WriteAt(0, text);
  }
  text.front() = ',';  // in place of the brace
  return WriteAt(size_bytes_ - kEnd.size(), text);
}

Status AnomalyFileWriter::Close() {
  if (descriptor_ < 0) {
    return {};
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return ::close(descriptor) == 0 ? Status() : SystemError("close", path_);
}

namespace {

constexpr uint64_t kToldPerStep = 4;    // a NaN reaches every tensor within a step
constexpr double kForget = 0.99;        // of the Python tool's average
constexpr double kSigmas = 6;           // beyond compat: so many of the window's
constexpr double kSigmaOfMad = 1.4826;  // of normally distributed numbers

std::string_view RuleName(AlertRule::Kind kind) {
  return kind == AlertRule::Kind::kTurbulence ? "AnomalyTurbulence" : "AnomalyNan";
}

std::string ValueText(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return fmt::format("{}", *integer);
  }
  if (const auto* boolean = std::get_if<bool>(&value)) {
    return *boolean ? "True" : "False";
  }
  return base::PythonFloatRepr(NumberOf(value).value_or(std::nan("")));
}

// "('0:w/rank0/actv', 'norm')"
std::string Subject(std::string_view tag, Statistic op) {
  std::string text = "(";
  base::AppendPythonTextRepr(tag, text);
  text += ", ";
  base::AppendPythonTextRepr(StatisticName(op), text);
  return text + ")";
}

int64_t StageOf(std::string_view tag) {
  return base::ParseInt(tag.substr(0, tag.find(':'))).value_or(0);
}

double Median(std::vector<double>& numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  if (numbers.size() % 2 == 1) {
    return *middle;
  }
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

}  // namespace

class AlertJudge::Impl {
 public:
  Impl(AlertSettings settings, AlertOrigin place, std::filesystem::path folder,
       std::function<void(std::string_view)> say)
      : settings_(std::move(settings)),
        topology_(std::move(place)),
        folder_(std::move(folder)),
        say_(std::move(say)) {
    settings_.window = std::max(settings_.window, 1);
    settings_.min_history = std::clamp(settings_.min_history, 1, settings_.window);
  }

  void See(const Batch& batch);
  Status EndStep(int64_t step);
  Status Close() { return file_.Close(); }

 private:
  // The state of one rule for one (tag, op).
  struct Open {
    bool alerting = false;
    uint64_t repeats = 0;
  };
  struct History {
    Statistic op = Statistic::kNorm;
    uint64_t count = 0;
    double average = 0;          // compat
    bool is_integer = false;     // compat: the only value so far is one, and is printed so
    std::vector<double> window;  // |x|, a ring
    size_t oldest = 0;
    int32_t beyond = 0;  // numbers in a row that alarmed
    std::vector<Open> rules;
  };

  History& HistoryOf(std::string_view tag, Statistic op);
  bool RuleWants(const AlertRule& rule, Statistic op) const;
  void JudgeAsPython(const Batch& batch, const Row& row, Statistic op, const Value& value,
                     double number);
  void Judge(const Batch& batch, const Row& row, Statistic op, const Value& value, double number);
  bool IsBeyondHistory(const AlertRule& rule, const History& history, double number,
                       double& median);
  void Remember(History& history, double number);
  void Report(const Batch& batch, const Row& row, Statistic op, const AlertRule& rule,
              const std::string& value, const std::string& mean, const std::string& key_ending);
  // Says the first messages of a step and counts the others.
  void Tell(std::string_view message);
  void TellHowManyMore(int64_t step);
  std::filesystem::path AnomalyPath() const {
    return folder_ / "anomaly_detected" / fmt::format("rank{}", topology_.rank) / "anomaly.json";
  }

  AlertSettings settings_;
  const AlertOrigin topology_;
  const std::filesystem::path folder_;
  const std::function<void(std::string_view)> say_;
  std::unordered_map<std::string, std::vector<History>> histories_;
  std::vector<double> scratch_;
  std::optional<int64_t> first_step_;
  uint64_t messages_ = 0;                              // of this step, shown or not
  std::vector<Anomaly> anomalies_;                     // of this step
  std::unordered_map<std::string, size_t> positions_;  // of their keys
  AnomalyFileWriter file_;
  bool file_failed_ = false;
};

AlertJudge::Impl::History& AlertJudge::Impl::HistoryOf(std::string_view tag, Statistic op) {
  std::vector<History>& of_tag = histories_[std::string(tag)];
  for (History& history : of_tag) {
    if (history.op == op) {
      return history;
    }
  }
  History& history = of_tag.emplace_back();
  history.op = op;
  history.rules.resize(settings_.rules.size());
  return history;
}

bool AlertJudge::Impl::RuleWants(const AlertRule& rule, Statistic op) const {
  if (rule.ops.empty()) {
    return rule.kind == AlertRule::Kind::kNan || op == Statistic::kNorm || op == Statistic::kMean;
  }
  return std::find(rule.ops.begin(), rule.ops.end(), op) != rule.ops.end();
}

void AlertJudge::Impl::See(const Batch& batch) {
  if (settings_.rules.empty()) {
    return;
  }
  first_step_ = first_step_.value_or(batch.step);
  for (const Row& row : batch.rows) {
    for (size_t i = 0; i < std::min(row.values.size(), batch.columns.size()); ++i) {
      const Statistic op = batch.columns[i];
      const double number = NumberOf(row.values[i]).value_or(std::nan(""));
      if (op == Statistic::kShape || op == Statistic::kDType ||
          std::holds_alternative<std::string>(row.values[i])) {
        continue;
      }
      if (settings_.compat) {
        JudgeAsPython(batch, row, op, row.values[i], number);
      } else if (!std::holds_alternative<std::monostate>(row.values[i])) {
        Judge(batch, row, op, row.values[i], number);
      }
    }
  }
}

void AlertJudge::Impl::JudgeAsPython(const Batch& batch, const Row& row, Statistic op,
                                     const Value& value, double number) {
  History& history = HistoryOf(row.tag, op);
  const double size = std::fabs(number);
  const bool is_integer = std::holds_alternative<int64_t>(value);
  if (history.count == 0) {
    history.average = size;
    history.is_integer = is_integer;
  }
  const double mean = history.average;
  const bool mean_is_integer = history.is_integer;
  if (history.count > 0) {
    history.average = kForget * history.average + (1 - kForget) * size;
    history.is_integer = false;
  }
  ++history.count;
  for (const AlertRule& rule : settings_.rules) {
    const bool turbulence = rule.kind == AlertRule::Kind::kTurbulence;
    const bool fires =
        turbulence ? size > mean * (1 + rule.threshold.value_or(0))
                   : std::isnan(number) || (rule.threshold.has_value() && size > *rule.threshold);
    if (fires) {
      if (!turbulence || RuleWants(rule, op)) {
        Report(batch, row, op, rule, ValueText(value),
               mean_is_integer ? fmt::format("{:.0f}", mean) : base::PythonFloatRepr(mean), "");
      }
      return;
    }
  }
}

bool AlertJudge::Impl::IsBeyondHistory(const AlertRule& rule, const History& history, double number,
                                       double& median) {
  scratch_ = history.window;
  if (scratch_.empty()) {
    median = std::nan("");
    return std::isinf(number);
  }
  median = Median(scratch_);
  const double size = std::fabs(number);
  if (std::isinf(size)) {
    return true;
  }
  if (history.window.size() < static_cast<size_t>(settings_.min_history) || median == 0 ||
      !(size > median * (1 + rule.threshold.value_or(0)))) {
    return false;
  }
  for (double& value : scratch_) {
    value = std::fabs(value - median);
  }
  return size - median > kSigmas * kSigmaOfMad * Median(scratch_);
}

void AlertJudge::Impl::Remember(History& history, double number) {
  const double size = std::fabs(number);
  if (!std::isfinite(size)) {
    return;
  }
  if (history.window.size() < static_cast<size_t>(settings_.window)) {
    history.window.push_back(size);
  } else {
    history.window[history.oldest] = size;
    history.oldest = (history.oldest + 1) % history.window.size();
  }
}

void AlertJudge::Impl::Judge(const Batch& batch, const Row& row, Statistic op, const Value& value,
                             double number) {
  History& history = HistoryOf(row.tag, op);
  const bool warm = batch.step - *first_step_ >= settings_.warm_up_steps;
  bool beyond_history = false;
  size_t reported = 0;
  for (size_t i = 0; warm && i < settings_.rules.size(); ++i) {
    const AlertRule& rule = settings_.rules[i];
    if (!RuleWants(rule, op)) {
      continue;
    }
    double median = std::nan("");
    bool fires = false;
    if (rule.kind == AlertRule::Kind::kTurbulence) {
      fires = !std::isnan(number) && IsBeyondHistory(rule, history, number, median);
      beyond_history = beyond_history || fires;
    } else {
      fires = std::isnan(number) || (op == Statistic::kNans && number > 0) ||
              (rule.threshold.has_value() && std::fabs(number) > *rule.threshold);
      scratch_ = history.window;
      median = fires && !scratch_.empty() ? Median(scratch_) : median;
    }
    Open& open = history.rules[i];
    if (fires && open.alerting) {
      ++open.repeats;
    } else if (fires) {
      open = {true, 0};
      Report(batch, row, op, rule, ValueText(value), base::PythonFloatRepr(median),
             fmt::format("_{}{}{}", StatisticName(op), reported > 0 ? "_" : "",
                         reported > 0 ? RuleName(rule.kind) : ""));
      ++reported;
    } else if (open.alerting) {
      if (open.repeats > 0) {
        Tell(
            fmt::format("Rule {}: {} is back to normal at step {} with {}; {} in between not shown",
                        RuleName(rule.kind), Subject(row.tag, op), batch.step, ValueText(value),
                        base::Plural(open.repeats, "alert")));
      }
      open = {};
    }
  }
  history.beyond = beyond_history ? history.beyond + 1 : 0;
  if (history.beyond > settings_.min_history) {  // a new level, not a spike
    history.window.clear();
    history.oldest = 0;
    history.beyond = 0;
    beyond_history = false;
  }
  if (!beyond_history) {
    Remember(history, number);
  }
}

void AlertJudge::Impl::Report(const Batch& batch, const Row& row, Statistic op,
                              const AlertRule& rule, const std::string& value,
                              const std::string& mean, const std::string& key_ending) {
  Anomaly anomaly;
  anomaly.message = fmt::format(
      "Rule {} reports anomaly signal in {} at step {}, current value {}, history mean {}.",
      RuleName(rule.kind), Subject(row.tag, op), batch.step, value, mean);
  Tell(anomaly.message);
  if (!settings_.dump) {
    return;
  }
  anomaly.key = fmt::format("{}_step_{}_call_{}{}", row.tag, batch.step, row.call_id, key_ending);
  anomaly.rank = topology_.rank;
  anomaly.step = batch.step;
  anomaly.micro_step = settings_.compat ? 0 : row.micro_step.value_or(0);
  anomaly.pp_stage = topology_.pipeline_stage;
  anomaly.vpp_stage = StageOf(row.tag);
  anomaly.call_id = row.call_id;
  anomaly.tag_name = row.tag;
  anomaly.group_mates = topology_.group_mates;
  const auto [position, is_new] = positions_.emplace(anomaly.key, anomalies_.size());
  if (is_new) {
    anomalies_.push_back(std::move(anomaly));
  } else {
    anomalies_[position->second] = std::move(anomaly);
  }
}

void AlertJudge::Impl::Tell(std::string_view message) {
  if (messages_ < kToldPerStep) {
    say_(message);
  }
  ++messages_;
}

void AlertJudge::Impl::TellHowManyMore(int64_t step) {
  if (messages_ > kToldPerStep) {
    say_(fmt::format("{} of rank {} at step {}; {}",
                     base::Plural(messages_ - kToldPerStep, "more message"), topology_.rank, step,
                     settings_.dump ? "all alerts are in " + AnomalyPath().string()
                                    : "\"alert\": {\"dump\": true} writes all to a file"));
  }
  messages_ = 0;
}

Status AlertJudge::Impl::EndStep(int64_t step) {
  TellHowManyMore(step);
  std::vector<Anomaly> anomalies = std::move(anomalies_);
  anomalies_.clear();
  positions_.clear();
  if (!settings_.dump || settings_.rules.empty() || file_failed_) {
    return {};
  }
  if (!file_.is_open()) {
    const std::filesystem::path path = AnomalyPath();
    bool replaced = false;
    if (Status status = file_.Open(path, replaced); !status.ok()) {
      file_failed_ = true;  // reported once
      return status;
    }
    if (replaced) {
      say_(fmt::format("{} of an earlier run is replaced", path.string()));
    }
  }
  return file_.Append(anomalies);
}

AlertJudge::AlertJudge(AlertSettings settings, AlertOrigin place, std::filesystem::path folder,
                       std::function<void(std::string_view)> say)
    : impl_(std::make_unique<Impl>(std::move(settings), std::move(place), std::move(folder),
                                   std::move(say))) {}

AlertJudge::~AlertJudge() = default;

void AlertJudge::See(const Batch& batch) { impl_->See(batch); }

Status AlertJudge::EndStep(int64_t step) { return impl_->EndStep(step); }

Status AlertJudge::Close() { return impl_->Close(); }

}  // namespace msprobe::monitor
