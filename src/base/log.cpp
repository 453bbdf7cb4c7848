#include "src/base/log.h"

#include <cstdlib>
#include <memory>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "src/base/strings.h"

namespace msprobe::base {
namespace {

struct Style {
  std::string_view word;
  std::string_view color;
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

LogLevel LevelFromEnvironment() {
  const char* text = std::getenv("MSPROBE_LOG_LEVEL");
  if (text != nullptr && text[0] >= '0' && text[0] <= '4' && text[1] == '\0') {
    return static_cast<LogLevel>(text[0] - '0');
  }
  return LogLevel::kInfo;
}

std::string (*g_translate)(std::string_view) = nullptr;

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("msprobe",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(ToSpdlog(LevelFromEnvironment()));
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

void Write(LogLevel level, Style style, std::string_view text) {
  // On a terminal a progress line may stand where we print: return to its start and clear it.
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  static const bool color = WantsColor(STDERR_FILENO);
  std::string line = terminal ? "\r\x1b[K" : "";
  if (!style.word.empty()) {
    line += color ? style.color : "";
    line += g_translate != nullptr ? g_translate(style.word) : std::string(style.word);
    line += color ? "\x1b[0m" : "";
  }
  // The text may quote a file.
  line += Printable(g_translate != nullptr ? g_translate(text) : std::string(text), "\n\t");
  Logger().log(ToSpdlog(level), line);
}

}  // namespace

void SetLogTranslation(std::string (*translate)(std::string_view text)) { g_translate = translate; }

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

void LogDebug(std::string_view text) { Write(LogLevel::kDebug, {"debug: ", "\x1b[2m"}, text); }

void LogInfo(std::string_view text) { Write(LogLevel::kInfo, {}, text); }

void LogWarning(std::string_view text) {
  Write(LogLevel::kWarning, {"warning: ", "\x1b[33m"}, text);
}

void LogError(std::string_view text) { Write(LogLevel::kError, {"error: ", "\x1b[1;31m"}, text); }

void LogGate(std::string_view text) { Write(LogLevel::kError, {"failed: ", "\x1b[1;31m"}, text); }

void LogHint(std::string_view text) { Write(LogLevel::kError, {"  hint: ", "\x1b[36m"}, text); }

bool WantsColor(int stream) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_color != nullptr && no_color[0] != '\0') {
    return false;
  }
  return ::isatty(stream) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace msprobe::base
