#include "src/online/sender.h"

#include <algorithm>
#include <exception>
#include <new>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/base/threads.h"

namespace msprobe::online {
namespace {

constexpr std::chrono::milliseconds kFirstPause{500};
constexpr std::chrono::milliseconds kLongestPause{15'000};
constexpr std::chrono::milliseconds kNewsWait{20};
constexpr std::chrono::milliseconds kIdleWait{1000};

uint64_t NewSession() {
  std::random_device random;
  return (uint64_t{random()} << 32U) | random();
}

}  // namespace

Sender::Sender(SenderOptions options, std::optional<TlsContext> tls, uint64_t session)
    : options_(std::move(options)), tls_(std::move(tls)), session_(session) {}

Result<std::unique_ptr<Sender>> Sender::Start(SenderOptions options) {
  std::optional<TlsContext> tls;
  if (!options.endpoint.is_folder() && !options.endpoint.tls_folder.empty()) {
    MSP_ASSIGN_OR_RETURN(TlsContext made,
                         TlsContext::Create(options.endpoint.tls_folder, Side::kTraining));
    tls.emplace(std::move(made));
  }
  std::unique_ptr<Sender> sender(new Sender(std::move(options), std::move(tls), NewSession()));
  MSP_ASSIGN_OR_RETURN(sender->thread_, base::StartBackgroundThread([self = sender.get()] {
                         try {
                           self->Loop();
                         } catch (const std::exception&) {  // no memory: nothing is sent any more
                           const std::lock_guard lock(self->mutex_);
                           self->is_refused_ = true;
                           self->is_connected_ = false;
                           self->DropAll();
                         }
                       }));
  return sender;
}

Sender::~Sender() { Close(); }

bool Sender::Queue(Call call) noexcept {
  const uint64_t tensor_bytes = call.tensor_bytes();
  const uint64_t record_bytes = call.record.size() + call.name.size();
  {
    const std::lock_guard lock(mutex_);
    const bool has_room = !is_refused_ && !closing_since_ && items_.size() < kMostWaitingCalls &&
                          waiting_record_bytes_ + record_bytes <= kMostWaitingRecordBytes;
    if (has_room) {
      if (items_.empty()) {
        last_progress_ = Clock::now();  // what was idle did not stall
      }
      try {
        items_.push_back({std::move(call), record_bytes, tensor_bytes, 0});
        waiting_record_bytes_ += record_bytes;
        ++counts_.queued_calls;
        changed_.notify_all();
        return true;
      } catch (const std::bad_alloc&) {  // as if there were no room
      }
    }
  }
  CountDropped(tensor_bytes);
  return false;
}

void Sender::CountDropped(uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  ++counts_.dropped_calls;
  counts_.dropped_bytes += bytes;
}

bool Sender::is_refused() const {
  const std::lock_guard lock(mutex_);
  return is_refused_;
}

bool Sender::is_moving() const {
  const std::lock_guard lock(mutex_);
  return is_connected_ && !is_refused_ && Clock::now() - last_progress_ < kStallSeconds;
}

SenderCounts Sender::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Sender::DropAll() {
  // Files that were sent to a folder stay there.
  for (size_t i = is_durable_ ? next_ : 0; i < items_.size(); ++i) {
    ++counts_.dropped_calls;
    counts_.dropped_bytes += items_[i].tensor_bytes;
  }
  items_.clear();
  next_ = 0;
  waiting_record_bytes_ = 0;
}

bool Sender::MaySend() const {
  const std::lock_guard lock(mutex_);
  if (!closing_since_) {
    return true;
  }
  const Clock::time_point now = Clock::now();
  return now - *closing_since_ < options_.closing_patience &&
         now - std::max(last_progress_, *closing_since_) < kStallSeconds;
}

bool Sender::IsOver() {
  const bool may_send = MaySend();
  const std::lock_guard lock(mutex_);
  if (is_refused_) {
    DropAll();
    return closing_since_.has_value();
  }
  if (!closing_since_) {
    return false;
  }
  if (!may_send) {
    DropAll();
  }
  const bool all_sent = items_.empty() || (is_durable_ && next_ == items_.size());
  return all_sent;
}

void Sender::Loop() {
  std::unique_ptr<Channel> channel;
  while (!IsOver()) {
    if (channel == nullptr) {
      channel = Connect();
    } else if (const Status status = Turn(*channel); !status.ok()) {
      Lose(*channel, status);
      channel.reset();
    }
  }
  if (channel != nullptr) {
    SayGoodbye(*channel);
  }
}

std::unique_ptr<Channel> Sender::Connect() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, is_refused_ ? kLongestPause : pause_,
                      [this] { return closing_since_.has_value(); });
    if (is_refused_) {
      return nullptr;
    }
  }
  const uint64_t taken = [this] {
    const std::lock_guard lock(mutex_);
    return !items_.empty() && items_.front().sequence != 0 ? items_.front().sequence - 1
                                                           : last_sequence_;
  }();
  Result<std::unique_ptr<Channel>> opened =
      options_.endpoint.is_folder()
          ? OpenFolderChannel(options_.endpoint, session_, options_.hello,
                              options_.most_folder_bytes)
          : OpenSocketChannel(options_.endpoint, tls_ ? &*tls_ : nullptr, session_, taken,
                              options_.hello, descriptor_, [this] { return MaySend(); });
  if (!opened.ok()) {
    const bool is_final = opened.status().code() == StatusCode::kUsage;
    if (!std::exchange(told_failure_, true)) {
      base::LogWarning(fmt::format("online check: {} cannot be reached: {}",
                                   options_.endpoint.text(), opened.status().message()));
      base::LogHint(is_final ? "training continues; nothing is checked"
                             : "training continues; it is tried again, and calls that find no room "
                               "are dropped and counted");
    }
    const std::lock_guard lock(mutex_);
    if (is_final) {
      is_refused_ = true;
    } else if (closing_since_) {
      DropAll();  // no checker is connected
    }
    pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
    return nullptr;
  }
  if (std::exchange(told_failure_, false)) {
    base::LogInfo(fmt::format("online check: {} is there again", options_.endpoint.text()));
  }
  pause_ = std::chrono::milliseconds(0);
  const std::lock_guard lock(mutex_);
  is_connected_ = true;
  is_durable_ = (*opened)->is_durable();
  last_progress_ = Clock::now();
  ++counts_.connections;
  return *std::move(opened);
}

Status Sender::Turn(Channel& channel) {
  const Call* call = nullptr;  // only this thread takes items away
  uint64_t sequence = 0;
  bool waits_for_news = false;
  {
    std::unique_lock lock(mutex_);
    if (items_.empty()) {
      changed_.wait_for(lock, kIdleWait,
                        [this] { return !items_.empty() || closing_since_.has_value(); });
    }
    waits_for_news = next_ > 0;
    if (next_ < items_.size()) {
      Item& item = items_[next_];
      if (item.sequence == 0) {
        item.sequence = last_sequence_ + 1;
      }
      sequence = item.sequence;
      call = &item.call;
    }
  }
  if (call != nullptr) {
    const Result<Frame> frame = CallFrame(session_, sequence, *call);
    const Status sent =
        frame.ok() ? channel.Send(*frame, sequence, [this] { return MaySend(); }) : OkStatus();
    MSP_RETURN_IF_ERROR(sent);
    const std::lock_guard lock(mutex_);
    Item& item = items_[next_];
    if (!frame.ok()) {  // too large in some way: it is as if it had not been queued
      ++counts_.dropped_calls;
      counts_.dropped_bytes += item.tensor_bytes;
      waiting_record_bytes_ -= item.record_bytes;
      items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(next_));
      return {};
    }
    last_sequence_ = std::max(last_sequence_, sequence);
    ++next_;
    last_progress_ = Clock::now();  // the channel takes bytes
    if (channel.is_durable()) {
      item.call = {};  // its memory is free
      waiting_record_bytes_ -= std::exchange(item.record_bytes, 0);
      ++counts_.taken_calls;
    }
  }
  MSP_ASSIGN_OR_RETURN(
      const uint64_t taken,
      channel.Taken(call != nullptr || !waits_for_news ? std::chrono::milliseconds(0) : kNewsWait));
  Acknowledge(taken);
  return {};
}

void Sender::Acknowledge(uint64_t taken) {
  std::vector<Call> done;  // freed without the lock
  const std::lock_guard lock(mutex_);
  while (next_ > 0 && items_.front().sequence <= taken) {
    waiting_record_bytes_ -= items_.front().record_bytes;
    counts_.taken_calls += is_durable_ ? 0 : 1;
    done.push_back(std::move(items_.front().call));
    items_.pop_front();
    --next_;
    last_progress_ = Clock::now();
  }
}

void Sender::Lose(const Channel& channel, const Status& why) {
  if (MaySend() && !std::exchange(told_failure_, true)) {
    base::LogWarning(
        fmt::format("online check: {} is lost: {}", options_.endpoint.text(), why.message()));
    base::LogHint(
        "training continues; it is tried again, and calls that find no room are dropped "
        "and counted");
  }
  const std::lock_guard lock(mutex_);
  is_connected_ = false;
  is_refused_ = is_refused_ || why.code() == StatusCode::kUsage;
  if (!channel.is_durable()) {
    next_ = 0;  // sent again: the checker knows the numbers that it has
  }
  pause_ = std::max(pause_, kFirstPause);
}

void Sender::SayGoodbye(Channel& channel) {
  End end;
  {
    const std::lock_guard lock(mutex_);
    end = {counts_.taken_calls, counts_.dropped_calls, counts_.dropped_bytes};
  }
  Status status =
      channel.Send(EndFrame(session_, last_sequence_, end), 0, [this] { return MaySend(); });
  if (status.ok() && !channel.is_durable()) {
    // It answers, so that nothing is lost with the connection.
    const Result<uint64_t> taken = channel.Taken(kStallSeconds);
    status = taken.ok() ? Status() : taken.status();
  }
  if (!status.ok()) {
    base::LogWarning(fmt::format("online check: {} did not receive the end: {}",
                                 options_.endpoint.text(), status.message()));
  }
}

void Sender::Close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (closing_since_) {
      return;
    }
    closing_since_ = Clock::now();
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  try {
    const SenderCounts counts = this->counts();
    const std::string told =
        fmt::format("online check: {} went to {}", base::Plural(counts.taken_calls, "call"),
                    options_.endpoint.text());
    if (counts.dropped_calls > 0) {
      base::LogWarning(fmt::format("{}; {} ({}) were dropped, because there was no room for them",
                                   told, base::Plural(counts.dropped_calls, "call"),
                                   base::FormatBytes(counts.dropped_bytes)));
    } else {
      base::LogInfo(told);
    }
  } catch (const std::bad_alloc&) {  // it is only logged
  }
}

}  // namespace msprobe::online
