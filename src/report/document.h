// The whole answer of a command, independent of its form: a verdict, sections of facts, tables,
// bars and curves, what to do next, the files that were written. Analyses make documents and cut
// nothing; render.h makes terminal text, JSON, JUnit and HTML of them, so that no form can know
// more than another. A document knows no width and no colour: how important something is stands in
// its tone and in the order of its list, how much of a list is enough for a first look in
// `display_limit`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/report/advice.h"
#include "src/report/table.h"

namespace msprobe::report {

// --fail-on: when a command that did its work ends with exit code 1 all the same. The one place
// where that is decided, for every command and every form: the exit code, the JSON, the JUnit
// report and the line on stderr follow from Judge. A gate passes only when something was compared.

struct Document;

// A word that a command's --fail-on accepts. A command's list is in order of rank: what each of
// them asks about is commoner than what the ones before do.
struct GateLevel {
  std::string_view word;
  std::string_view meaning;       // for --help
  bool includes_previous = true;  // it also asks what the word before it asks
  bool on_request = false;        // a JUnit case of this level fails only when it is asked about
};

// Whether what a level asks about is there. Commands may have levels that are typed in full, such
// as "e2e>5%" of perf_compare; they stand behind the words and include nothing.
struct LevelOutcome {
  std::string word;
  bool found = false;
  bool includes_previous = true;
  bool on_request = false;
  std::string what = {};  // in a sentence; may be empty
};

// One outcome per level, nothing found yet.
std::vector<LevelOutcome> OutcomesOf(std::span<const GateLevel> levels);
// Sets `found` of the outcome with this word, which must exist.
void SetFound(std::vector<LevelOutcome>& outcomes, std::string_view word, bool found);

class Gate {
 public:
  Gate() = default;  // asks about nothing and never fails
  explicit Gate(std::vector<std::string> asked) : asked_(std::move(asked)) {}

  // Something that is asked about is there; or nothing was compared. A word that the document
  // does not know fails, too: a level that was not looked for is not known to be absent.
  bool Fails(const Document& document) const;
  bool asks() const { return !asked_.empty(); }
  // Whether a JUnit case of this level counts as a failure: where something is asked about, a level
  // that is; otherwise every level but those on request. A case without a level always does.
  bool Counts(const Document& document, std::string_view level) const;
  // Why it fails, in one line: the words asked, and what was found.
  std::string Reason(const Document& document) const;

 private:
  bool AsksAbout(const Document& document, size_t level) const;

  std::vector<std::string> asked_;
};

enum class ExitClass : uint8_t { kDone = 0, kFindings = 1, kFailed = 3 };
ExitClass Judge(const Document& document, const Gate& gate);

enum class Tone : uint8_t {
  kPlain,
  kStrong,   // a headline without judgement
  kGood,     // green
  kCaution,  // yellow: look at it
  kBad,      // red: a difference or a failure
};

// "strong", "good", "caution", "bad"; empty for kPlain.
std::string_view ToneName(Tone tone);

// The meaning of an answer for scripts; document.h derives the exit code from it.
enum class AnswerOutcome : uint8_t {
  kClean,            // done, and there is nothing to report
  kFindings,         // done, and there is something to look at
  kNothingCompared,  // nothing was held against anything: no gate passes
  kIncomplete,       // an input could not be read: exit code 3, whatever the rest says
};

struct Verdict {
  std::string word;              // in capitals: "DIFFERENT"
  std::string text;              // the whole line
  std::optional<double> number;  // the figure of the line
  std::string unit;              // of the number: "rows", "%"
  Tone tone = Tone::kPlain;
  AnswerOutcome outcome = AnswerOutcome::kClean;

  // The line is "WORD: rest".
  void Say(std::string_view new_word, std::string_view rest, Tone new_tone,
           AnswerOutcome new_outcome = AnswerOutcome::kClean);
};

// A place in a file of the user: a line of code, a line of a log.
struct SourceLine {
  std::string file;
  uint64_t line = 0;  // 0: the file as a whole
};

struct Item {
  std::string label;
  std::string text;
  Tone tone = Tone::kPlain;
  std::optional<double> number = {};  // what the text says, for programs
  std::optional<SourceLine> source = {};
  std::vector<Item> details = {};  // below it; one level is shown
};

// How much of a list is enough for a first look; JSON and HTML hold all of it.
struct DisplayLimit {
  size_t items = SIZE_MAX;  // 0: the list is for programs only
  std::string rest = {};    // what stands for the others; empty: "and 3 more"
  bool counts_rest = true;  // false: the others are not worth a line
};

enum class ListKind : uint8_t {
  kFacts,      // label, text
  kAligned,    // the same, texts behind the longest label
  kAmounts,    // the label is an amount: "+3.2 ms"
  kNamed,      // "label: text"
  kNumbered,   // "1. label: text"; details are examples (no label), "why", "fix"
  kBullets,    // sentences
  kSentences,  // sentences without a mark
  kChecks,     // the label says how a check ended: "ok", "FAILED"
};

struct List {
  ListKind kind = ListKind::kFacts;
  std::vector<Item> items;
  DisplayLimit display_limit = {};
};

// Sentences. They are wrapped where a form has a right edge.
struct Text {
  std::string text;
  Tone tone = Tone::kPlain;
};

struct DataTable {
  Table table;
  DisplayLimit display_limit = {};
  std::vector<size_t> amounts = {};  // columns of texts that are aligned as numbers are
  int digits = 6;                    // significant ones, of number cells, for people
  int decimals = -1;                 // at least 0: that many behind the point instead
  bool names_rows = false;           // the first column holds long names, the others describe them
};

struct Bar {
  std::string label;
  double value = 0;  // at least 0; what is not finite has no bar
};
struct Bars {
  std::string unit;  // what the values are
  std::vector<Bar> items;
  DisplayLimit display_limit = {};
};

struct Curve {
  std::string label;
  std::vector<double> values;  // one per position; NaN: a gap
};
struct Curves {
  std::string unit;                    // what the values are
  std::string axis;                    // what the positions are: "step"
  std::vector<std::string> positions;  // from left to right
  std::vector<Curve> items;            // the ones to look at first in front
  DisplayLimit display_limit = {};
};

using Block = std::variant<List, Text, DataTable, Bars, Curves>;

struct Section {
  std::string title;  // may be empty for the one behind the verdict
  std::vector<Block> blocks;
};

// A section of one block.
template <typename Content>
Section MakeSection(std::string title, Content content) {
  Section section{std::move(title), {}};
  section.blocks.emplace_back(std::move(content));
  return section;
}

// Pictures that only a page draws.

// Bars of one scale, each in parts.
struct StackedBars {
  std::string unit;
  std::vector<std::string> names;  // of the parts
  struct Bar {
    std::string label;
    std::vector<double> parts;
  };
  std::vector<Bar> items;
};

// Figures of both sides as a tree; a page shows the largest changes first below each node.
struct Tree {
  std::string unit;
  struct Node {
    int64_t parent = -1;  // a node before it
    std::string label;
    double first = 0;
    double second = 0;
    int64_t first_count = -1;  // -1: not known
    int64_t second_count = -1;
    std::string note = {};
  };
  std::vector<Node> items;
};

// A grid of coloured cells, some of which may be empty.
struct Map {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  struct Cell {
    uint32_t row = 0;
    uint32_t column = 0;
    double value = 0;    // its colour, on a logarithmic scale; 0 is the calm end
    std::string tip;     // explains the value
    std::string search;  // what a click looks for in the table below; may be empty
  };
  std::vector<Cell> items;
};

// Whether there is nothing to see in a block.
inline bool IsEmpty(const Text& sentences) { return sentences.text.empty(); }
inline bool IsEmpty(const DataTable& data) { return data.table.row_count() == 0; }
inline bool IsEmpty(const Curves& curves) {
  return curves.items.empty() || curves.positions.empty();
}
inline bool IsEmpty(const auto& content) { return content.items.empty(); }

struct PageSection {
  std::string title;
  std::string hint;  // beside the title
  std::vector<std::variant<List, Text, DataTable, Bars, Curves, StackedBars, Tree, Map>> blocks;
};

// The content of a page in place of the sections: a browser has more room than a screen.
struct PageView {
  std::optional<Verdict> verdict;    // none: that of the document
  std::array<std::string, 2> sides;  // what was compared
  std::vector<Item> facts;           // figures (labels) and what they count (texts)
  std::vector<PageSection> sections;
  std::vector<std::string> notes;  // what is not in it

  template <typename Content>
  void Add(std::string title, std::string hint, Content content) {
    sections.push_back({std::move(title), std::move(hint), {}});
    sections.back().blocks.emplace_back(std::move(content));
  }
};

struct OutputFile {
  std::filesystem::path path;
  std::string what = {};  // "JUnit report"; empty for the main results
};

enum class CaseOutcome : uint8_t { kPassed, kFailed, kError };  // kError: it could not be judged

// One test case of the JUnit report.
struct TestCase {
  std::string name;
  double seconds = 0;
  CaseOutcome outcome = CaseOutcome::kPassed;
  std::string level = {};    // the gate level it belongs to; empty: it fails whatever is asked
  std::string type = {};     // in a word or two
  std::string message = {};  // one line
  std::string details = {};  // any number of lines
  std::vector<std::string> further_levels = {};  // that it fails as well

  void Fail(std::string_view at_level, std::string_view of_type, std::string_view why) {
    outcome = CaseOutcome::kFailed;
    level = at_level;
    type = of_type;
    message = why;
  }
};

struct Document {
  std::string command;  // "compare", in "msprobe compare"
  Verdict verdict;
  std::vector<LevelOutcome> levels;  // what --fail-on may ask about, and whether it is there
  std::vector<Section> sections;     // in order of importance
  std::optional<PageView> page;      // none: a page shows the sections
  std::vector<Advice> next;          // what to do now
  std::vector<OutputFile> files;     // everything that was written, the main result first
  std::vector<std::string> warnings;
  std::vector<TestCase> cases;
  uint64_t bytes = 0;               // of data that was read; 0: unknown
  double seconds = 0;               // of the whole run; 0: unknown
  std::string action = "compared";  // what was done with the data in that time
  int exit_code = 0;                // known once a gate has judged

  template <typename Content>
  void Add(std::string title, Content content) {
    sections.push_back(MakeSection(std::move(title), std::move(content)));
  }
  void AddFiles(std::span<const std::filesystem::path> paths);
  void Advise(Advice advice);  // unless it is none
};

// How this process was called, which its answers and summaries tell. Set once, before the work.
struct Provenance {
  std::string command_line;         // secrets masked; empty: not known
  std::vector<std::string> inputs;  // paths that were read, the test side first
};
void SetProvenance(Provenance provenance);
const Provenance& ThisRun();

// The place of "/a/models.py:43 in forward: return x"; none where the text has no such beginning.
std::optional<SourceLine> SourceLineOf(std::string_view text);

}  // namespace msprobe::report
