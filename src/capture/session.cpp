#include "src/capture/session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "msprobe/status.h"

#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/threads.h"
#include "src/capture/step_folder.h"
#include "src/device/device.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

void AppendNumber(uint32_t number, std::string& out) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

}  // namespace

uint32_t Stacks::Register(const std::vector<dump::LogFrame>& frames) {
  std::string key;
  for (const dump::LogFrame& frame : frames) {
    AppendNumber(static_cast<uint32_t>(frame.line), key);
    for (const std::string_view text : {frame.file, frame.function}) {
      AppendNumber(static_cast<uint32_t>(text.size()), key);
      key += text;
    }
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = id_by_key_.find(key); found != id_by_key_.end()) {
    return found->second;
  }
  const auto id = static_cast<uint32_t>(stacks_.size());
  Stack& stack = stacks_.emplace_back();
  stack.key = key;
  stack.frames = frames;
  // From the caller's texts to ours.
  size_t at = 0;
  const auto own = [&](std::string_view text) {
    at += sizeof(uint32_t);
    const std::string_view result = std::string_view(stack.key).substr(at, text.size());
    at += text.size();
    return result;
  };
  for (dump::LogFrame& frame : stack.frames) {
    at += sizeof(uint32_t);
    frame.file = own(frame.file);
    frame.function = own(frame.function);
  }
  id_by_key_.emplace(stack.key, id);
  return id;
}

const std::vector<dump::LogFrame>* Stacks::Find(uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return id < stacks_.size() ? &stacks_[id].frames : nullptr;
}

namespace {

// Level L2: the runtime's own dump of kernels, switched on and off around one call.

// Launchers tell each process which device of its host it uses.
int32_t LocalDevice() {
  const char* text = std::getenv("LOCAL_RANK");
  const auto index = base::ParseInt(text != nullptr ? text : "");
  constexpr int64_t kMostDevices = 1024;
  return index && *index >= 0 && *index < kMostDevices ? static_cast<int32_t>(*index) : 0;
}

std::string ConfigText(const base::Path& folder) {
  std::string out;
  json::Writer json(out, 4);
  json.BeginObject();
  json.Key("dump");
  json.BeginObject();
  json.Key("dump_list");
  json.BeginArray();
  json.EndArray();
  json.Member("dump_path", folder.string());
  json.Member("dump_mode", "all");
  json.Member("dump_op_switch", "on");
  json.EndObject();
  json.EndObject();
  return out;
}

Result<device::KernelDump*> FindKernelDump() {
  device::Runtime& runtime = device::Registry::OfThisProcess().Get(device::Kind::kAcl);
  if (const Status ready = runtime.Ready(); !ready.ok()) {
    return DeviceError(fmt::format("kernels cannot be dumped: {}", ready.message()));
  }
  Result<device::KernelDump*> dump = runtime.GetKernelDump();
  if (!dump.ok()) {
    return DeviceError(fmt::format("kernels cannot be dumped: {}", dump.status().message()));
  }
  return dump;
}

// Writes kernel_config.json (kernel_config_{rank}.json) into the folder of the step and switches
// the dump on; the runtime writes its files below the same folder. kDevice where no runtime can.
Status BeginKernelDump(const StepPlace& place) {
  MSP_RETURN_IF_ERROR(CheckPlace(place));
  MSP_RETURN_IF_ERROR(CheckOtherRuns(place));
  MSP_ASSIGN_OR_RETURN(device::KernelDump* const dump, FindKernelDump());
  MSP_RETURN_IF_ERROR(base::CreateFolders(place.step_path()));
  // The runtime may have another working directory in mind.
  std::error_code error;
  const base::Path folder = std::filesystem::canonical(place.step_path(), error);
  if (error) {
    return IoError(
        fmt::format("cannot resolve {}: {}", place.step_path().string(), error.message()));
  }
  const base::Path config = folder / (place.rank ? fmt::format("kernel_config_{}.json", *place.rank)
                                                 : std::string("kernel_config.json"));
  MSP_RETURN_IF_ERROR(
      base::WriteFileAtomically(config, ConfigText(folder), base::Existing::kReplace));
  device::KernelDumpOptions options;
  options.device = LocalDevice();
  options.config_path = config.string();
  return dump->Begin(options);
}

Status EndKernelDump() {
  MSP_ASSIGN_OR_RETURN(device::KernelDump* const dump, FindKernelDump());
  return dump->End();
}

// Steps whose files are on their way; further ones are dropped.
constexpr size_t kMostUnfinishedSteps = 8;

void WriteInBackground(StepRecording& recording) {
  try {
    if (const Status status = recording.Finish(); !status.ok()) {
      base::LogWarning(fmt::format("step {}: {}", recording.step(), status.message()));
    }
  } catch (const std::exception&) {  // no memory: without a manifest the step is not complete
  }
}

}  // namespace

// Two sides decide who takes the step: the first to change `state`.
struct Session::BeginningStep {
  enum class State : uint8_t { kBegins, kMade, kGivenUp, kOver };
  std::promise<Result<std::shared_ptr<StepRecording>>> made;
  std::atomic<State> state{State::kBegins};
};

Result<std::unique_ptr<Session>> Session::Open(Settings settings) {
  MSP_ASSIGN_OR_RETURN(Filters filters, Filters::Create(settings));
  for (const std::string& warning : settings.warnings) {
    base::LogWarning(warning);
  }
  std::string json = SettingsJson(settings);
  auto engine = std::make_shared<Engine>(std::move(settings), std::move(filters));
  return std::unique_ptr<Session>(new Session(std::move(engine), std::move(json)));
}

Session::Session(std::shared_ptr<Engine> engine, std::string settings_json)
    : engine_(std::move(engine)),
      settings_json_(std::move(settings_json)),
      stacks_(std::make_unique<Stacks>()),
      process_id_(::getpid()),
      has_windows_(engine_->filters.has_windows()) {
  if (engine_->budget.exists()) {
    const auto run = [](std::function<void()>& task) { task(); };
    begins_ = std::make_unique<Tasks>(Tasks::Rules{.most = 2}, run);
    ends_ = std::make_unique<Tasks>(Tasks::Rules{.most = kMostUnfinishedSteps + 1}, run);
  }
}

Session::~Session() {
  if (const Status status = Close(); !status.ok()) {
    base::LogWarning(fmt::format("the last step: {}", status.message()));
  }
}

bool Session::IsSelected(int64_t step) const {
  const std::vector<int64_t>& steps = engine_->settings.steps;
  return steps.empty() || std::binary_search(steps.begin(), steps.end(), step);
}

bool Session::IsRankSelected(std::optional<int64_t> rank) {
  const std::vector<int64_t>& ranks = engine_->settings.ranks;
  if (ranks.empty() || engine_->settings.level == Level::kDebug) {
    return true;
  }
  if (!rank && !std::exchange(told_unknown_rank_, true)) {
    base::LogWarning(
        "\"rank\" selects ranks, but the rank of this process is not known: nothing is captured "
        "until it is");
    base::LogHint("initialise the process group before the first start, or leave \"rank\" empty");
  }
  return rank && std::binary_search(ranks.begin(), ranks.end(), *rank);
}

Result<Session::Outcome> Session::Start(std::optional<int64_t> rank) {
  const std::lock_guard life(life_mutex_);
  const Settings& settings = engine_->settings;
  const int64_t step = current_step();
  if (engine_->finished.load() || (!settings.steps.empty() && step > settings.steps.back())) {
    return Outcome::kFinished;
  }
  if (!IsSelected(step) || !IsRankSelected(rank)) {
    return Outcome::kOff;
  }
  rank_ = rank;
  if (settings.level == Level::kL2) {
    kernels_wanted_.store(true);
    return Outcome::kOn;
  }
  std::optional<std::vector<TensorSlice>> slices = SlicesOfBatch();
  if (!slices) {
    return Outcome::kOff;
  }
  if (const std::shared_ptr<StepRecording> running = recording()) {
    running->SetBatch(std::exchange(batch_, {}), *std::move(slices));
    if (rank && running->rank() != rank) {
      MSP_RETURN_IF_ERROR(running->MoveToRank(*rank), "moving the step to rank ",
                          std::to_string(*rank));
    }
    return Outcome::kOn;
  }
  engine_->budget.BeginStep();
  if (engine_->online != nullptr) {
    engine_->online->BeginStep();
  }
  MSP_ASSIGN_OR_RETURN(std::shared_ptr<StepRecording> begun, BeginRecording(step, rank));
  if (begun == nullptr) {
    return Outcome::kOff;
  }
  begun->SetBatch(std::exchange(batch_, {}), *std::move(slices));
  const std::lock_guard lock(mutex_);
  recording_ = std::move(begun);
  return Outcome::kOn;
}

Status Session::SetBatch(std::vector<RequestRows> requests) {
  int64_t end = 0;
  for (const RequestRows& rows : requests) {
    if (rows.begin != end || rows.end <= rows.begin) {
      return UsageError(fmt::format("the rows of request {} do not follow those before", rows.id));
    }
    end = rows.end;
  }
  const std::lock_guard life(life_mutex_);
  batch_ = std::move(requests);
  return {};
}

std::optional<std::vector<TensorSlice>> Session::SlicesOfBatch() {
  std::vector<TensorSlice> slices = engine_->settings.slices;
  const std::string& wanted = engine_->settings.request_id;
  if (wanted.empty() || batch_.empty()) {
    return slices;
  }
  std::optional<TensorSlice> rows = RowsOf(batch_, wanted);
  if (!rows) {
    batch_.clear();
    if (!std::exchange(told_missing_request_, true)) {
      base::LogInfo(
          fmt::format("request {} is not in this step's batch: steps without it are not "
                      "recorded",
                      wanted));
    }
    return std::nullopt;
  }
  slices.push_back(*rows);
  return slices;
}

Result<std::shared_ptr<StepRecording>> Session::BeginRecording(int64_t step,
                                                               std::optional<int64_t> rank) {
  if (begins_ == nullptr) {
    return StepRecording::Begin(engine_, step, rank);
  }
  Result<std::shared_ptr<StepRecording>> begun = BeginWithinBudget(step, rank);
  if (begun.ok() && *begun == nullptr) {
    ++engine_->dropped_steps;
    ++engine_->totals->dropped_steps;
  }
  return begun;
}

Result<std::shared_ptr<StepRecording>> Session::BeginWithinBudget(int64_t step,
                                                                  std::optional<int64_t> rank) {
  using State = BeginningStep::State;
  auto beginning = std::make_shared<BeginningStep>();
  std::function<void()> begin = [engine = engine_, step, rank, beginning] {
    Result<std::shared_ptr<StepRecording>> begun = [&]() -> Result<std::shared_ptr<StepRecording>> {
      try {
        return StepRecording::Begin(engine, step, rank);
      } catch (const std::exception& error) {
        return InternalError(error.what());
      }
    }();
    State expected = State::kBegins;
    if (beginning->state.compare_exchange_strong(expected, State::kMade)) {
      beginning->made.set_value(std::move(begun));
      return;
    }
    if (begun.ok()) {
      (*begun)->CountDroppedCall();  // an empty dump that says why
      WriteInBackground(**begun);
    }
    beginning->state.store(State::kOver);
  };
  const bool last_is_over = last_beginning_ == nullptr ||
                            last_beginning_->state.load() == State::kMade ||
                            last_beginning_->state.load() == State::kOver;
  std::future<Result<std::shared_ptr<StepRecording>>> made = beginning->made.get_future();
  if (!last_is_over || !ends_->has_room() || begins_->TryAdd(begin) != Tasks::Added::kYes) {
    return std::shared_ptr<StepRecording>();
  }
  last_beginning_ = beginning;
  State expected = State::kBegins;
  if (made.wait_for(engine_->budget.patience()) != std::future_status::ready &&
      beginning->state.compare_exchange_strong(expected, State::kGivenUp)) {
    return std::shared_ptr<StepRecording>();
  }
  return made.get();
}

Status Session::Stop() {
  const std::lock_guard life(life_mutex_);
  const std::shared_ptr<StepRecording> running = recording();
  // A program that must not wait gets its JSON files when the step is over.
  return running != nullptr && ends_ == nullptr ? running->WriteJson() : Status();
}

Status Session::BeginKernelDump() {
  const std::lock_guard life(life_mutex_);
  if (!kernels_wanted_.load()) {
    return UsageError("kernels are dumped at level L2, between start and stop of a selected step");
  }
  MSP_RETURN_IF_ERROR(capture::BeginKernelDump({engine_->root, current_step(), rank_}));
  kernels_dumped_ = true;
  return {};
}

Status Session::EndKernelDump() {
  const std::lock_guard life(life_mutex_);
  kernels_dumped_ = false;
  return capture::EndKernelDump();
}

Status Session::FinishRecording() {
  kernels_wanted_.store(false);
  if (std::exchange(kernels_dumped_, false)) {
    MSP_RETURN_IF_ERROR(capture::EndKernelDump());
  }
  std::shared_ptr<StepRecording> running;
  {
    const std::lock_guard lock(mutex_);
    running = std::move(recording_);
    recording_ = nullptr;
  }
  if (ends_ == nullptr || running == nullptr) {
    return running != nullptr ? running->Finish() : Status();
  }
  {
    const std::lock_guard lock(open_calls_mutex_);
    open_calls_.clear();
  }
  running->NoteEnd();
  std::function<void()> end = [running] { WriteInBackground(*running); };
  return ends_->TryAdd(end) == Tasks::Added::kYes ? Status()
                                                  : running->Finish();  // there is no thread
}

Status Session::Step() {
  const std::lock_guard life(life_mutex_);
  // Whatever becomes of the end of this step, the next one has a number of its own.
  struct Advance {
    Session& session;
    ~Advance() {
      const std::lock_guard lock(session.mutex_);
      ++session.current_step_;
    }
  };
  Status status;
  {
    const Advance advance{*this};
    status = FinishRecording();
  }
  const std::lock_guard lock(engine_->filters_mutex);
  engine_->filters.NextStep();
  return status;
}

Status Session::SetInitStep(int64_t step) {
  if (step < 0) {
    return UsageError(fmt::format("the first step cannot be {}: steps count from 0", step));
  }
  const std::lock_guard life(life_mutex_);
  Status status = FinishRecording();
  const std::lock_guard lock(mutex_);
  current_step_ = step;
  return status;
}

int64_t Session::current_step() const {
  const std::lock_guard lock(mutex_);
  return current_step_;
}

bool Session::InOwnProcess() const { return ::getpid() == process_id_; }

Status Session::Close() {
  const std::lock_guard life(life_mutex_);
  Status status = FinishRecording();
  begins_.reset();
  ends_.reset();
  if (engine_->online != nullptr) {
    engine_->online->Close();
  }
  engine_->writers->Shutdown(kPatience);
  return status;
}

std::shared_ptr<StepRecording> Session::recording() const {
  const std::lock_guard lock(mutex_);
  return recording_;
}

Wanted Session::Ask(std::string_view name, Wanted (Filters::*question)(std::string_view)) {
  if ((recording() == nullptr && !kernels_wanted_.load()) || engine_->finished.load()) {
    return {};
  }
  const std::lock_guard lock(engine_->filters_mutex);
  Wanted wanted = (engine_->filters.*question)(name);
  if (engine_->settings.task == Task::kStructure ||
      (engine_->online != nullptr && !OnlineCalls::IsSent(name))) {
    wanted.input = false;
    wanted.output = false;
  }
  return wanted;
}

bool Session::IsOutOfTime(StepRecording& recording, std::string_view name) {
  if (engine_->budget.has_time()) {
    const std::lock_guard lock(open_calls_mutex_);
    open_calls_.emplace(name);
    return false;
  }
  recording.CountDroppedCall();
  return true;
}

Wanted Session::Enter(std::string_view name) {
  if (!engine_->budget.exists()) {
    return Ask(name, &Filters::Enter);
  }
  const std::shared_ptr<StepRecording> running = recording();
  // Only windows need to know of every call.
  if (running != nullptr && !has_windows_ && !engine_->budget.has_time()) {
    running->CountDroppedCall();
    return {};
  }
  const Wanted wanted = Ask(name, &Filters::Enter);
  const bool any = wanted.input || wanted.output;
  return running != nullptr && any && IsOutOfTime(*running, name) ? Wanted() : wanted;
}

Wanted Session::Leave(std::string_view name) {
  if (!engine_->budget.exists()) {
    return Ask(name, &Filters::Leave);
  }
  const bool began_in_time = [&] {
    const std::lock_guard lock(open_calls_mutex_);
    return open_calls_.erase(std::string(name)) > 0;
  }();
  const bool left_out = !began_in_time && !engine_->budget.has_time();
  if (left_out && !has_windows_) {
    return {};
  }
  const Wanted wanted = Ask(name, &Filters::Leave);
  return left_out ? Wanted() : wanted;
}

bool Session::WantsParametersGrad(std::string_view module) {
  if (recording() == nullptr || engine_->finished.load() ||
      engine_->settings.task == Task::kStructure || engine_->online != nullptr ||
      !engine_->budget.has_time()) {
    return false;
  }
  const std::lock_guard lock(engine_->filters_mutex);
  return engine_->filters.WantsParametersGrad(module);
}

Status Session::SetConstruct(std::string_view name, std::optional<std::string_view> parent) {
  const std::shared_ptr<StepRecording> running = recording();
  return running != nullptr && engine_->budget.has_time() ? running->SetConstruct(name, parent)
                                                          : Status();
}

uint32_t Session::RegisterStack(const std::vector<dump::LogFrame>& frames) {
  return stacks_->Register(frames);
}

Status Session::SetStack(std::string_view name, uint32_t id) {
  const std::shared_ptr<StepRecording> running = recording();
  if (running == nullptr) {
    return {};
  }
  const std::vector<dump::LogFrame>* frames = stacks_->Find(id);
  if (frames == nullptr) {
    return UsageError(fmt::format("no stack has the id {}", id));
  }
  return running->SetStack(name, id, *frames);
}

Status Session::FillStatistics(uint64_t ticket, const std::array<double, 4>& values) {
  const std::shared_ptr<StepRecording> running = recording();
  if (ticket == 0) {
    return {};
  }
  return running != nullptr ? running->FillStatistics(ticket, values)
                            : UsageError("no step records now");
}

void Session::ReportError(std::string_view name, std::string_view text) {
  if (const std::shared_ptr<StepRecording> running = recording()) {
    running->ReportError(name, text);
  } else {
    base::LogWarning(fmt::format("{}: {}", name, text));
  }
}

void Session::CountLostRecord() noexcept {
  if (const std::shared_ptr<StepRecording> running = recording()) {
    running->CountLostRecord();
  }
}

std::unique_ptr<Entry> Session::BeginEntry(std::string_view name) {
  std::shared_ptr<StepRecording> running = recording();
  if (running == nullptr || engine_->finished.load() ||
      engine_->settings.task == Task::kStructure) {
    return nullptr;
  }
  std::unique_ptr<Entry> entry = engine_->entries.Take();
  entry->Begin(std::move(running), name);
  return entry;
}

std::unique_ptr<Entry> Session::BeginPendingEntry(uint64_t ticket) {
  std::shared_ptr<StepRecording> running = recording();
  if (running == nullptr || engine_->finished.load()) {
    return nullptr;
  }
  const std::optional<PendingPlace> place = running->FindPlace(ticket);
  if (!place) {
    return nullptr;
  }
  std::unique_ptr<Entry> entry = engine_->entries.Take();
  entry->BeginPending(std::move(running), ticket, *place);
  return entry;
}

std::unique_ptr<Session> Session::AfterFork(std::unique_ptr<Session> parents) {
  // Never freed: its mutexes may be held by threads that do not exist here.
  Session* const old = parents.release();
  Engine& old_engine = *old->engine_;
  old_engine.abandoned.store(true);
  if (old_engine.online != nullptr) {
    old_engine.online->AbandonAfterFork();
  }
  if (old->recording_ != nullptr) {
    old->recording_->AbandonAfterFork();
  }
  Result<Filters> filters = Filters::Create(old_engine.settings);
  if (!filters.ok()) {
    return nullptr;
  }
  auto engine = std::make_shared<Engine>(old_engine.settings, *std::move(filters));
  engine->finished.store(old_engine.finished.load());
  engine->overflow_hits.store(old_engine.overflow_hits.load());
  std::unique_ptr<Session> session(new Session(std::move(engine), old->settings_json_));
  session->current_step_ = old->current_step_;
  return session;
}

}  // namespace msprobe::capture
