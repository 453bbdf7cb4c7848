#include "src/profile/common/trace_events.h"

#include <bit>
#include <utility>

#include <fmt/format.h>

#include "src/base/number_text.h"
#include "src/json/stream_reader.h"
#include "src/profile/common/time_sum.h"

namespace msprobe::profile {
namespace {

using Kind = ArgumentValue::Kind;

constexpr int kDeepest = 64;

constexpr std::array<std::string_view, static_cast<size_t>(Argument::kCount)> kArgumentKeys = {
    "name",      "sort_index", "Input Dims",     "Input type",     "stream",
    "Device Id", "Addr",       "Bytes",          "Total Reserved", "Task Type",
    "Task Id",   "Stream Id",  "correlation_id", "Call stack",     "correlation"};

// Which of the keys begin with a letter, a bit for each: nearly all keys of a trace begin with
// none.
constexpr std::array<uint32_t, 128> KeysByFirstLetter() {
  std::array<uint32_t, 128> keys{};
  for (size_t index = 0; index < kArgumentKeys.size(); ++index) {
    keys[static_cast<size_t>(kArgumentKeys[index].front())] |= 1U << index;
  }
  return keys;
}
constexpr std::array<uint32_t, 128> kKeysByFirstLetter = KeysByFirstLetter();
static_assert(kArgumentKeys.size() <= 32);

Argument ArgumentOf(std::string_view key) {
  const auto letter = key.empty() ? size_t{0} : static_cast<uint8_t>(key.front());
  if (letter >= kKeysByFirstLetter.size()) {
    return Argument::kCount;
  }
  for (uint32_t keys = kKeysByFirstLetter[letter]; keys != 0; keys &= keys - 1) {
    const auto index = static_cast<size_t>(std::countr_zero(keys));
    if (kArgumentKeys[index] == key) {
      return static_cast<Argument>(index);
    }
  }
  return Argument::kCount;
}

enum class Member : uint8_t {
  kOther,
  kPhase,
  kName,
  kCategory,
  kProcess,
  kThread,
  kId,
  kStart,
  kDuration,
  kArguments
};

Member MemberOf(std::string_view key) {
  // By length first: most keys of an event are three letters or less.
  if (key == "ph") return Member::kPhase;
  if (key == "ts") return Member::kStart;
  if (key == "id") return Member::kId;
  if (key == "cat") return Member::kCategory;
  if (key == "pid") return Member::kProcess;
  if (key == "tid") return Member::kThread;
  if (key == "dur") return Member::kDuration;
  if (key == "name") return Member::kName;
  if (key == "args") return Member::kArguments;
  return Member::kOther;
}

// A place in the text that is gathered while an event is read.
struct Piece {
  size_t begin = 0;
  size_t length = 0;
};

// Collects one event after the other. Texts go into one buffer per event, so that views can be
// taken when the event is complete and the buffer does not move any more.
class EventHandler final : public json::Handler {
 public:
  explicit EventHandler(const std::function<bool(const TraceEvent&)>& visit) : visit_(visit) {}

  uint64_t events() const { return events_; }
  bool stopped() const { return stopped_; }

  bool OnNull() override {
    Scalar(Kind::kNull, "None");
    return true;
  }
  bool OnBool(bool value) override {
    Scalar(Kind::kBool, value ? "True" : "False");
    return true;
  }
  bool OnInt(int64_t value) override {
    const fmt::format_int digits(value);
    Scalar(Kind::kNumber, {digits.data(), digits.size()});
    return true;
  }
  bool OnFloat(double /*unused*/, std::string_view digits) override {
    Scalar(Kind::kNumber, digits);
    return true;
  }
  bool OnText(std::string_view value) override {
    Scalar(Kind::kText, value);
    return true;
  }
  bool OnBeginObject() override {
    ++depth_;
    if (depth_ == kInEvent) {
      Start();
    } else if (capturing_) {
      Spoil();
    }
    return true;
  }
  bool OnKey(std::string_view key) override {
    if (depth_ == kInEvent) {
      member_ = MemberOf(key);
    } else if (depth_ == kInArguments && member_ == Member::kArguments) {
      argument_ = ArgumentOf(key);
    }
    return true;
  }
  bool OnEndObject() override {
    const bool complete = depth_ == kInEvent;
    --depth_;
    return !complete || Finish();
  }
  bool OnBeginArray() override {
    ++depth_;
    if (capturing_) {
      OpenInner();
    } else if (depth_ == kInArguments + 1 && member_ == Member::kArguments &&
               argument_ != Argument::kCount) {
      capturing_ = true;
      printed_ = "[";
      joined_.clear();
      first_ = true;
    }
    return true;
  }
  bool OnEndArray() override {
    --depth_;
    if (capturing_) {
      printed_ += ']';
      first_ = false;
      if (depth_ == kInArguments) {
        capturing_ = false;
        Keep(Kind::kList, printed_, joined_);
      }
    }
    return true;
  }

 private:
  // The list of events is level 1.
  static constexpr int kInEvent = 2;
  static constexpr int kInArguments = 3;

  void Start() {
    text_.clear();
    pieces_ = {};
    kinds_ = {};
    values_ = {};
    joins_ = {};
    member_ = Member::kOther;
    argument_ = Argument::kCount;
    capturing_ = false;
  }

  Piece Append(std::string_view text) {
    const Piece piece{text_.size(), text.size()};
    text_ += text;
    return piece;
  }
  std::string_view View(const Piece& piece) const {
    return std::string_view(text_).substr(piece.begin, piece.length);
  }

  void Scalar(Kind kind, std::string_view text) {
    if (depth_ == kInEvent) {
      if (member_ != Member::kOther && kind != Kind::kNull) {
        pieces_[static_cast<size_t>(member_)] = Append(text);
      }
    } else if (capturing_) {
      Element(kind, text);
    } else if (depth_ == kInArguments && member_ == Member::kArguments &&
               argument_ != Argument::kCount) {
      Keep(kind, text, text);
    }
  }

  void Keep(Kind kind, std::string_view text, std::string_view joined) {
    const auto index = static_cast<size_t>(argument_);
    kinds_[index] = kind;
    values_[index] = Append(text);
    joins_[index] = kind == Kind::kList ? Append(joined) : values_[index];
  }

  // One element of a list that is being printed.
  void Element(Kind kind, std::string_view text) {
    if (!first_) {
      printed_ += ", ";
      joined_ += depth_ > kInArguments + 1 ? "," : ";\r\n";
    }
    first_ = false;
    if (kind == Kind::kText) {
      base::AppendPythonTextRepr(text, printed_);
    } else {
      printed_ += text;
    }
    joined_ += text;
  }

  void OpenInner() {
    if (!first_) {
      printed_ += ", ";
      joined_ += depth_ > kInArguments + 2 ? "," : ";\r\n";
    }
    printed_ += '[';
    first_ = true;
  }

  // Objects inside of lists have no place in shapes: the list is kept without them.
  void Spoil() { printed_ += first_ ? "..." : ", ..."; }

  bool Finish() {
    TraceEvent event;
    const auto view = [&](Member member) { return View(pieces_[static_cast<size_t>(member)]); };
    const std::string_view phase = view(Member::kPhase);
    event.phase = phase.empty() ? '\0' : phase.front();
    event.name = view(Member::kName);
    event.category = view(Member::kCategory);
    event.process = view(Member::kProcess);
    event.thread = view(Member::kThread);
    event.id = view(Member::kId);
    event.start_text = view(Member::kStart);
    if (!event.start_text.empty()) {
      event.start = ParseMicroseconds(event.start_text);
    }
    if (const std::string_view duration = view(Member::kDuration); !duration.empty()) {
      event.duration = ParseMicroseconds(duration);
      event.duration_us = base::ParseDouble(duration).value_or(0);
    }
    for (size_t index = 0; index < kinds_.size(); ++index) {
      if (kinds_[index] != Kind::kAbsent) {
        event.arguments[index] = {kinds_[index], View(values_[index]), View(joins_[index])};
      }
    }
    ++events_;
    stopped_ = !visit_(event);
    return !stopped_;
  }

  const std::function<bool(const TraceEvent&)>& visit_;
  uint64_t events_ = 0;
  bool stopped_ = false;

  int depth_ = 0;
  Member member_ = Member::kOther;
  Argument argument_ = Argument::kCount;
  std::string text_;
  std::array<Piece, static_cast<size_t>(Member::kArguments) + 1> pieces_;
  std::array<Kind, static_cast<size_t>(Argument::kCount)> kinds_{};
  std::array<Piece, static_cast<size_t>(Argument::kCount)> values_;
  std::array<Piece, static_cast<size_t>(Argument::kCount)> joins_;

  // Of the list that is being printed.
  bool capturing_ = false;
  bool first_ = true;
  std::string printed_;
  std::string joined_;
};

}  // namespace

std::optional<int64_t> ArgumentValue::integer() const {
  return kind == Kind::kNumber || kind == Kind::kText ? base::ParseInt(text) : std::nullopt;
}

std::optional<double> ArgumentValue::number() const {
  return kind == Kind::kNumber || kind == Kind::kText ? base::ParseDouble(text) : std::nullopt;
}

Nanoseconds TraceEvent::end() const { return SumOfTimes(start.value_or(0), duration.value_or(0)); }

Result<TraceOutcome> ForEachEvent(const std::filesystem::path& path,
                                  const std::function<bool(const TraceEvent&)>& visit) {
  MSP_ASSIGN_OR_RETURN(EventRuns runs, EventRuns::Open(path));
  EventHandler handler(visit);
  TraceOutcome outcome;
  outcome.root = runs.root();
  while (!handler.stopped()) {
    MSP_ASSIGN_OR_RETURN(const std::optional<std::string_view> run, runs.Next());
    if (!run.has_value()) {
      break;
    }
    json::ParseOutcome parsed;
    const Status status = json::ParseStream(*run, handler, &parsed, kDeepest);
    if (!status.ok()) {
      // The reader counts from the beginning of the run, which stands for the one byte in front.
      return BadFormatError(fmt::format("{} byte {}: invalid JSON in event {}: {}", path.string(),
                                        runs.offset() + parsed.error_offset - 1,
                                        handler.events() + 1, status.message()));
    }
  }
  outcome.events = handler.events();
  outcome.truncated = !handler.stopped() && runs.truncated();
  outcome.unpacks_too_far = outcome.truncated && runs.unpacks_too_far();
  return outcome;
}

}  // namespace msprobe::profile
