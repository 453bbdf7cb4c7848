#include "src/report/render_terminal.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "src/report/render.h"
#include "tests/unit/report/made_document.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::report {
namespace {

using ::msprobe::test_support::TemporaryFolder;
using test_support::MadeDocument;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Lines put together again, without what wrapping added.
std::string Unwrapped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != '\n' && c != ' ') {
      out += c;
    }
  }
  return out;
}

TEST(RenderTerminal, OpensWithTheVerdictAndNamesTheFilesLast) {
  const std::string text = RenderTerminal(MadeDocument(), {.has_edge = false});
  EXPECT_THAT(text, StartsWith("DIFFERENT: it starts with the computation of blocks.0.mlp.fc1\n"));
  EXPECT_THAT(text, HasSubstr("\nNext\n  Run this call alone"));
  EXPECT_THAT(text, ::testing::EndsWith("\nFiles (compared in 2.00 s)\n  out/compare_result.xlsx\n"
                                        "  out/summary.json\n"));
}

TEST(RenderTerminal, LinksAreWholeNamesOfFilesThatAreThere) {
  const TemporaryFolder folder;
  const std::string made = folder.Write("a.py", "").string();
  Document document;
  document.verdict.text = "see b" + made + " and " + made + "x, " + made + ":1, " + made + ".";
  Item item{"code", made + ":12 in f"};
  item.source = SourceLine{made, 12};
  document.Add("", List{ListKind::kFacts, {item, {"no", made + ":123"}}});
  document.files = {{made, ""}, {folder.path() / "absent.csv", ""}};
  const std::string text =
      RenderTerminal(document, {.has_edge = false, .color = true, .link_host = "host"});
  const auto link = [&made](const std::string& line, const std::string& shown) {
    return "\x1b]8;;file://host" + made + line + "\x1b\\" + shown + "\x1b]8;;\x1b\\";
  };
  EXPECT_THAT(text, HasSubstr(made + "x, " + link("", made) + ":1, "));
  EXPECT_THAT(text, HasSubstr(link("#12", made + ":12") + " in f"));
  EXPECT_THAT(text, Not(HasSubstr(link("#12", made + ":12") + "3")));
  EXPECT_THAT(text, HasSubstr("\n  " + link("", made) + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("host" + (folder.path() / "absent.csv").string())));
}

TEST(RenderTerminal, AResultWithTheNameOfAWordIsNotLinked) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  folder.Write("a", "");
  Document document;
  document.verdict.text = "a difference";
  document.files = {{"a", ""}};
  EXPECT_THAT(RenderTerminal(document, {.link_host = "host"}), Not(HasSubstr("\x1b]8")));
  std::filesystem::current_path(before);
}

TEST(RenderTerminal, BriefListsSayWhatIsLeft) {
  const std::string text = RenderTerminal(MadeDocument(), {.has_edge = false});
  EXPECT_THAT(text, HasSubstr("and 1 more package\n"));
  EXPECT_THAT(text, Not(HasSubstr("a package differs")));
  EXPECT_THAT(text, HasSubstr("decoder.layers.1"));
  EXPECT_THAT(text, Not(HasSubstr("decoder.layers.2")));
  EXPECT_THAT(text, HasSubstr("  and 1 more\n"));
}

TEST(RenderTerminal, KeepsToTheWidthAndLosesNothing) {
  const std::string whole = RenderTerminal(MadeDocument(), {.has_edge = false});
  for (const size_t width : {40, 60, 80}) {
    const std::string text = RenderTerminal(MadeDocument(), {.width = width});
    for (const std::string_view line : base::Split(text, '\n')) {
      EXPECT_LE(ColumnsOf(line), width) << line;
    }
    EXPECT_THAT(text, Not(HasSubstr("…")));
    EXPECT_THAT(Unwrapped(text),
                StartsWith("DIFFERENT:itstartswiththecomputationofblocks.0.mlp.fc1"));
    EXPECT_THAT(Unwrapped(text), HasSubstr("Module.blocks.0.mlp.fc1.forward.0.output.0"));
  }
  EXPECT_THAT(whole, HasSubstr("decoder.layers.0.self_attention.linear_proj.weight\n"));
}

TEST(RenderTerminal, NothingIsCutWhereThereIsNoEdge) {
  Document document = MadeDocument();
  const std::string name(500, 'n');
  document.verdict.text = "DIFFERENT: " + name;
  document.sections[0].blocks.emplace_back(List{ListKind::kFacts, {{"call", name}}});
  Table table("t", {"Name", "Value"});
  const Cell cells[] = {table.KeepText(name), Cell::Integer(1)};
  table.AddRow(cells);
  document.sections[0].blocks.emplace_back(DataTable{std::move(table)});
  const std::string text = RenderTerminal(document, {.width = 60, .has_edge = false});
  EXPECT_THAT(text, StartsWith("DIFFERENT: " + name + "\n"));
  EXPECT_THAT(text, HasSubstr("  call         " + name + "\n"));
  EXPECT_THAT(text, HasSubstr("\n" + name + "      1\n"));
}

TEST(RenderTerminal, ColoursOnlyWhenAskedAndExplainsThem) {
  const std::string plain = RenderTerminal(MadeDocument(), {});
  EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plain, Not(HasSubstr("yellow:")));
  const std::string text = RenderTerminal(MadeDocument(), {.color = true});
  EXPECT_THAT(text, StartsWith("\x1b[1;31mDIFFERENT"));
  EXPECT_THAT(text, HasSubstr("\nred: a difference or a failure; yellow: worth a look\n"));
}

TEST(RenderTerminal, ControlCharactersDoNotSteerTheTerminal) {
  Document document = MadeDocument();
  document.verdict.text = "DIFFERENT: \x1b]0;title\x07";
  document.sections[0].title = "evil\x1b[2J";
  document.next = {Advice("text", {"\x1b[31m"})};
  document.files = {{"a\x1b[2Jb"}};
  EXPECT_THAT(RenderTerminal(document, {}), Not(HasSubstr("\x1b")));
}

TEST(RenderTerminal, IsAsciiWhereTheLocaleIs) {
  for (const char c : RenderTerminal(MadeDocument(), {.width = 60, .ascii = true})) {
    EXPECT_GE(c, 0);
  }
}

TEST(RenderTerminal, ManyTablesAreCountedByFolderButOtherFilesAreAlwaysNamed) {
  Document document = MadeDocument();
  document.files.clear();
  for (int rank = 0; rank < 100; ++rank) {
    document.files.push_back({"out/rank" + std::to_string(rank) + ".xlsx"});
  }
  document.files.push_back({"out/summary.json", "summary"});
  document.files.push_back({"junit.xml", "JUnit report"});
  document.files.push_back({"out/advisor.txt"});
  for (const bool has_edge : {true, false}) {
    EXPECT_THAT(RenderTerminal(document, {.has_edge = has_edge}),
                HasSubstr("  out/summary.json\n  junit.xml\n  out/  (1 .txt, 100 .xlsx)\n"));
  }
  document.files.resize(10);
  EXPECT_THAT(RenderTerminal(document, {}), HasSubstr("  out/rank9.xlsx\n"));
}

TEST(WrapText, BreaksAtBlanksAndLongWordsBehindTheirParts) {
  EXPECT_THAT(WrapText("one two three", 8, 8), ::testing::ElementsAre("one two", "three"));
  EXPECT_THAT(WrapText("abcdefg.hijklmnopq", 10, 10),
              ::testing::ElementsAre("abcdefg.", "hijklmnopq"));
  EXPECT_THAT(WrapText("", 10, 10), ::testing::ElementsAre(""));
  EXPECT_THAT(WrapText("a 层层层层层层\xE5\xB1 b", 8, 8),
              ::testing::ElementsAre("a", "层层层层", "层层\xE5\xB1 b"));
  // Every letter is looked at a few times, however long the word is.
  EXPECT_EQ(WrapText(std::string(4'000'000, 'x'), 8, 8).size(), 500'000U);
  EXPECT_THAT(WrapText("层层层层层层", 8, 8), ::testing::ElementsAre("层层层层", "层层"));
}

}  // namespace
}  // namespace msprobe::report
