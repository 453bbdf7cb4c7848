// Log lines for people, on stderr: "warning: ...", coloured on a terminal unless NO_COLOR is set.
// Results go to stdout or files and never through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msprobe::base {

// Warnings that a file may have any number of: the first ones are written in order, the rest is
// counted. One broken writer breaks all rows alike, and a few bytes may stand for thousands of
// things that are missing.

class LimitedWarnings {
 public:
  static constexpr size_t kUsual = 8;
  static constexpr size_t kOfRows = 20;  // of a table or a list, which people correct line by line

  // Writes `most` to the end of `texts`, which must live as long.
  explicit LimitedWarnings(std::vector<std::string>& texts, size_t most = kUsual)
      : texts_(texts), most_(most) {}

  void Add(std::string text) {
    if (written_ < most_) {
      texts_.push_back(std::move(text));
      ++written_;
    } else {
      ++more_;
    }
  }
  // Warnings that were counted but not formatted.
  void Count(uint64_t more) { more_ += more; }

  // How many are not written: for one last text that says so.
  uint64_t more() const { return more_; }

 private:
  std::vector<std::string>& texts_;
  const size_t most_;
  size_t written_ = 0;
  uint64_t more_ = 0;
};

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// The initial level is MSPROBE_LOG_LEVEL (0 debug ... 4 off), default info.
void SetLogLevel(LogLevel level);

void LogDebug(std::string_view text);
void LogInfo(std::string_view text);
void LogWarning(std::string_view text);
void LogError(std::string_view text);
// A condition that the user set holds: "failed: ...", where errors are shown.
void LogGate(std::string_view text);
// A remedy, printed under the line it belongs to.
void LogHint(std::string_view text);

// Texts of log lines go through this before they are written, to become those of another language;
// null: as they are. "warning: " and the other words in front are texts, too.
void SetLogTranslation(std::string (*translate)(std::string_view text));

// True when colours are wanted on this stream (1 stdout, 2 stderr): a terminal, no NO_COLOR, TERM
// not "dumb".
bool WantsColor(int stream);

}  // namespace msprobe::base
