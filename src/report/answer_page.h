// An answer as one file for browsers: the verdict, facts, and below them tables, trees, maps, bars
// and curves. Built piece by piece; tools/web/answer draws it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::report {

class AnswerPage {
 public:
  static constexpr uint64_t kMostBytes = 5'000'000;  // of the file
  static constexpr size_t kMostRows = 100'000;       // of a table
  static constexpr size_t kMostItems = 5'000;        // of a list

  // `command`: "ckpt_compare".
  explicit AnswerPage(std::string_view command) : command_(command) {}

  // kUnsupported when this build was made without the page.
  static Status Available();

  // The text begins with the verdict's word: "DIFFERENT: 3 of 12 ...".
  void SetVerdict(std::string_view word, std::string_view line, Tone tone);
  void SetVerdict(const Verdict& verdict) { SetVerdict(verdict.word, verdict.text, verdict.tone); }
  void SetSides(std::string_view first, std::string_view second);
  void AddFact(std::string_view value, std::string_view text, Tone tone = Tone::kPlain);
  void AddNext(std::string_view text) { next_.emplace_back(text); }
  // What the page leaves out; notes() has it, too.
  void AddNote(std::string_view text) { notes_.emplace_back(text); }
  // Of the run, such as a file that could not be read.
  void AddWarning(std::string_view text) { warnings_.emplace_back(text); }

  // Blocks belong to the section begun last.
  void BeginSection(std::string_view title, std::string_view hint = {});
  void AddText(std::string_view text, Tone tone = Tone::kPlain);
  // Items beyond kMostItems are left out with a note.
  void AddList(const List& list);
  // Searched and sorted in the page. Rows beyond kMostRows, or beyond the room that there is, are
  // left out with a note; those without a fill first.
  // `amounts`: columns of texts that are aligned as numbers are.
  void AddTable(const Table& table, const std::vector<size_t>& amounts = {});

  struct Bar {
    std::string label;
    std::vector<double> parts;  // as the names of AddBars
  };
  // Stacked bars of one scale.
  void AddBars(const std::vector<std::string>& names, const std::vector<Bar>& bars,
               std::string_view unit);

  // Lines over positions. Curves beyond kMostCurveValues values in all are left out with a note.
  static constexpr size_t kMostCurveValues = 500'000;
  void AddCurves(const Curves& curves);

  struct Node {
    int64_t parent = -1;  // a node before it
    std::string label;
    double first = 0;
    double second = 0;
    int64_t first_count = -1;  // -1: not told
    int64_t second_count = -1;
    std::string note;
  };
  // Figures of both sides as a tree; the largest changes stand first below each node.
  void AddTree(const std::vector<Node>& nodes, std::string_view unit);

  struct Cell {
    uint32_t row = 0;
    uint32_t column = 0;
    double value = 0;    // its colour, on a logarithmic scale; 0 is the calm end
    std::string tip;     // what stands behind the value
    std::string search;  // what a click looks for in the table below; may be empty
  };
  void AddMap(const std::vector<std::string>& rows, const std::vector<std::string>& columns,
              const std::vector<Cell>& cells);

  // A section of what was written, with links to what stands beside the page at `page` or below.
  void AddFiles(const std::vector<OutputFile>& files, const std::filesystem::path& page);

  // What was left out is in notes() then.
  Status Write(const std::filesystem::path& path);
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Section {
    std::string title;
    std::string hint;
    std::vector<std::string> blocks;  // JSON
  };
  struct TableText {
    std::string name;
    std::vector<std::string> columns;
    std::vector<std::string> rows;  // JSON arrays
    std::vector<bool> is_marked;    // of the same
    uint64_t total = 0;
    std::vector<size_t> amounts;
  };

  std::string Listing() const;

  std::string command_;
  std::string word_;
  std::string verdict_;
  Tone tone_ = Tone::kPlain;
  std::string sides_[2];
  std::vector<std::string> facts_;  // JSON
  std::vector<std::string> next_;
  std::vector<std::string> notes_;
  std::vector<std::string> warnings_;
  std::vector<Section> sections_;
  std::vector<TableText> tables_;  // block "t<index>" of the page
};

}  // namespace msprobe::report
