#include "src/capture/step_recording.h"

#include <chrono>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/capture/manifest.h"
#include "src/capture/step_folder.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double EngineSeconds(const Totals& totals) {
  return static_cast<double>(totals.engine_nanoseconds.load()) * 1e-9;
}
double RepeatSeconds(const Totals& totals) {
  return static_cast<double>(totals.repeat_nanoseconds.load()) * 1e-9;
}

// The innermost lines of a stack.
std::string CallerText(const std::vector<dump::LogFrame>& frames) {
  constexpr size_t kShownFrames = 4;
  std::string text;
  for (size_t i = 0; i < frames.size() && i < kShownFrames; ++i) {
    text += fmt::format("{}{}:{} ({})", i == 0 ? "; called from " : ", from ",
                        base::Printable(frames[i].file), frames[i].line,
                        base::Printable(frames[i].function));
  }
  return text;
}

}  // namespace

StepRecording::StepRecording(std::shared_ptr<Engine> engine, StepFolder folder)
    : engine_(std::move(engine)),
      folder_(std::move(folder)),
      step_(folder_.place().step),
      errors_(std::make_shared<ErrorLog>(
          folder_.path().empty() ? base::Path() : folder_.path() / kErrorLogName, engine_->totals)),
      begin_seconds_(SecondsNow()),
      engine_seconds_at_begin_(EngineSeconds(*engine_->totals)),
      repeat_seconds_at_begin_(RepeatSeconds(*engine_->totals)),
      dropped_steps_(engine_->dropped_steps.exchange(0)),
      slices_(engine_->settings.slices) {
  has_slices_.store(!slices_.empty());
}

Result<std::shared_ptr<StepRecording>> StepRecording::Begin(std::shared_ptr<Engine> engine,
                                                            int64_t step,
                                                            std::optional<int64_t> rank) {
  const Settings& settings = engine->settings;
  const StepPlace place = {engine->root, step, rank};
  if (settings.online) {
    return BeginOnline(std::move(engine), place);
  }
  if (!std::exchange(engine->looked_for_other_runs, true)) {
    engine->other_run = CheckOtherRuns(place);
  }
  MSP_RETURN_IF_ERROR(engine->other_run);
  MSP_ASSIGN_OR_RETURN(StepFolder folder, StepFolder::Claim(place, settings.saves_tensors()));
  const int descriptor = folder.TakeLogDescriptor();
  const std::shared_ptr<StepRecording> recording(
      new StepRecording(std::move(engine), std::move(folder)));
  recording->log_ = std::make_unique<LogWriter>(
      descriptor, recording->folder_.path() / dump::kRecordLogName,
      [errors = recording->errors_](const Status& status) {
        errors->Note("records", status.message());
        base::LogError(fmt::format("{}; training continues", status.message()));
        base::LogHint("records wait in memory until there is room, and are lost if there is none");
      });
  recording->TellReplaced();
  MSP_RETURN_IF_ERROR(recording->LoadBench());
  if (recording->folder_.with_tensors()) {
    TensorFiles::Options options;
    options.rank_folder = recording->folder_.path();
    options.kind =
        settings.framework == Framework::kPyTorch ? TensorFileKind::kPt : TensorFileKind::kNpy;
    options.deduplicate = settings.deduplicate;
    options.deduplicate_from_bytes = settings.deduplicate_from_bytes;
    Engine* const shared = recording->engine_.get();
    recording->tensor_files_ = std::make_shared<TensorFiles>(
        options, shared->totals,
        [errors = recording->errors_, told = shared->told_lost_file](const std::string& name,
                                                                     const Status& status) {
          errors->Note(name, "its file is lost: " + status.message());
          if (!told->exchange(true)) {
            base::LogError(fmt::format("a tensor file is lost: {}", status.message()));
            base::LogHint(status.hint().empty() ? "training continues; lost files are counted"
                                                : "training continues; " + status.hint());
          }
        });
  }
  std::string start;
  dump::AppendLogStart(recording->MakeHeader(), start);
  recording->start_bytes_ = start.size();
  recording->log_->Append(start);
  MSP_RETURN_IF_ERROR(recording->log_->Flush());  // others see whose folder it is
  // Where nothing may wait, they are written with the step's own.
  if (!recording->engine_->budget.exists()) {
    MSP_RETURN_IF_ERROR(recording->WriteJson());
  }
  return recording;
}

Result<std::shared_ptr<StepRecording>> StepRecording::BeginOnline(std::shared_ptr<Engine> engine,
                                                                  StepPlace place) {
  MSP_RETURN_IF_ERROR(engine->online->Begin(place.rank.value_or(0)));
  return std::shared_ptr<StepRecording>(
      new StepRecording(std::move(engine), StepFolder::Nowhere(std::move(place))));
}

// Once per capture: a run again has as many folders to replace as it has steps.
void StepRecording::TellReplaced() const {
  if (folder_.replaced() && !engine_->told_replaced.exchange(true)) {
    base::LogInfo(
        fmt::format("{} holds an earlier dump; it is replaced, and so are those "
                    "of later steps",
                    folder_.path().string()));
  }
}

dump::LogHeader StepRecording::MakeHeader() const {
  dump::LogHeader header;
  header.task = TaskName(settings().task);
  header.level = LevelName(settings().level);
  header.framework = FrameworkName(settings().framework);
  if (tensor_files_ != nullptr) {
    // As derived from dump_path, relative where that is.
    const StepPlace as_given = {settings().dump_path, step(), rank()};
    header.dump_data_dir = (as_given.rank_path() / dump::kTensorFolderName).string();
  }
  header.process_id = static_cast<uint64_t>(::getpid());
  header.run = RunIdentity();
  return header;
}

StatisticRules StepRecording::statistic_rules() const {
  StatisticRules rules;
  rules.precision = settings().precision;
  rules.is_mindspore = settings().framework == Framework::kMindSpore;
  return rules;
}

bool StepRecording::SavesTensors(std::string_view name) const {
  if (tensor_files_ == nullptr) {
    return false;
  }
  if (settings().task != Task::kStatistics && settings().task != Task::kNanCheck) {
    return true;
  }
  const std::lock_guard lock(engine_->filters_mutex);
  return engine_->filters.SavesTensors(name);
}

bool StepRecording::Append(std::string_view records) {
  if (engine_->abandoned.load()) {
    return false;
  }
  if (log_ == nullptr) {
    return true;
  }
  if (closed_.load() || !log_->Append(records)) {
    CountLostRecord();
    return false;
  }
  // Behind it: WriteJson, which may be running, must not take it for written before it is there.
  ++change_count_;
  return true;
}

bool StepRecording::TakeRecordBytes(size_t bytes, size_t files) {
  // Written twice: to the log, and to the JSON files that are made of it.
  Budget& budget = engine_->budget;
  if (!budget.exists() || log_ == nullptr ||
      (log_->HasRoom(bytes) && budget.TakeRecordBytes(2 * bytes))) {
    return true;
  }
  CountDropped(1, files);
  return false;
}

void StepRecording::CountDropped(uint64_t records, uint64_t files) {
  dropped_records_ += records;
  dropped_files_ += files;
  engine_->totals->dropped_records += records;
  engine_->totals->dropped_files += files;
}

void StepRecording::SetBatch(std::vector<RequestRows> requests, std::vector<TensorSlice> slices) {
  const std::lock_guard lock(mutex_);
  requests_ = std::move(requests);
  slices_ = std::move(slices);
  has_slices_.store(!slices_.empty());
}

void StepRecording::Narrow(TensorDescription& tensor) const {
  const std::lock_guard lock(mutex_);
  TakeSlices(slices_, tensor);
}

void StepRecording::CountEntry(uint64_t tensors) {
  ++engine_->totals->entries;
  tensor_count_ += tensors;
  engine_->totals->tensors += tensors;
}

void StepRecording::Remark(Remarks::Kind kind, std::string_view name, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (kind == Remarks::kAlteredModule) {
    remarks_.altered_modules.insert_or_assign(std::string(name), std::string(text));
  } else if (text.empty()) {
    if (const auto known = remarks_.own_gradients.find(name);
        known != remarks_.own_gradients.end()) {
      remarks_.own_gradients.erase(known);
    }
  } else {
    remarks_.own_gradients.emplace(name);
  }
}

void StepRecording::CountNonFinite(std::string_view name, uint64_t nans, uint64_t infinities) {
  if (non_finite_calls_.fetch_add(1) == 0) {
    const std::lock_guard lock(mutex_);
    first_non_finite_ = name;
  }
  // Later losses usually follow from the first one.
  constexpr int64_t kToldCalls = 5;
  const int64_t told = engine_->overflow_hits.fetch_add(1) + 1;
  if (told <= kToldCalls) {
    base::LogWarning(fmt::format("step {}: {} gave {} NaN and {} infinities{}", step(), name, nans,
                                 infinities,
                                 told == kToldCalls ? "; later calls are only recorded" : ""));
  }
}

Status StepRecording::LoadBench() {
  if (!settings().searches_differences()) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(std::shared_ptr<const BenchStep> bench,
                       BenchStep::Load(engine_->bench_root, step(), rank()));
  const std::lock_guard lock(mutex_);
  bench_ = std::move(bench);
  return {};
}

std::shared_ptr<const BenchStep> StepRecording::bench() const {
  if (!settings().searches_differences()) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  return bench_;
}

std::string StepRecording::CallerOf(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::string forward(name);
  if (const size_t at = forward.rfind(".backward"); at != std::string::npos) {
    forward.replace(at, std::string_view(".backward").size(), ".forward");
  }
  const auto id = stack_of_.find(forward);
  const auto text =
      id == stack_of_.end() ? caller_of_stack_.end() : caller_of_stack_.find(id->second);
  return text == caller_of_stack_.end() ? std::string() : text->second;
}

void StepRecording::CountCompared(std::string_view name, const BenchStep::Answer& answer) {
  const bool differs = answer.outcome == BenchStep::Outcome::kDiffers;
  if (differs || answer.outcome == BenchStep::Outcome::kEqual) {
    ++compared_calls_;
  }
  if (!differs) {
    return;
  }
  if (differing_calls_.fetch_add(1) == 0) {
    const std::lock_guard lock(mutex_);
    first_difference_ = name;
  }
  constexpr int64_t kToldCalls = 20;
  const int64_t found = engine_->overflow_hits.fetch_add(1) + 1;
  if (found <= kToldCalls) {
    base::LogWarning(fmt::format(
        "step {}: {} differs: with the same inputs as in {} its output {} is another{}{}", step(),
        name, bench()->folder().string(), answer.output, CallerOf(name),
        found == kToldCalls ? "; later calls are only recorded" : ""));
  }
  const int64_t wanted = settings().diff_nums;
  if (wanted >= 0 && found >= wanted && !engine_->finished.exchange(true)) {
    base::LogInfo(
        fmt::format("search for differences: {} of {} are recorded; capture ends", found, wanted));
  }
}

void StepRecording::TellDifferences() const {
  if (settings().searches_differences() && differing_calls_.load() == 0) {
    base::LogInfo(fmt::format(
        "step {}: no call differs from {}: {} had the same inputs, and the "
        "same outputs",
        step(), bench()->folder().string(), base::Plural(compared_calls_.load(), "call")));
  }
}

uint64_t StepRecording::TakeTickets(size_t count) { return engine_->next_ticket.fetch_add(count); }

uint64_t StepRecording::AddPlace(PendingPlace place) {
  const uint64_t ticket = TakeTickets(1);
  const std::lock_guard lock(mutex_);
  places_.emplace(ticket, std::move(place));
  return ticket;
}

std::optional<PendingPlace> StepRecording::FindPlace(uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(ticket);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

uint64_t StepRecording::AddStatistics(DType dtype, bool is_scalar, bool is_numpy) {
  const uint64_t ticket = TakeTickets(dump::kStatisticCount);
  const std::lock_guard lock(mutex_);
  deferred_.emplace(ticket, DeferredStatistics{dtype, is_scalar, is_numpy});
  return ticket;
}

Status StepRecording::FillStatistics(uint64_t ticket, const std::array<double, 4>& values) {
  DeferredStatistics deferred;
  {
    const std::lock_guard lock(mutex_);
    const auto found = deferred_.find(ticket);
    if (found == deferred_.end()) {
      return UsageError(
          fmt::format("ticket {} waits for no statistics in step {}", ticket, step()));
    }
    deferred = found->second;
  }
  StatisticRules rules = statistic_rules();
  rules.is_numpy = deferred.is_numpy;
  return FillStatistics(ticket, SpellStatistics(deferred.dtype, deferred.is_scalar, values, rules));
}

Status StepRecording::FillStatistics(uint64_t ticket, const Statistics& statistics) {
  std::string records;
  std::string text;
  for (size_t i = 0; i < statistics.size(); ++i) {
    text.clear();
    json::Writer json(text, 1, non_finite());
    PutStatistic(statistics[i], json);
    dump::AppendPending(ticket + i, text, records);
  }
  return Append(records) ? Status() : LostError();
}

Status StepRecording::LostError() const {
  return closed_.load()
             ? UsageError(fmt::format("step {} has ended: too late for this record", step()))
             : IoError("a record is lost: the log cannot be written");
}

Status StepRecording::SetConstruct(std::string_view name, std::optional<std::string_view> parent) {
  if (!settings().extra_info) {
    return {};
  }
  std::string record;
  dump::AppendConstruct(name, parent, record);
  return Append(record) ? Status() : LostError();
}

Status StepRecording::SetStack(std::string_view name, uint32_t id,
                               const std::vector<dump::LogFrame>& frames) {
  if (!settings().extra_info) {
    return {};
  }
  std::string records;
  // Held while appending: no entry may refer to a stack before its frames are written.
  const std::lock_guard lock(mutex_);
  if (recorded_stacks_.size() <= id) {
    recorded_stacks_.resize(size_t{id} + 1);
  }
  const bool is_new = !recorded_stacks_[id];
  if (bench_ != nullptr) {
    stack_of_.insert_or_assign(std::string(name), id);
    if (is_new) {
      caller_of_stack_.insert_or_assign(id, CallerText(frames));
    }
  }
  if (is_new) {
    dump::AppendStack(id, frames, records);
  }
  dump::AppendStackOf(name, id, records);
  if (!Append(records)) {
    return LostError();
  }
  recorded_stacks_[id] = true;
  return {};
}

Status StepRecording::WriteJson() {
  if (log_ == nullptr) {
    return {};
  }
  const base::NoFileSizeSignal guard;
  engine_->device_copies.Wait();
  // Tried again where it failed: what else was recorded is written in any case.
  Status start = start_outdated_ ? WriteStart() : Status();
  if (Status layout = WriteLayout(); start.ok()) {
    start = std::move(layout);
  }
  const uint64_t changes = change_count_.load();
  if (changes == written_change_count_) {
    return start;
  }
  std::optional<Result<dump::LogConversion>> conversion;
  const bool was_in_memory = log_->UseWhole([&](std::span<const std::string_view> pieces) {
    conversion = dump::ConvertRecordLog(pieces, folder_.path(), dump::SourceFiles::kOfThisProcess);
  });
  if (!was_in_memory) {
    MSP_RETURN_IF_ERROR(log_->Flush());
    conversion = dump::ConvertRecordLog(folder_.path(), dump::SourceFiles::kOfThisProcess);
  }
  MSP_RETURN_IF_ERROR(conversion->status());
  written_change_count_ = changes;
  name_count_ = (*conversion)->entries;
  return start;
}

void StepRecording::NoteEnd() {
  end_seconds_ = SecondsNow();
  engine_seconds_at_end_ = EngineSeconds(*engine_->totals);
  repeat_seconds_at_end_ = RepeatSeconds(*engine_->totals);
}

Status StepRecording::WriteStart() {
  std::string start;
  dump::AppendLogStart(MakeHeader(), start);
  MSP_RETURN_IF_ERROR(
      log_->ReplaceStart(start_bytes_, start, folder_.path() / dump::kRecordLogName));
  start_bytes_ = start.size();
  start_outdated_ = false;
  ++change_count_;
  return {};
}

Status StepRecording::WriteLayout() {
  const uint64_t version = engine_->layout.version();
  if (version != written_layout_) {
    MSP_RETURN_IF_ERROR(engine_->layout.WriteTo(folder_.path()));
    written_layout_ = version;
  }
  return {};
}

Status StepRecording::MoveToRank(int64_t rank) {
  if (log_ == nullptr) {
    folder_.SetRank(rank);
    return {};
  }
  const base::NoFileSizeSignal guard;
  engine_->device_copies.Wait();
  if (tensor_files_ != nullptr && !tensor_files_->WaitIdle(kPatience)) {
    return IoError("tensor files are still being written");
  }
  MSP_RETURN_IF_ERROR(log_->Flush());
  MSP_RETURN_IF_ERROR(folder_.MoveTo(rank));
  TellReplaced();
  MSP_RETURN_IF_ERROR(LoadBench());
  errors_->SetPath(folder_.path() / kErrorLogName);
  if (tensor_files_ != nullptr) {
    tensor_files_->SetFolder(folder_.path());
  }
  start_outdated_ = true;
  return WriteStart();
}

Status StepRecording::FinishJson() {
  engine_->device_copies.Wait();
  closed_.store(true);
  log_->EndAppends();  // a thread may have seen closed_ as it was before
  return WriteJson();
}

Status StepRecording::WriteLastManifest(bool json_written) {
  Manifest manifest;
  manifest.step = step();
  manifest.rank = rank();
  manifest.entries = name_count_;
  manifest.tensors = tensor_count_.load();
  manifest.files = tensor_files_ != nullptr ? tensor_files_->counts() : TensorFileCounts();
  manifest.errors = errors_->count();
  manifest.lost_records = lost_record_count_.load();
  manifest.lost_record_bytes = log_->lost_bytes();
  manifest.dropped_records = dropped_records_.load();
  manifest.dropped_files = dropped_files_.load();
  manifest.dropped_steps = dropped_steps_;
  manifest.non_finite_calls = non_finite_calls_.load();
  manifest.compared_calls = compared_calls_.load();
  manifest.differing_calls = differing_calls_.load();
  {
    const std::lock_guard lock(mutex_);
    manifest.requests = requests_;
    manifest.remarks = remarks_;
    manifest.first_non_finite = first_non_finite_;
    manifest.first_difference = first_difference_;
  }
  if (!end_seconds_) {
    NoteEnd();
  }
  manifest.engine_seconds = engine_seconds_at_end_ - engine_seconds_at_begin_;
  manifest.repeat_seconds = repeat_seconds_at_end_ - repeat_seconds_at_begin_;
  manifest.wall_seconds = *end_seconds_ - begin_seconds_;
  manifest.complete = json_written && manifest.files.lost == 0 && manifest.lost_records == 0 &&
                      manifest.lost_record_bytes == 0;
  return WriteManifest(folder_.path(), settings(), manifest);
}

Status StepRecording::Finish() {
  if (log_ == nullptr) {
    engine_->device_copies.Wait();
    closed_.store(true);
    ++engine_->totals->steps;
    return {};
  }
  const base::NoFileSizeSignal guard;
  // Whatever fails, the rest is tried: files are waited for, the lock is given up.
  Status first;
  bool json_written = false;
  bool out_of_memory = false;
  try {
    TellDifferences();
    first = FinishJson();
    json_written = first.ok();
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  }
  closed_.store(true);
  bool complete = json_written;
  try {
    if (tensor_files_ != nullptr && !tensor_files_->WaitIdle(kPatience)) {
      complete = false;
      errors_->Report("tensor files", "the disk does not accept them; their writers are abandoned");
      first = first.ok() ? IoError("tensor files are still being written") : std::move(first);
    }
    if (Status written = WriteLastManifest(complete); first.ok()) {
      first = std::move(written);
    }
  } catch (const std::bad_alloc&) {  // without a manifest a step is not complete
    out_of_memory = true;
  }
  // A log that could not be converted may still be wanted.
  if (json_written) {
    ::unlink((folder_.path() / dump::kRecordLogName).c_str());
    log_->CloseUnwritten();
  } else {
    log_->Close();
  }
  ++engine_->totals->steps;
  if (out_of_memory && first.ok()) {
    return InternalError(fmt::format("no memory to finish step {}", step()));
  }
  return first;
}

void StepRecording::AbandonAfterFork() {
  if (log_ != nullptr) {
    ::close(log_->descriptor_after_fork());
  }
}

json::Writer::NonFinite StepRecording::non_finite() const {
  return settings().strict_json ? json::Writer::NonFinite::kText : json::Writer::NonFinite::kPython;
}

}  // namespace msprobe::capture
