// Log lines for people, on stderr: "warning: ...", coloured on a terminal unless NO_COLOR is set.
// Results go to stdout or files and never through here.
#pragma once

#include <string_view>

namespace msprobe::base {

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

// True when colours are wanted on this stream (1 stdout, 2 stderr): a terminal, no NO_COLOR, TERM
// not "dumb".
bool WantsColor(int stream);

}  // namespace msprobe::base
