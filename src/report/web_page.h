// A page for browsers in one file: a shell (markup, style, script) that was made beforehand, and
// blocks of data in it. Opens from file:// and asks no network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::report {

// Data that the shell's script finds as the text of element `id`: raw deflate in base 85. So
// nothing inside of it can end the element or become markup.
struct PageBlock {
  std::string id;                           // a-z, 0-9, '_'
  std::function<void(std::string&)> write;  // appends the plain bytes; called once, on any thread
};

// The element that holds a block; empty when its name is not plain or compressing failed, which
// WriteWebPage refuses.
std::string PackBlock(const PageBlock& block);
// Of each block, in order; the same for any number of threads.
std::vector<std::string> PackBlocks(std::span<const PageBlock> blocks, base::ThreadPool& pool);

// Where the blocks go; the shell has it once.
inline constexpr std::string_view kPageDataMark = "<!--msprobe:data-->";

// The plain bytes of block `id` in the text of a page, or of its beginning. kNotFound: no such
// block, or it is not whole; kBadFormat: damaged, or more than `most_bytes`.
Result<std::string> UnpackBlock(std::string_view page, std::string_view id, size_t most_bytes);

// Returns the size of the file.
Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const std::string> packed);

// The name of the page with this title that was written last into the folder of `path`, other than
// `path` itself, so that pages of one run lead to each other; empty: there is none.
std::string PageBeside(const std::filesystem::path& path, std::string_view title);
// The same of `folder` in an open folder.
std::string PageBeside(int beneath, const std::filesystem::path& folder, std::string_view own_name,
                       std::string_view title);

// Columns of a page's table as bytes that compress well and that a browser reads back at once
// (tools/web/common/columns.js).

// Appends one byte with the number of planes, 0 to 4, and per plane one byte of every value, the
// lowest plane first. Planes that would be zero throughout are left out.
void AppendPlanes(std::span<const uint32_t> values, std::string& out);

// Texts that repeat, each kept once; numbered in the order in which they come.
class TextList {
 public:
  uint32_t Add(std::string_view text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> number_of_;
};

// Cells of numbers with texts between them, as 32 bits each: a float32 (7 digits), or a NaN that
// carries the number of a text, or nothing.
class CellCodes {
 public:
  static constexpr uint32_t kNothing = 0x7fe00000;

  // Numbers outside of float32's range are kept as texts. `kept_bits` of 23: bits of the fraction
  // that are worth their room.
  uint32_t Number(double value, int kept_bits = 23);
  uint32_t Text(std::string_view text);
  const std::vector<std::string>& texts() const { return texts_.texts(); }

 private:
  TextList texts_;
};

// How far `code` is from `base` in the order of their numbers; small for numbers that are close.
// Exact for any two codes.
uint32_t DifferenceOfCodes(uint32_t code, uint32_t base);

// An answer as one file for browsers: the verdict, facts, and below them tables, trees, maps, bars
// and curves. Built piece by piece; tools/web/answer draws it.

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

// Any document as a page for browsers: its verdict, sections, tables and next steps.

// Whole: what `brief` leaves out for terminals is in it. `path`: where it will be written.
AnswerPage PageOf(const Document& document, const std::filesystem::path& path);

}  // namespace msprobe::report
