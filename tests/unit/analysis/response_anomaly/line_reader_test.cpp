#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/analysis/response_anomaly/response_anomaly.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::response_anomaly {
namespace {

using Line = LineReader::Line;

std::vector<std::string> LinesOf(const std::string& text, size_t longest) {
  const test_support::TemporaryFolder scratch;
  const std::filesystem::path path = scratch.path() / "lines";
  std::ofstream(path, std::ios::binary) << text;
  Result<LineReader> reader = LineReader::Open(path, longest);
  EXPECT_TRUE(reader.ok());
  std::vector<std::string> lines;
  for (;;) {
    std::string_view line;
    const Result<Line> kind = reader->Next(line);
    EXPECT_TRUE(kind.ok());
    if (!kind.ok() || *kind == Line::kEnd) {
      return lines;
    }
    lines.emplace_back(*kind == Line::kTooLong ? "(too long)" : line);
  }
}

TEST(LineReader, GivesEveryLineWithAndWithoutAnEnd) {
  EXPECT_EQ(LinesOf("a\n\nbc\nd", 100), (std::vector<std::string>{"a", "", "bc", "d"}));
  EXPECT_EQ(LinesOf("a\n", 100), std::vector<std::string>{"a"});
  EXPECT_EQ(LinesOf("", 100), std::vector<std::string>{});
}

TEST(LineReader, PassesOverWhatIsTooLongAndGoesOn) {
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(LinesOf("a\n" + large + "\nb\n", 1000),
            (std::vector<std::string>{"a", "(too long)", "b"}));
  EXPECT_EQ(LinesOf(large, 1000), std::vector<std::string>{"(too long)"});
  EXPECT_EQ(LinesOf(large + "\nend", 3'000'000), (std::vector<std::string>{large, "end"}));
}

TEST(LineReader, RefusesAFolderAndAMissingFile) {
  EXPECT_EQ(LineReader::Open("/").status().code(), StatusCode::kUsage);
  EXPECT_EQ(LineReader::Open("/absent/lines").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace msprobe::analysis::response_anomaly
