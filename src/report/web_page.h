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
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/json/writer.h"
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
// The compressed text of each block, in order; the same for any number of threads.
std::vector<std::string> PackBlocks(std::span<const PageBlock> blocks, base::ThreadPool& pool);

// Where the blocks go; the shell has it once.
inline constexpr std::string_view kPageDataMark = "<!--msprobe:data-->";

// The plain bytes of block `id` in the text of a page, or of its beginning. kNotFound: no such
// block, or it is not whole; kBadFormat: damaged, or more than `most_bytes`.
Result<std::string> UnpackBlock(std::string_view page, std::string_view id, size_t most_bytes);

// kUnsupported where this build was made without that page.
Status CheckShell(std::string_view shell);

// Returns the size of the file.
Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const std::string> packed);

// Members of a page's listing that its dialog shows (AboutRun in tools/web/common/page.js):
// version, command, command line with secrets masked, inputs.
void PutRun(std::string_view command, json::Writer& writer);

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

// Columns of a table by name, and the blocks "<id>_<name>" of them.
using PageColumns = std::vector<std::pair<std::string, std::vector<uint32_t>>>;
void AddColumnBlocks(const std::string& id, PageColumns columns, std::vector<PageBlock>& blocks);

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

// Any document as a page that tools/web/answer draws: its verdict, sections, tables, next steps and
// files. What `display_limit` leaves out for terminals is in it.

inline constexpr uint64_t kMostPageBytes = 5'000'000;  // of the file
inline constexpr size_t kMostPageRows = 100'000;       // of a table
inline constexpr size_t kMostPageItems = 5'000;        // of a list
inline constexpr size_t kMostCurveValues = 500'000;    // of all curves of a block

Status CheckAnswerPage();  // CheckShell of it

// Content that exceeds a limit above is left out, with a warning in the document and a note in the
// page: the last items and curves, and of tables the rows without a fill first.
Status WriteAnswerPage(const std::filesystem::path& path, Document& document);

}  // namespace msprobe::report
