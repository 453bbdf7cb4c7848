#include "src/capture/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/capture/kernel_dump.h"

namespace msprobe::capture {

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
      process_id_(::getpid()) {}

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
  if (const std::shared_ptr<StepRecording> running = recording()) {
    if (rank && running->rank() != rank) {
      MSP_RETURN_IF_ERROR(running->MoveToRank(*rank), "moving the step to rank ",
                          std::to_string(*rank));
    }
    return Outcome::kOn;
  }
  MSP_ASSIGN_OR_RETURN(std::shared_ptr<StepRecording> begun,
                       StepRecording::Begin(engine_, step, rank));
  const std::lock_guard lock(mutex_);
  recording_ = std::move(begun);
  return Outcome::kOn;
}

Status Session::Stop() {
  const std::lock_guard life(life_mutex_);
  const std::shared_ptr<StepRecording> running = recording();
  return running != nullptr ? running->WriteJson() : Status();
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
  return running != nullptr ? running->Finish() : Status();
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
  if (engine_->settings.task == Task::kStructure) {
    wanted.input = false;
    wanted.output = false;
  }
  return wanted;
}

Wanted Session::Enter(std::string_view name) { return Ask(name, &Filters::Enter); }
Wanted Session::Leave(std::string_view name) { return Ask(name, &Filters::Leave); }

bool Session::WantsParametersGrad(std::string_view module) {
  if (recording() == nullptr || engine_->finished.load() ||
      engine_->settings.task == Task::kStructure) {
    return false;
  }
  const std::lock_guard lock(engine_->filters_mutex);
  return engine_->filters.WantsParametersGrad(module);
}

Status Session::SetConstruct(std::string_view name, std::optional<std::string_view> parent) {
  const std::shared_ptr<StepRecording> running = recording();
  return running != nullptr ? running->SetConstruct(name, parent) : Status();
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
