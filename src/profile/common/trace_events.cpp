#include "src/profile/common/trace_events.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/json/stream_reader.h"
#include "src/profile/common/values.h"

namespace msprobe::profile {
namespace {

// Events whose text is not JSON, spelled as JSON wants it as far as one can tell
// what was meant: bare words such as inf, backslashes and control characters that are not escaped,
// commas too many, values that are missing.

bool IsJsonWord(std::string_view word) {
  constexpr std::array<std::string_view, 6> kWords = {"true", "false",    "null",
                                                      "NaN",  "Infinity", "-Infinity"};
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) {
    return true;
  }
  size_t at = word.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = at;
    at = std::min(word.find_first_not_of("0123456789", at), word.size());
    return at > begin;
  };
  const size_t first = at;
  if (!digits() || (word[first] == '0' && at - first > 1)) {
    return false;
  }
  if (at < word.size() && word[at] == '.' && (++at, !digits())) {
    return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    at += at < word.size() && (word[at] == '+' || word[at] == '-') ? 1 : 0;
    if (!digits()) {
      return false;
    }
  }
  return at == word.size();
}

class Repair {
 public:
  Repair(std::string_view text, bool by_what_follows)
      : text_(text), by_what_follows_(by_what_follows) {}

  std::string Run() && {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (kBlanks.find(c) != std::string_view::npos) {
        out_ += c;
        ++at_;
      } else if (c == '"') {
        Text();
      } else if (kMarks.find(c) != std::string_view::npos) {
        Mark(c);
      } else {
        Word();
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r\n";
  static constexpr std::string_view kMarks = "{}[]:,";

  void Mark(char c) {
    const bool closes = c == '}' || c == ']';
    if (last_ == ':' && (closes || c == ',')) {
      out_ += "null";
    } else if (last_ == ',' && closes) {
      out_[last_at_] = ' ';
    } else if (c == ',' && (last_ == ',' || last_ == '{' || last_ == '[')) {
      ++at_;
      return;
    }
    Put(c);
  }

  void Put(char c) {
    last_ = c;
    last_at_ = out_.size();
    out_ += c;
    ++at_;
  }

  void Word() {
    const size_t end = std::min(text_.find_first_of("{}[]:,\" \t\r\n", at_ + 1), text_.size());
    std::string_view word = text_.substr(at_, end - at_);
    if (IsJsonWord(word)) {
      out_ += word;
    } else {
      if (word.size() > 1 && word.front() == '\'' && word.back() == '\'') {  // as Python prints it
        word = word.substr(1, word.size() - 2);
      }
      out_ += '"';
      for (const char c : word) {
        PutInText(c);
      }
      out_ += '"';
    }
    last_ = 'w';
    at_ = end;
  }

  // A byte that means itself.
  void PutInText(char c) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out_ += c == '\\' || c == '"' ? "\\" : "";
      out_ += c;
    }
  }

  void Text() {
    Put('"');
    while (at_ < text_.size() && !EndsHere()) {
      const size_t escaped = text_[at_] == '\\' ? EscapeLength() : 0;
      if (escaped > 0) {
        out_ += text_.substr(at_, escaped);
        at_ += escaped;
      } else {
        PutInText(text_[at_++]);
      }
    }
    if (at_ < text_.size()) {
      Put('"');
    }
  }

  bool EndsHere() const {
    return text_[at_] == '"' &&
           (!by_what_follows_ || at_ + 1 == text_.size() || IsBehindText(text_.substr(at_ + 1)));
  }

  // The length of the escape at this place; 0: the backslash means itself.
  size_t EscapeLength() const {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with('"') && by_what_follows_ && IsBehindText(rest.substr(1))) {
      return 0;
    }
    if (rest.starts_with('u')) {
      constexpr size_t kDigits = 4;
      const std::string_view digits = rest.substr(1, kDigits);
      return digits.size() == kDigits &&
                     digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos
                 ? kDigits + 2
                 : 0;
    }
    return !rest.empty() && std::string_view("\"\\/bfnrt").find(rest[0]) != std::string_view::npos
               ? 2
               : 0;
  }

  static bool IsBehindText(std::string_view rest) {
    const auto skip = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    };
    skip();
    if (rest.starts_with(',')) {
      rest.remove_prefix(1);
      skip();
      return !rest.empty() &&
             std::string_view("\"}[{-0123456789").find(rest[0]) != std::string_view::npos;
    }
    return rest.starts_with('}') || rest.starts_with(']') || rest.starts_with(':');
  }

  const std::string_view text_;
  const bool by_what_follows_;
  std::string out_;
  size_t at_ = 0;
  char last_ = '\0';    // the last mark, a quote behind a text, 'w' behind a word
  size_t last_at_ = 0;  // its place in `out_`
};

// `by_what_follows`: quotes end a text where what follows looks like that, and nowhere else: that
// of "C:\work\" does, those inside of "operator "" _a" do not.
std::string RepairedEvent(std::string_view text, bool by_what_follows) {
  return Repair(text, by_what_follows).Run();
}

using Kind = ArgumentValue::Kind;

constexpr int kDeepest = 64;

constexpr std::array<std::string_view, static_cast<size_t>(Argument::kCount)> kArgumentKeys = {
    "name",
    "sort_index",
    "Input Dims",
    "Input type",
    "stream",
    "Device Id",
    "Addr",
    "Bytes",
    "Total Reserved",
    "Task Type",
    "Task Id",
    "Stream Id",
    "correlation_id",
    "Call stack",
    "correlation",
    "Collective name",
    "Process Group Ranks",
    "Process Group Name",
    "In msg nelems"};

// The keys that begin with a letter, a bit for each: nearly all keys of a trace begin with other
// letters.
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

// An event as it is gathered. Texts go into one buffer, so that views can be taken when the event
// is complete and the buffer does not move any more.
struct Assembled {
  std::string text;
  std::array<Piece, static_cast<size_t>(Member::kArguments) + 1> pieces;
  std::array<Kind, static_cast<size_t>(Argument::kCount)> kinds{};
  std::array<Piece, static_cast<size_t>(Argument::kCount)> values;
  std::array<Piece, static_cast<size_t>(Argument::kCount)> joins;

  void Clear() {
    text.clear();
    pieces = {};
    kinds = {};
    values = {};
    joins = {};
  }
  Piece Append(std::string_view more) {
    const Piece piece{text.size(), more.size()};
    text += more;
    return piece;
  }
  std::string_view View(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.length);
  }
  std::string_view View(Member member) const { return View(pieces[static_cast<size_t>(member)]); }

  TraceEvent Event() const {
    TraceEvent event;
    const std::string_view phase = View(Member::kPhase);
    event.phase = phase.empty() ? '\0' : phase.front();
    event.name = View(Member::kName);
    event.category = View(Member::kCategory);
    event.process = View(Member::kProcess);
    event.thread = View(Member::kThread);
    event.id = View(Member::kId);
    event.start_text = View(Member::kStart);
    if (!event.start_text.empty()) {
      event.start = ParseMicroseconds(event.start_text);
    }
    if (const std::string_view duration = View(Member::kDuration); !duration.empty()) {
      event.duration = ParseMicroseconds(duration);
      event.duration_us = base::ParseDouble(duration).value_or(0);
    }
    for (size_t index = 0; index < kinds.size(); ++index) {
      if (kinds[index] != Kind::kAbsent) {
        event.arguments[index] = {kinds[index], View(values[index]), View(joins[index])};
      }
    }
    return event;
  }
};

// Events that have begun on each thread and not ended yet.
class BegunEvents {
 public:
  uint64_t joined() const { return joined_; }
  uint64_t unpaired() const { return unpaired_ + open_; }

  void Begin(const Assembled& event) {
    if (open_ == kMostOpen) {
      ++unpaired_;
      return;
    }
    by_thread_[KeyOf(event)].push_back(event);
    ++open_;
  }

  // The event that `end` ends: the last one of its name, or the last one where neither has a name.
  std::optional<Assembled> End(const Assembled& end) {
    const auto thread = by_thread_.find(KeyOf(end));
    if (thread == by_thread_.end()) {
      ++unpaired_;
      return std::nullopt;
    }
    std::vector<Assembled>& begun = thread->second;
    const std::string_view name = end.View(Member::kName);
    const size_t deepest = begun.size() - std::min(begun.size(), kMostCrossed);
    for (size_t at = begun.size(); at-- > deepest;) {
      if (name.empty() || name == begun[at].View(Member::kName)) {
        Assembled found = std::move(begun[at]);
        begun.erase(begun.begin() + static_cast<std::ptrdiff_t>(at));
        --open_;
        ++joined_;
        return found;
      }
    }
    ++unpaired_;
    return std::nullopt;
  }

 private:
  static constexpr uint64_t kMostOpen = uint64_t{1} << 16U;  // they are kept
  static constexpr size_t kMostCrossed = 64;                 // that end in another order

  static std::string KeyOf(const Assembled& event) {
    return fmt::format("{}\n{}", event.View(Member::kProcess), event.View(Member::kThread));
  }

  std::unordered_map<std::string, std::vector<Assembled>> by_thread_;
  uint64_t open_ = 0;
  uint64_t joined_ = 0;
  uint64_t unpaired_ = 0;
};

// Collects one event after the other.
class EventHandler final : public json::Handler {
 public:
  explicit EventHandler(const std::function<bool(const TraceEvent&)>& visit) : visit_(visit) {}

  uint64_t events() const { return events_; }
  bool stopped() const { return stopped_; }
  const BegunEvents& begun() const { return begun_; }
  // Forgets what was heard of the event at hand.
  void Abandon() { depth_ = 0; }

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
    event_.Clear();
    member_ = Member::kOther;
    argument_ = Argument::kCount;
    capturing_ = false;
  }

  void Scalar(Kind kind, std::string_view text) {
    if (depth_ == kInEvent) {
      if (member_ != Member::kOther && kind != Kind::kNull) {
        event_.pieces[static_cast<size_t>(member_)] = event_.Append(text);
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
    event_.kinds[index] = kind;
    event_.values[index] = event_.Append(text);
    event_.joins[index] = kind == Kind::kList ? event_.Append(joined) : event_.values[index];
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
    ++events_;
    const std::string_view phase = event_.View(Member::kPhase);
    if (phase == "B") {
      begun_.Begin(event_);
    } else if (phase == "E") {
      if (const std::optional<Assembled> begun = begun_.End(event_)) {
        TraceEvent event = begun->Event();
        const std::optional<Nanoseconds> end = event_.Event().start;
        event.phase = 'X';
        if (event.start.has_value() && end.has_value()) {
          event.duration = SumOfTimes(*end, -std::max(*event.start, -kLatest));
          event.duration_us = static_cast<double>(*event.duration) / kNsPerUs;
        }
        stopped_ = !visit_(event);
      }
    } else {
      stopped_ = !visit_(event_.Event());
    }
    return !stopped_;
  }

  static constexpr Nanoseconds kLatest = std::numeric_limits<Nanoseconds>::max();
  static constexpr double kNsPerUs = 1e3;

  const std::function<bool(const TraceEvent&)>& visit_;
  uint64_t events_ = 0;
  bool stopped_ = false;

  int depth_ = 0;
  Member member_ = Member::kOther;
  Argument argument_ = Argument::kCount;
  Assembled event_;
  BegunEvents begun_;

  // The list that is being printed.
  bool capturing_ = false;
  bool first_ = true;
  std::string printed_;
  std::string joined_;
};

// ---- Events whose text is not JSON ----

struct Stretch {
  size_t begin = 0;
  size_t end = 0;
};

// Behind the object that begins at `begin`; the end of the text where it does not end.
size_t EndOfObject(std::string_view text, size_t begin) {
  int64_t depth = 0;
  bool in_text = false;
  for (size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (in_text) {
      at += c == '\\' ? 1 : 0;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return at + 1;
    }
  }
  return text.size();
}

// Reads a run from event to event, past those that are damaged.
class RunReader {
 public:
  RunReader(EventHandler& handler, TraceOutcome& outcome) : handler_(handler), outcome_(outcome) {}

  // `offset`: of the run inside of the document.
  void Read(std::span<char> run, uint64_t offset) {
    next_start_ = 0;
    for (size_t begin = 0; begin + 1 < run.size() && !handler_.stopped();) {
      run[begin] = '[';  // on what was read already
      const std::string_view whole(run.data(), run.size());
      const std::string_view rest = whole.substr(begin);
      json::ParseOutcome parsed;
      const Status status = json::ParseStream(rest, handler_, &parsed, kDeepest);
      if (status.ok()) {
        return;
      }
      const Stretch event = EventAt(whole, begin + 1, begin + parsed.error_offset);
      handler_.Abandon();
      if (event.begin < event.end &&
          !ReadRepaired(whole.substr(event.begin, event.end - event.begin))) {
        if (outcome_.damaged++ == 0) {
          // The first byte replaces the one in front of the run.
          outcome_.first_damage = fmt::format(
              "byte {}: invalid JSON in event {}: {}", offset + begin + parsed.error_offset - 1,
              handler_.events() + outcome_.damaged, status.message());
        }
      }
      begin = std::max(event.end - 1, begin + 1);
    }
  }

 private:
  // The first event from `from` on that holds a place of the run; an empty stretch at the next one
  // where none does.
  Stretch EventAt(std::string_view run, size_t from, size_t place) {
    place = std::min(place, run.size() - 1);
    for (;;) {
      const size_t begin = std::min(run.find('{', from), run.size());
      if (begin > place || begin == run.size()) {
        return {begin, begin};
      }
      // Not further than to the next event, if a quote too many hides its beginning.
      if (next_start_ <= begin) {
        next_start_ = std::min(FindEventStart(run, begin + 1), run.size());
      }
      from = EndOfObject(run.substr(0, next_start_), begin);
      if (from > place) {
        return {begin, from};
      }
    }
  }

  bool ReadRepaired(std::string_view event) {
    const uint64_t before = handler_.events();
    for (const bool by_what_follows : {false, true}) {
      const std::string list = "[" + RepairedEvent(event, by_what_follows) + "]";
      if (json::ParseStream(list, handler_, nullptr, kDeepest).ok()) {
        return true;
      }
      handler_.Abandon();
      if (handler_.events() != before) {
        return true;
      }
    }
    return false;
  }

  EventHandler& handler_;
  TraceOutcome& outcome_;
  size_t next_start_ = 0;  // of an event, as far as one can see; what lies before was looked at
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
  RunReader reader(handler, outcome);
  while (!handler.stopped()) {
    MSP_ASSIGN_OR_RETURN(const std::optional<std::span<char>> run, runs.Next());
    if (!run.has_value()) {
      break;
    }
    reader.Read(*run, runs.offset());
  }
  outcome.events = handler.events();
  outcome.joined = handler.begun().joined();
  outcome.unpaired = handler.begun().unpaired();
  outcome.truncated = !handler.stopped() && runs.truncated();
  outcome.unpacks_too_far = outcome.truncated && runs.unpacks_too_far();
  return outcome;
}

}  // namespace msprobe::profile
