#include "src/monitor/engine.h"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/monitor/alert_judge.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/settings.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {

namespace {

const base::Patience kWriterPatience = [](uint64_t /*steps*/) { return WriterThread::kPatience; };

}  // namespace

WriterThread::WriterThread(std::function<void(const Status&)> on_failure)
    : on_failure_(std::move(on_failure)),
      queue_({.most = kMostWaitingSteps + 1,
              .when_idle = [this] { Retry(); },
              .idle_interval = kRetryInterval},
             [this](Job& job) { Write(job); }) {}

std::unique_ptr<StepBuffer> WriterThread::TakeBuffer() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    return std::make_unique<StepBuffer>();
  }
  std::unique_ptr<StepBuffer> buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void WriterThread::GiveBack(std::unique_ptr<StepBuffer> buffer) {
  constexpr size_t kKept = 2;
  buffer->Clear();
  const std::lock_guard lock(mutex_);
  if (free_.size() < kKept) {
    free_.push_back(std::move(buffer));
  }
}

void WriterThread::Submit(std::unique_ptr<StepBuffer> step, std::shared_ptr<Sink> sink) {
  using Added = base::WorkQueue<Job>::Added;
  Job job{std::move(step), std::move(sink)};
  switch (is_stuck_ ? queue_.TryAdd(job) : queue_.Add(job, 1, kWriterPatience)) {
    case Added::kYes:
      break;
    case Added::kRefused:  // no thread was to be had
      Write(job);
      break;
    case Added::kNoRoom: {
      is_stuck_ = true;  // until a step is written, no other one waits
      const int64_t number = job.step->step;
      GiveBack(std::move(job.step));
      Note(IoError(fmt::format("nothing could be written for {} s: the rows of step {} are lost",
                               kPatience.count(), number)));
    }
  }
}

void WriterThread::Note(const Status& status) {
  if (status.ok()) {
    return;
  }
  failure_.Note(status);
  const bool tell = [this] {
    const std::lock_guard lock(mutex_);
    return !std::exchange(told_, true);
  }();
  if (tell) {
    on_failure_(status);
  }
}

void WriterThread::Write(Job& job) {
  const base::NoFileSizeSignal guard;
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok() && !status.ok()) {
      first = std::move(status);
    }
  };
  try {
    rows_.Build(*job.step, [&](const Batch& batch) { note(job.sink->Write(batch)); });
    note(job.sink->EndStep(job.step->step));
  } catch (const std::exception& error) {
    note(InternalError(fmt::format("the rows of step {}: {}", job.step->step, error.what())));
  }
  last_ = first.ok() ? nullptr : job.sink;
  last_step_ = job.step->step;
  Note(first);
  job.sink = nullptr;
  GiveBack(std::move(job.step));
  is_stuck_ = false;
}

void WriterThread::Retry() {
  const base::NoFileSizeSignal guard;
  if (last_ != nullptr && last_->EndStep(last_step_).ok()) {
    last_ = nullptr;
  }
}

Status WriterThread::Flush() {
  if (!queue_.WaitUntilIdle(kWriterPatience)) {
    return IoError(fmt::format("nothing could be written for {} s", kPatience.count()));
  }
  return failure_.Take();
}

namespace {

// The writer of the format, and the alerts, behind one door.

class FileSink : public Sink {
 public:
  FileSink(std::unique_ptr<Writer> writer, std::unique_ptr<AlertJudge> judge)
      : writer_(std::move(writer)), judge_(std::move(judge)) {}
  ~FileSink() override {
    for (const Status& status : {writer_ != nullptr ? writer_->Close() : Status(),
                                 judge_ != nullptr ? judge_->Close() : Status()}) {
      if (!status.ok()) {
        base::LogWarning(status.message());
      }
    }
  }

  // Alerts are judged whatever the files come to.
  Status Write(const Batch& batch) override {
    if (judge_ != nullptr) {
      judge_->See(batch);
    }
    return writer_ != nullptr ? writer_->Write(batch) : Status();
  }

  Status EndStep(int64_t step) override {
    Status judged = judge_ != nullptr ? judge_->EndStep(step) : Status();
    Status written = writer_ != nullptr ? writer_->EndStep(step) : Status();
    return written.ok() ? std::move(judged) : std::move(written);
  }

 private:
  const std::unique_ptr<Writer> writer_;     // null: format api
  const std::unique_ptr<AlertJudge> judge_;  // null: no rules
};

std::unique_ptr<Writer> MakeCsv(const std::filesystem::path& folder, const Settings& settings) {
  return MakeCsvWriter(folder, CsvRulesOf(settings), settings.steps_per_file);
}

Result<std::unique_ptr<Writer>> MakeWriter(const std::filesystem::path& folder,
                                           const RankTopology& topology, const Settings& settings) {
  switch (settings.format) {
    case Format::kCsv:
      return MakeCsv(folder, settings);
    case Format::kTensorBoard:
      return MakeTensorBoardWriter(folder);
    case Format::kSqlite: {
      Result<std::unique_ptr<Writer>> store =
          MakeStoreWriter(folder, static_cast<int32_t>(topology.rank));
      if (store.ok()) {
        return store;
      }
      base::LogWarning(store.status().message());
      base::LogHint(store.status().hint());
      base::LogHint("tables are written as CSV instead; `msprobe monitor csv2db` makes a store");
      return MakeCsv(folder, settings);
    }
    case Format::kApi:
      break;
  }
  return std::unique_ptr<Writer>();
}

// `folder` exists, unless the format is api: then nothing but alerts is written.
Result<std::shared_ptr<Sink>> MakeFileSink(const std::filesystem::path& folder,
                                           const std::filesystem::path& output_root,
                                           const RankTopology& topology, const Settings& settings) {
  MSP_ASSIGN_OR_RETURN(std::unique_ptr<Writer> writer, MakeWriter(folder, topology, settings));
  std::unique_ptr<AlertJudge> judge;
  if (!settings.alert.rules.empty()) {
    judge = std::make_unique<AlertJudge>(
        settings.alert,
        AlertOrigin{topology.rank, topology.pipeline_stage, topology.pipeline_ranks}, output_root,
        [](std::string_view text) { base::LogWarning(text); });
  }
  return std::shared_ptr<Sink>(std::make_shared<FileSink>(std::move(writer), std::move(judge)));
}

namespace fs = std::filesystem;

constexpr size_t kMostSlots = 10'000'000;
constexpr size_t kMostRecords = 50'000'000;

void TellFailure(const Status& status) {
  base::LogWarning("monitor: " + status.message());
  if (!status.hint().empty()) {
    base::LogHint(status.hint());
  }
  base::LogHint("training continues; further errors of this kind are not reported");
}

std::vector<Statistic> NumberOps(const std::vector<Statistic>& ops) {
  std::vector<Statistic> numbers;
  for (const Statistic op : ops) {
    if (op != Statistic::kShape && op != Statistic::kDType) {
      numbers.push_back(op);
    }
  }
  return numbers;
}

bool IsCallTask(Table table, std::string_view task) {
  for (const std::string_view prefix : {"pre_", "post_"}) {
    if (table == Table::kOther && task.starts_with(prefix) && task.size() > prefix.size() &&
        task.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos) {
      return true;
    }
  }
  return false;
}

std::string_view ModuleOf(std::string_view name) {
  for (const std::string_view end : {".input", ".output"}) {
    if (name.ends_with(end)) {
      return name.substr(0, name.size() - end.size());
    }
  }
  return name;
}

void PutValue(const Value& value, json::Writer& json) {
  if (const auto* truth = std::get_if<bool>(&value)) {
    json.Bool(*truth);
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    json.Int(*whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    json.Float(*number);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    json.Text(*text);
  } else {
    json.Float(std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Open(const fs::path& config_path,
                                             std::string_view overrides_json,
                                             std::string_view framework) {
  if (framework != "pytorch" && framework != "mindspore") {
    return UsageError(fmt::format("no framework is called \"{}\"", base::Printable(framework)))
        .WithHint("pytorch, mindspore");
  }
  MSP_ASSIGN_OR_RETURN(Settings settings, LoadSettings(config_path, overrides_json));
  for (const std::string& warning : settings.warnings) {
    base::LogWarning(warning);
  }
  std::error_code ignored;
  const fs::path absolute = fs::absolute(config_path, ignored);
  return std::unique_ptr<Engine>(new Engine(config_path.empty() ? config_path : absolute,
                                            std::string(overrides_json), std::string(framework),
                                            std::make_shared<const Settings>(std::move(settings))));
}

Engine::Engine(fs::path config_path, std::string overrides_json, std::string framework,
               const std::shared_ptr<const Settings>& settings)
    : framework_(std::move(framework)),
      output_root_(OutputRoot()),
      process_id_(::getpid()),
      settings_(settings),
      settings_json_(SettingsJson(*settings)),
      schedule_(std::move(config_path), std::move(overrides_json), settings, IsDynamic()),
      names_(*settings),
      step_(std::make_unique<StepBuffer>()),
      rules_(RulesOf(*settings)),
      writer_(TellFailure) {
  UseCodeLines();
}

Engine::~Engine() {
  [[maybe_unused]] const Status status = Close();  // reported by the writer
}

const char* Engine::settings_json() const {
  const std::lock_guard lock(mutex_);
  return settings_json_.c_str();
}

bool Engine::InOwnProcess() const { return ::getpid() == process_id_; }

// Without a process group nothing selects a rank, not even 0: as the Python tool has it.
bool Engine::IsRankSelected() const {
  const std::vector<int64_t>& ranks = settings_->module_ranks;
  return ranks.empty() || (topology_.is_distributed &&
                           std::binary_search(ranks.begin(), ranks.end(), topology_.rank));
}

void Engine::UseSettings() {
  settings_ = schedule_.settings();
  settings_json_ = SettingsJson(*settings_);
  rules_ = RulesOf(*settings_);
  UseCodeLines();
}

void Engine::UseCodeLines() {
  code_lines_.clear();
  for (const std::string& line : settings_->cc.code_lines) {
    if (Result<base::BoundedExpression> expression = base::BoundedExpression::Parse(line);
        expression.ok()) {  // checked with the settings
      code_lines_.push_back(*std::move(expression));
    }
  }
}

bool Engine::SelectsStack(std::string_view stack) {
  const std::lock_guard lock(mutex_);
  if (settings_->cc.code_lines.empty()) {
    return true;
  }
  bool is_found = false;
  for (auto line = code_lines_.begin(); line != code_lines_.end() && !is_found;) {
    const auto outcome = line->Search(stack);
    is_found = outcome == base::BoundedExpression::Outcome::kFound;
    if (outcome == base::BoundedExpression::Outcome::kTakesTooLong) {
      base::LogWarning(
          fmt::format("monitor: the expression \"{}\" of cc_codeline takes too long: "
                      "it selects nothing from here on",
                      base::Printable(line->text())));
      line = code_lines_.erase(line);
    } else {
      ++line;
    }
  }
  return is_found;
}

Status Engine::SetOps(std::string_view json_list) {
  MSP_ASSIGN_OR_RETURN(const Settings parsed,
                       LoadSettings({}, fmt::format("{{\"ops\": {}}}", json_list)));
  for (const std::string& warning : parsed.warnings) {
    base::LogWarning(warning);
  }
  const std::lock_guard lock(mutex_);
  Settings changed = *settings_;
  changed.ops = parsed.ops;
  schedule_.SetSettings(std::make_shared<const Settings>(std::move(changed)));
  UseSettings();
  return {};
}

Status Engine::SetTopology(RankTopology topology) {
  const std::lock_guard lock(mutex_);
  if (!topology.is_distributed) {
    topology.rank = 0;
    topology.world_size = 1;
  }
  const bool moves = has_topology_ && topology.rank != topology_.rank;
  topology_ = std::move(topology);
  has_topology_ = true;
  if (moves && !folder_.empty()) {
    // The folder of the rank that was taken for ours: gone if nothing is in it yet.
    sink_ = nullptr;
    std::error_code ignored;
    fs::remove(folder_ / kTopologyFileName, ignored);
    fs::remove(folder_, ignored);
    folder_.clear();
  }
  if (!settings_->module_ranks.empty() && !topology_.is_distributed) {
    base::LogWarning(
        "\"module_ranks\" selects ranks, but this process has none: nothing is collected");
    base::LogHint("leave \"module_ranks\" empty, or initialise the process group first");
  }
  sink_failure_ = OpenSink();
  return sink_failure_;
}

Status Engine::OpenSink() {
  if (!IsRankSelected()) {
    return {};
  }
  if (settings_->format != Format::kApi) {
    if (folder_.empty()) {
      const bool appends = !settings_->append_output.empty() && topology_.is_distributed;
      MSP_ASSIGN_OR_RETURN(folder_, appends ? FindOutputFolder(output_root_, topology_.rank,
                                                               settings_->append_output)
                                            : MakeOutputFolder(output_root_, topology_.rank));
    }
    MSP_RETURN_IF_ERROR(WriteTopologyFile(folder_, topology_, *settings_, framework_));
  }
  const bool is_read = settings_->format != Format::kApi || !settings_->alert.rules.empty();
  if (sink_ == nullptr && is_read) {
    MSP_ASSIGN_OR_RETURN(sink_, MakeFileSink(folder_, output_root_, topology_, *settings_));
  }
  return {};
}

std::string Engine::output_folder() const {
  const std::lock_guard lock(mutex_);
  return folder_.string();
}

std::optional<std::string> Engine::NameParameter(int32_t stage, std::string_view full_name) {
  const std::lock_guard lock(mutex_);
  return names_.OfParameter(stage, full_name);
}

std::optional<std::string> Engine::NameModule(int32_t stage, std::string_view full_name) {
  const std::lock_guard lock(mutex_);
  return names_.OfModule(stage, full_name);
}

std::optional<std::string> Engine::NameFeatureModule(FeatureHook hook, int32_t stage,
                                                     std::string_view full_name) {
  const std::lock_guard lock(mutex_);
  return names_.OfFeatureModule(hook, stage, full_name);
}

void Engine::ForgetNames() {
  const std::lock_guard lock(mutex_);
  names_.Forget();
}

Engine::Next Engine::Conclude(bool is_changed) {
  // Without an output nothing is measured.
  const bool is_useful = IsRankSelected() && sink_failure_.ok();
  Next next{schedule_.StateOf(is_useful), is_changed};
  is_on_.store(next.state == State::kOn);
  step_->Clear();
  step_->step = schedule_.step();
  step_->rank = topology_.rank;
  step_->settings = settings_;
  step_->reduced_ops = NumberOps(settings_->ops);
  ++serial_;
  next_call_id_ = 0;
  for (SlotState& slot : slots_) {
    slot.cursor = 0;
  }
  return next;
}

Result<Engine::Next> Engine::Begin(int64_t step) {
  if (step < 0) {
    return UsageError(fmt::format("the first step cannot be {}: steps count from 0", step));
  }
  if (const bool has_place =
          [this] {
            const std::lock_guard lock(mutex_);
            return has_topology_;
          }();
      !has_place) {
    MSP_RETURN_IF_ERROR(SetTopology({}));
  }
  const std::lock_guard lock(mutex_);
  schedule_.Begin(step);
  return Conclude(false);
}

Result<Engine::Next> Engine::EndStep() {
  const std::lock_guard lock(mutex_);
  const bool collected = is_on_.load();
  if (collected && sink_ != nullptr) {
    writer_.Submit(std::move(step_), sink_);
    step_ = writer_.TakeBuffer();
  }
  const bool is_changed = schedule_.EndStep(collected);
  if (is_changed) {
    UseSettings();
    names_ = WatchedNames(*settings_);
    // Another format or another number of digits needs another writer; never two at a time.
    sink_ = nullptr;
    [[maybe_unused]] const Status told = writer_.Flush();
    sink_failure_ = OpenSink();
    if (!sink_failure_.ok()) {
      TellFailure(sink_failure_);
    }
  }
  return Conclude(is_changed);
}

int64_t Engine::current_step() const {
  const std::lock_guard lock(mutex_);
  return schedule_.step();
}

Status Engine::Flush() { return writer_.Flush(); }

Status Engine::Close() {
  is_on_.store(false);
  writer_.Close();
  Status status = writer_.Flush();
  const std::lock_guard lock(mutex_);
  sink_ = nullptr;
  return status;
}

uint32_t Engine::Slot(Table table, std::string_view name, std::string_view task) {
  const std::lock_guard lock(mutex_);
  auto [found, is_new] =
      slot_of_name_.try_emplace({table, std::string(name), std::string(task)}, 0);
  if (!is_new || slots_.size() >= kMostSlots) {
    return found->second;
  }
  auto info = std::make_unique<SlotInfo>();
  info->table = table;
  info->task = task;
  info->name = name;
  info->is_call = IsCallTask(table, task);
  const size_t colon = name.find(':');
  if (colon != std::string_view::npos) {
    const std::optional<int64_t> stage = base::ParseInt(name.substr(0, colon));
    if (stage && *stage >= 0 && *stage <= std::numeric_limits<int32_t>::max()) {
      info->stage = static_cast<int32_t>(*stage);
      info->name = name.substr(colon + 1);
    }
  }
  if (table == Table::kActv) {
    const auto next = static_cast<uint32_t>(group_of_module_.size());
    info->group = group_of_module_.try_emplace(std::string(ModuleOf(name)), next).first->second;
  }
  slots_.emplace_back().info = std::move(info);
  found->second = static_cast<uint32_t>(slots_.size());
  return found->second;
}

MeasureRules Engine::rules() const {
  const std::lock_guard lock(mutex_);
  return rules_;
}

Result<Record*> Engine::RecordAt(const Spot& spot) {
  if (spot.slot == 0 || spot.slot > slots_.size()) {
    return UsageError(fmt::format("no slot has the number {}", spot.slot));
  }
  SlotState& slot = slots_[spot.slot - 1];
  const auto is_same = [&](const SpotPlace& place) {
    return place.index == spot.index && place.micro_step == spot.micro_step;
  };
  // Values come in the same order in every step.
  size_t at = slot.cursor;
  if (at >= slot.spots.size() || !is_same(slot.spots[at])) {
    at = static_cast<size_t>(std::find_if(slot.spots.begin(), slot.spots.end(), is_same) -
                             slot.spots.begin());
    if (at == slot.spots.size()) {
      slot.spots.push_back({.index = spot.index, .micro_step = spot.micro_step});
    }
  }
  slot.cursor = at + 1;
  SpotPlace& place = slot.spots[at];
  if (place.serial != serial_) {
    if (step_->records.size() >= kMostRecords) {
      return UsageError("too many values in one step");
    }
    place.serial = serial_;
    place.record = static_cast<uint32_t>(step_->records.size());
    Record& record = step_->records.emplace_back();
    record.slot = slot.info.get();
    record.index = spot.index;
    record.micro_step = spot.micro_step;
  }
  Record& record = step_->records[place.record];
  record.call_id = next_call_id_++;
  return &record;
}

const std::string* Engine::Intern(std::string_view text) {
  for (const std::string& known : texts_) {
    if (known == text) {
      return &known;
    }
  }
  return &texts_.emplace_back(text);
}

void Engine::Describe(Record& record, SlotState& slot, std::span<const int64_t> shape,
                      std::string_view dtype_text) {
  if (slot.dtype_text == nullptr || *slot.dtype_text != dtype_text) {
    slot.dtype_text = Intern(dtype_text);
  }
  record.dtype_text = slot.dtype_text;
  record.shape_begin = static_cast<uint32_t>(step_->shapes.size());
  record.dimensions = static_cast<uint32_t>(shape.size());
  step_->shapes.insert(step_->shapes.end(), shape.begin(), shape.end());
}

Status Engine::Put(const Spot& spot, const TensorNumbers& numbers, std::span<const int64_t> shape,
                   std::string_view dtype_text) {
  const std::lock_guard lock(mutex_);
  if (!is_on()) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(Record* const record, RecordAt(spot));
  record->is_reduced = false;
  record->numbers = numbers;
  Describe(*record, slots_[spot.slot - 1], shape, dtype_text);
  return {};
}

Status Engine::Accumulate(const Spot& spot, const TensorNumbers& numbers,
                          std::span<const int64_t> shape, std::string_view dtype_text) {
  const std::lock_guard lock(mutex_);
  if (!is_on()) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(Record* const record, RecordAt(spot));
  const bool is_first = record->numbers.calls == 0;
  const std::string* const dtype_before = record->dtype_text;
  monitor::Accumulate(record->numbers, numbers);
  const auto before = step_->shapes.begin() + static_cast<std::ptrdiff_t>(record->shape_begin);
  const bool is_same = !is_first && dtype_before != nullptr && *dtype_before == dtype_text &&
                       record->dimensions == shape.size() &&
                       std::equal(shape.begin(), shape.end(), before);
  if (is_first) {
    Describe(*record, slots_[spot.slot - 1], shape, dtype_text);
  } else if (!is_same) {
    // Calls that differ have no common shape.
    record->dtype_text = nullptr;
  }
  return {};
}

Status Engine::PutNumber(const Spot& spot, double value) {
  const std::lock_guard lock(mutex_);
  if (!is_on()) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(Record* const record, RecordAt(spot));
  record->is_reduced = false;
  SlotState& slot = slots_[spot.slot - 1];
  if (slot.info->table == Table::kUpdateRatio) {
    record->numbers = {};
    record->numbers.kind = TensorNumbers::Kind::kNumber;
    record->numbers.number = value;
    record->dtype_text = nullptr;
    return {};
  }
  // A tensor without dimensions; the Python tool keeps the agreement of signs as a float32.
  const bool is_direction = slot.info->task == "mg_direction";
  const auto single = static_cast<float>(value);
  TensorView view;
  view.dtype = is_direction ? DType::kFloat32 : DType::kFloat64;
  view.data = is_direction ? reinterpret_cast<const std::byte*>(&single)
                           : reinterpret_cast<const std::byte*>(&value);
  view.extent_bytes = DTypeSize(view.dtype);
  record->numbers = Measure(view, rules_);
  const std::string text = framework_ == "pytorch"
                               ? fmt::format("torch.{}", DTypeName(view.dtype))
                               : std::string(GetDTypeInfo(view.dtype).mindspore);
  Describe(*record, slot, {}, text);
  return {};
}

Status Engine::PutFeatures(const Spot& spot, std::span<const double> numbers) {
  const std::lock_guard lock(mutex_);
  if (!is_on()) {
    return {};
  }
  if (spot.slot > 0 && spot.slot <= slots_.size()) {
    const Table table = slots_[spot.slot - 1].info->table;
    const auto hook = FeatureHookOf(table);
    if (!hook || numbers.size() != TableOf(*hook).columns.size()) {
      return UsageError(fmt::format("{} for the table {}, which has other columns",
                                    base::Plural(numbers.size(), "number"), TableName(table)));
    }
  }
  MSP_ASSIGN_OR_RETURN(Record* const record, RecordAt(spot));
  record->numbers = {};
  record->is_reduced = true;
  record->reduced_begin = static_cast<uint32_t>(step_->reduced.size());
  record->reduced_count = static_cast<uint32_t>(numbers.size());
  step_->reduced.insert(step_->reduced.end(), numbers.begin(), numbers.end());
  return {};
}

Result<uint64_t> Engine::PutDeferred(const Spot& spot, std::optional<DType> dtype,
                                     std::span<const int64_t> shape, std::string_view dtype_text) {
  const std::lock_guard lock(mutex_);
  if (!is_on()) {
    return uint64_t{0};
  }
  MSP_ASSIGN_OR_RETURN(Record* const record, RecordAt(spot));
  record->numbers = {};
  record->numbers.kind = TensorNumbers::Kind::kUnread;
  record->numbers.is_known_dtype = dtype.has_value();
  record->numbers.dtype = dtype.value_or(DType::kFloat32);
  Describe(*record, slots_[spot.slot - 1], shape, dtype_text);
  record->is_reduced = true;
  record->reduced_begin = static_cast<uint32_t>(step_->reduced.size());
  record->reduced_count = static_cast<uint32_t>(step_->reduced_ops.size());
  step_->reduced.resize(step_->reduced.size() + step_->reduced_ops.size(),
                        std::numeric_limits<double>::quiet_NaN());
  const auto number = static_cast<uint64_t>(record - step_->records.data()) + 1;
  return (serial_ << 32U) | number;
}

Status Engine::Fill(uint64_t ticket, std::span<const double> numbers) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ticket & std::numeric_limits<uint32_t>::max();
  if (ticket == 0 || ticket >> 32U != (serial_ & std::numeric_limits<uint32_t>::max()) ||
      number > step_->records.size()) {
    return {};  // of a step that is over
  }
  if (numbers.size() != step_->reduced_ops.size()) {
    return UsageError(
        fmt::format("{} for {}; one for each of \"ops\" but shape and dtype is needed",
                    base::Plural(numbers.size(), "number"),
                    base::Plural(step_->reduced_ops.size(), "statistic")));
  }
  const Record& record = step_->records[number - 1];
  if (record.is_reduced) {
    std::copy(numbers.begin(), numbers.end(),
              step_->reduced.begin() + static_cast<std::ptrdiff_t>(record.reduced_begin));
  }
  return {};
}

std::string Engine::RowsJson(Table table) {
  std::string text;
  json::Writer json(text, -1);
  json.BeginArray();
  const std::lock_guard lock(mutex_);
  if (step_->settings != nullptr) {
    api_rows_.BuildTable(*step_, table, [&json](const Batch& batch) {
      for (const Row& row : batch.rows) {
        json.BeginObject();
        json.Member("tag", row.tag);
        for (size_t i = 0; i < batch.columns.size(); ++i) {
          json.Key(StatisticName(batch.columns[i]));
          PutValue(row.values[i], json);
        }
        json.EndObject();
      }
    });
  }
  json.EndArray();
  return text;
}

Status Engine::WriteFile(std::string_view name, std::string_view content) {
  constexpr std::string_view kUp = "../";
  const bool is_beside = name.starts_with(kUp);
  const fs::path relative = is_beside ? name.substr(kUp.size()) : name;
  const bool climbs = std::any_of(relative.begin(), relative.end(),
                                  [](const fs::path& part) { return part == ".."; });
  if (relative.empty() || relative.is_absolute() || climbs) {
    return UsageError(
        fmt::format("\"{}\" is not a file of the output folder", base::Printable(name)));
  }
  const fs::path folder = is_beside ? output_root_ : fs::path(output_folder());
  if (folder.empty()) {
    return UsageError(fmt::format("there is no output folder for \"{}\"", base::Printable(name)));
  }
  const fs::path path = folder / relative;
  MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  return base::WriteFileAtomically(path, content, base::Existing::kReplace);
}

}  // namespace msprobe::monitor
