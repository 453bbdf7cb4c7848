// The screen of `monitor top`: a run that is followed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "src/analysis/monitor/top/run_follower.h"
#include "src/report/document.h"
#include "src/report/screen.h"
#include "src/report/texts.h"

namespace msprobe::commands {

// What the keys do and the columns mean, in two paragraphs.
inline constexpr std::string_view kTopExplained =
    R"(Keys: q quit, p pause, t next table, o next statistic, / search, ? this help, arrows and page keys scroll.

Score: distance of the newest value from the median of the values before it (up to 47), in units of their usual spread
(1.4826 * MAD). @12 instead of a score: not finite since step 12. Only new data is read.)";

struct TopView {
  size_t width = 100;
  size_t height = 0;  // lines there is room for; 0: as many as there are modules, ranks and alerts
  bool color = false;
  bool utf8 = true;   // the terminal draws block characters
  bool keys = false;  // tell which keys there are
  bool help = false;  // explain keys and columns in place of the modules
  bool paused = false;
  bool typing = false;  // the search text is being typed
  std::string table;    // empty: all
  std::string search;   // words that must all occur in a name
  size_t scroll = 0;    // rows of modules left out on top
  std::filesystem::file_time_type now;
  report::Language language = report::Language::kEnglish;
};

// Lines, the last one with its end, too. Names of files are made printable.
std::string TopScreen(const std::filesystem::path& root, const analysis::monitor::RunFollower& run,
                      const TopView& view);

// The same for programs: all modules, the worst first.
report::Document TopAnswer(const std::filesystem::path& root,
                           const analysis::monitor::RunFollower& run, const TopView& view);

}  // namespace msprobe::commands
