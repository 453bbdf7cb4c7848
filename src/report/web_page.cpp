#include "src/report/web_page.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <zlib.h>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/json/writer.h"
#include "src/report/render.h"
#include "src/report/render_json.h"
#include "src/report/texts.h"

namespace msprobe::resources {
extern const std::string_view kAnswerPage;  // empty: not built
}

namespace msprobe::report {
namespace {

// Level 6 against 1: a tenth fewer bytes, and columns are a small part of the time of a report.
constexpr int kPageLevel = 6;
constexpr int kPageWindow = -15;
constexpr int kPageMemoryLevel = 8;

constexpr size_t kHeadBytes = 4096;  // a shell has its title within them

bool Deflate(std::string_view plain, std::string& out) {
  z_stream stream{};
  if (plain.size() > std::numeric_limits<uInt>::max() / 2 ||
      deflateInit2(&stream, kPageLevel, Z_DEFLATED, kPageWindow, kPageMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return false;
  }
  out.resize(deflateBound(&stream, static_cast<uLong>(plain.size())));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return whole;
}

// The printable characters that mean nothing to HTML, and not '$', '-' and '`'.
constexpr std::string_view kDigits =
    "!#%()*+,./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";
constexpr uint32_t kBase = 85;
static_assert(kDigits.size() == kBase);

// Four bytes, the highest first, are five digits; n bytes at the end are n + 1. A sixteenth less
// than base64.
void AppendBase85(std::string_view bytes, std::string& out) {
  out.reserve(out.size() + bytes.size() / 4 * 5 + 5);
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const size_t count = std::min<size_t>(4, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      group = group << 8U | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    std::array<char, 5> digits{};
    for (size_t k = digits.size(); k-- > 0; group /= kBase) {
      digits[k] = kDigits[group % kBase];
    }
    // The digits left out are those of a larger group, so the reader fills up with the last one.
    out.append(digits.data(), count + 1);
  }
}

// The way back; what is not a digit counts as the first one.
std::string FromBase85(std::string_view text) {
  std::array<uint32_t, 256> digit_of{};
  for (uint32_t i = 0; i < kBase; ++i) {
    digit_of[static_cast<unsigned char>(kDigits[i])] = i;
  }
  std::string bytes;
  bytes.reserve(text.size() / 5 * 4 + 4);
  for (size_t i = 0; i < text.size(); i += 5) {
    const size_t count = std::min<size_t>(5, text.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 5; ++k) {
      group = group * kBase +
              (k < count ? digit_of[static_cast<unsigned char>(text[i + k])] : kBase - 1);
    }
    for (size_t k = 0; k + 1 < count; ++k) {
      bytes += static_cast<char>(group >> (24U - 8U * k));
    }
  }
  return bytes;
}

bool Inflate(std::string_view packed, size_t most_bytes, std::string& plain) {
  z_stream stream{};
  if (packed.size() > std::numeric_limits<uInt>::max() ||
      inflateInit2(&stream, kPageWindow) != Z_OK) {
    return false;
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int state = Z_OK;
  while (state == Z_OK && plain.size() < most_bytes) {
    const size_t before = plain.size();
    const size_t more = std::min(most_bytes - before, std::max<size_t>(before, kHeadBytes));
    plain.resize(before + more);
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + before);
    stream.avail_out = static_cast<uInt>(more);
    state = inflate(&stream, Z_NO_FLUSH);
    plain.resize(before + more - stream.avail_out);
  }
  inflateEnd(&stream);
  return state == Z_STREAM_END;
}

bool IsPlainId(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
  });
}

}  // namespace

std::string PackBlock(const PageBlock& block) {
  std::string plain;
  std::string packed;
  std::string text;
  block.write(plain);
  if (IsPlainId(block.id) && Deflate(plain, packed)) {
    text = fmt::format("<script type=\"text/plain\" id=\"{}\">", block.id);  // never executed
    AppendBase85(packed, text);
    text += "</script>\n";
  }
  return text;
}

std::vector<std::string> PackBlocks(std::span<const PageBlock> blocks, base::ThreadPool& pool) {
  std::vector<std::string> packed(blocks.size());
  pool.ParallelFor(blocks.size(),
                   [&](size_t item, size_t) { packed[item] = PackBlock(blocks[item]); });
  return packed;
}

Result<std::string> UnpackBlock(std::string_view page, std::string_view id, size_t most_bytes) {
  const std::string begin = fmt::format("<script type=\"text/plain\" id=\"{}\">", id);
  const size_t at = page.find(begin);
  const size_t end = at == std::string_view::npos ? at : page.find("</script>", at);
  if (end == std::string_view::npos) {
    return NotFoundError(fmt::format("the page has no whole part \"{}\"", id));
  }
  std::string plain;
  if (!Inflate(FromBase85(page.substr(at + begin.size(), end - at - begin.size())), most_bytes,
               plain)) {
    return BadFormatError(fmt::format("the page's part \"{}\" is damaged", id));
  }
  return plain;
}

Status CheckShell(std::string_view shell) {
  if (shell.empty()) {
    return UnsupportedError("this msprobe was built without the page for --format html")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; other formats do not "
            "need it");
  }
  return {};
}

Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const std::string> packed) {
  const size_t mark = shell.find(kPageDataMark);
  if (mark == std::string_view::npos) {
    return InternalError("the page's shell has no place for data");
  }
  if (std::any_of(packed.begin(), packed.end(), [](const auto& text) { return text.empty(); })) {
    return InternalError(
        fmt::format("cannot write {}: a part of the page could not be packed", path.string()));
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(file.Write(shell.substr(0, mark)));
  for (const std::string& text : packed) {
    MSP_RETURN_IF_ERROR(file.Write(text));
  }
  MSP_RETURN_IF_ERROR(file.Write(shell.substr(mark + kPageDataMark.size())));
  const uint64_t size_bytes = file.size_bytes();
  MSP_RETURN_IF_ERROR(file.Commit());
  return size_bytes;
}

void PutRun(std::string_view command, json::Writer& writer) {
  writer.Member("version", MSPROBE_VERSION);
  writer.Member("command", command);
  writer.Member("command_line", ThisRun().command_line);
  writer.Member("inputs", ThisRun().inputs);
}

std::string PageBeside(const std::filesystem::path& path, std::string_view title) {
  const std::filesystem::path folder = path.parent_path().empty() ? "." : path.parent_path();
  return PageBeside(AT_FDCWD, folder, path.filename().string(), title);
}

std::string PageBeside(int beneath, const std::filesystem::path& folder, std::string_view own_name,
                       std::string_view title) {
  const std::string wanted = fmt::format("<title>{}</title>", title);
  const base::Descriptor opened(
      ::openat(beneath, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Result<std::vector<std::string>> names = base::ListFolderIn(opened.get(), ".", folder);
  std::pair<timespec, std::string> latest{};
  for (size_t i = 0; names.ok() && i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name == own_name || !name.ends_with(".html")) {
      continue;
    }
    // Files that cannot be read, and links, are skipped.
    const Result<base::InputFile> file =
        base::InputFile::OpenIn(opened.get(), name, folder / name, base::Links::kRefuse);
    const Result<std::string> head = file.ok() ? file->Head(kHeadBytes) : file.status();
    if (head.ok() && head->find(wanted) != std::string::npos) {
      const timespec time = file->about().st_mtim;
      const auto key = [](const timespec& at) { return std::pair(at.tv_sec, at.tv_nsec); };
      if (latest.second.empty() || key(time) >= key(latest.first)) {
        latest = {time, name};
      }
    }
  }
  return latest.second;
}

namespace {

constexpr uint32_t kTextCode = 0x7fd00000;
constexpr uint32_t kMostTexts = 0x00100000;
constexpr uint32_t kSign = 0x80000000;
constexpr int kFractionBits = 23;

// Floats as integers that rise with them.
constexpr uint32_t InOrder(uint32_t bits) { return (bits & kSign) != 0 ? ~bits : bits | kSign; }

}  // namespace

void AppendPlanes(std::span<const uint32_t> values, std::string& out) {
  uint32_t all = 0;
  for (const uint32_t value : values) {
    all |= value;
  }
  const auto planes = static_cast<size_t>((std::bit_width(all) + 7) / 8);
  out += static_cast<char>(planes);
  out.reserve(out.size() + planes * values.size());
  for (size_t plane = 0; plane < planes; ++plane) {
    for (const uint32_t value : values) {
      out += static_cast<char>(value >> (8 * plane));
    }
  }
}

void AddColumnBlocks(const std::string& id, PageColumns columns, std::vector<PageBlock>& blocks) {
  for (auto& [name, values] : columns) {
    blocks.push_back({fmt::format("{}_{}", id, name),
                      [kept = std::make_shared<std::vector<uint32_t>>(std::move(values))](
                          std::string& out) { AppendPlanes(*kept, out); }});
  }
}

uint32_t TextList::Add(std::string_view text) {
  if (const auto found = number_of_.find(text); found != number_of_.end()) {
    return found->second;
  }
  const auto number = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  number_of_.emplace(text, number);
  return number;
}

uint32_t CellCodes::Number(double value, int kept_bits) {
  if (std::isnan(value)) {
    return std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
  }
  const double size = std::abs(value);
  if (std::isfinite(value) && size != 0 &&
      (size > std::numeric_limits<float>::max() || size < std::numeric_limits<float>::min())) {
    return Text(fmt::format("{:.7g}", value));
  }
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (kept_bits < kFractionBits && std::isfinite(value)) {
    const uint32_t step = uint32_t{1} << static_cast<uint32_t>(kFractionBits - kept_bits);
    // Rounded to the nearest; may carry into the exponent, which is right, but not into infinity.
    const uint32_t rounded = (bits + step / 2) & ~(step - 1);
    bits = std::isfinite(std::bit_cast<float>(rounded)) ? rounded : bits & ~(step - 1);
  }
  return bits;
}

uint32_t CellCodes::Text(std::string_view text) {
  const uint32_t number =
      texts_.texts().size() < kMostTexts - 1 ? texts_.Add(text) : texts_.Add("too many texts");
  return kTextCode | number;
}

uint32_t DifferenceOfCodes(uint32_t code, uint32_t base) {
  const uint32_t difference = InOrder(code) - InOrder(base);
  return difference << 1U ^ ((difference & kSign) != 0 ? ~uint32_t{0} : 0);
}

namespace {

using json::Writer;

constexpr int64_t kPageFormat = 1;  // what tools/web/answer expects

std::string_view PageKindName(ListKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"facts",    "facts",   "amounts",   "facts",
                                                      "numbered", "bullets", "sentences", "checks"};
  return kNames[static_cast<size_t>(kind)];
}

// Up to 7 digits: a page is for reading, the other files hold all.
void PutFigure(double value, Writer& writer) {
  if (std::isfinite(value)) {
    writer.Raw(fmt::format("{:.7g}", value));
  } else {
    writer.Text(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }
}

void PutPageCell(const Cell& cell, Writer& writer) {
  if (cell.kind() == CellKind::kNumber) {
    PutFigure(cell.number(), writer);
  } else if (cell.kind() == CellKind::kBoolean) {
    writer.Text(cell.boolean_text());
  } else {
    PutCell(writer, cell);
  }
}

// An array that holds an array for each item; `put` writes what is in it.
template <typename Items, typename PutMembers>
void PutTuples(const Items& items, Writer& writer, PutMembers&& put) {
  writer.BeginArray();
  for (const auto& item : items) {
    writer.BeginArray();
    put(item);
    writer.EndArray();
  }
  writer.EndArray();
}

// [label, text, tone, source, [details]]
void PutItems(std::span<const Item> items, Writer& writer) {
  PutTuples(items, writer, [&](const Item& item) {
    writer.Text(item.label);
    writer.Text(item.text);
    writer.Text(ToneName(item.tone));
    writer.Text(item.source ? item.source->line > 0
                                  ? fmt::format("{}:{}", item.source->file, item.source->line)
                                  : item.source->file
                            : std::string());
    PutItems(item.details, writer);
  });
}

// Places of at most `most` rows, rising: the marked ones come before the others.
std::vector<size_t> RowsToKeep(const std::vector<bool>& is_marked, size_t most) {
  std::vector<size_t> rows(is_marked.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  if (rows.size() > most) {
    const auto marked = [&](size_t row) { return static_cast<bool>(is_marked[row]); };
    std::stable_partition(rows.begin(), rows.end(), marked);
    rows.resize(most);
    std::sort(rows.begin(), rows.end());
  }
  return rows;
}

template <typename Function>
std::string JsonText(Function&& write) {
  std::string text;
  Writer writer(text, -1, Writer::NonFinite::kText);
  write(writer);
  return text;
}

// A table is an element of its own, "t<index>".
struct PageTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::string> rows;  // JSON arrays
  std::vector<bool> is_marked;    // of the same
  uint64_t total = 0;
  std::vector<size_t> amounts;

  std::string Element(size_t index, size_t most) const {
    return PackBlock({fmt::format("t{}", index), [&](std::string& out) {
                        out += '[';
                        for (const size_t row : RowsToKeep(is_marked, most)) {
                          out += out.size() == 1 ? "" : ",";
                          out += rows[row];
                        }
                        out += ']';
                      }});
  }
};

// The sections as JSON, with what is written apart from them.
class PageSections {
 public:
  explicit PageSections(std::vector<std::string> earlier_notes)
      : notes(std::move(earlier_notes)), writer_(text, -1, Writer::NonFinite::kText) {
    writer_.BeginArray();
  }

  // Sections and blocks with nothing in them are left out.
  template <typename AnySection>
  void Add(const AnySection& section, std::string_view hint) {
    const auto empty = [](const auto& block) {
      return std::visit([](const auto& content) { return IsEmpty(content); }, block);
    };
    if (std::all_of(section.blocks.begin(), section.blocks.end(), empty)) {
      return;
    }
    Begin(section.title, hint);
    for (const auto& block : section.blocks) {
      if (!empty(block)) {
        std::visit([&](const auto& content) { Put(content); }, block);
        writer_.EndObject();
      }
    }
    End();
  }

  // With links to what is beside the page at `page` or below.
  void AddFiles(const std::vector<OutputFile>& files, const std::filesystem::path& page) {
    if (files.empty()) {
      return;
    }
    const std::span<const OutputFile> named =
        std::span(files).first(std::min(files.size(), kMostPageItems));
    Begin("Files", "");
    Kind("files");
    writer_.Key("items");
    PutTuples(named, writer_, [&](const OutputFile& file) {
      const std::string beside = file.path.lexically_relative(page.parent_path()).generic_string();
      const bool is_beside = !beside.empty() && !beside.starts_with("..") && beside != ".";
      writer_.Text(file.path.generic_string());
      writer_.Text(file.what);
      writer_.Text(is_beside ? beside : "");
    });
    writer_.EndObject();
    End();
    if (named.size() < files.size()) {
      notes.push_back(fmt::format("Files: the page names the first {} of {}",
                                  base::FormatCount(named.size()),
                                  base::Plural(files.size(), "file")));
    }
  }

  void Close() { writer_.EndArray(); }

  // Column names and cells that have a translation.
  std::vector<std::string> words() const { return {words_.begin(), words_.end()}; }

  std::string text;
  std::vector<PageTable> tables;
  std::vector<std::string> notes;

 private:
  void Begin(std::string_view title, std::string_view hint) {
    title_ = title;
    writer_.BeginObject();
    writer_.Member("title", title);
    writer_.Member("hint", hint);
    writer_.Key("blocks");
    writer_.BeginArray();
  }
  void End() {
    writer_.EndArray();
    writer_.EndObject();
  }
  void Kind(std::string_view kind) {
    writer_.BeginObject();
    writer_.Member("kind", kind);
  }

  // The first `most` of them, with a note about the others.
  template <typename Value>
  std::span<const Value> Cut(const std::vector<Value>& items, size_t most, std::string_view noun) {
    const std::span<const Value> kept = std::span(items).first(std::min(items.size(), most));
    if (kept.size() < items.size()) {
      notes.push_back(fmt::format("{}: the page holds the first {} of {}; --json holds all", title_,
                                  base::FormatCount(kept.size()),
                                  base::Plural(items.size(), noun)));
    }
    return kept;
  }

  // Each opens an object and leaves it open.
  void Put(const Text& sentences) {
    Kind("text");
    writer_.Member("text", sentences.text);
    writer_.Member("tone", ToneName(sentences.tone));
  }

  void Put(const List& list) {
    Kind("list");
    writer_.Member("style", PageKindName(list.kind));
    writer_.Key("items");
    PutItems(Cut(list.items, kMostPageItems, "item"), writer_);
  }

  void Put(const DataTable& data) {
    Kind("table");
    writer_.Member("table", static_cast<uint64_t>(tables.size()));
    const Table& table = data.table;
    PageTable& kept = tables.emplace_back(
        PageTable{title_, table.columns(), {}, {}, table.row_count(), data.amounts});
    std::vector<bool> is_marked(table.row_count());
    for (size_t row = 0; row < table.row_count(); ++row) {
      is_marked[row] = table.fill(row) != Fill::kNone;
    }
    for (const std::string& column : table.columns()) {
      words_.insert(column);
    }
    for (const size_t row : RowsToKeep(is_marked, kMostPageRows)) {
      kept.is_marked.push_back(is_marked[row]);
      kept.rows.push_back(JsonText([&](Writer& writer) {
        writer.BeginArray();
        writer.Int(static_cast<int64_t>(table.fill(row)));
        for (const Cell& cell : table.row(row)) {
          PutPageCell(cell, writer);
          NoteWord(cell);
        }
        writer.EndArray();
      }));
    }
  }

  void NoteWord(const Cell& cell) {
    if (cell.kind() == CellKind::kText &&
        WordInLanguage(cell.text(), Language::kChinese) != cell.text()) {
      words_.insert(std::string(cell.text()));
    }
  }

  void Put(const Bars& bars) {
    StackedBars stacked{bars.unit, {bars.unit}, {}};
    for (const Bar& bar : bars.items) {
      stacked.items.push_back({bar.label, {bar.value}});
    }
    Put(stacked);
  }

  void Put(const StackedBars& bars) {
    Kind("bars");
    writer_.Member("names", bars.names);
    writer_.Member("unit", bars.unit);
    writer_.Key("bars");
    PutTuples(bars.items, writer_,
              [&](const StackedBars::Bar& bar) { PutCurve(bar.label, bar.parts); });
  }

  void Put(const Curves& curves) {
    Kind("curves");
    writer_.Member("unit", curves.unit);
    writer_.Member("axis", curves.axis);
    writer_.Member("positions", curves.positions);
    writer_.Key("curves");
    const size_t most = std::max<size_t>(1, kMostCurveValues / curves.positions.size());
    PutTuples(Cut(curves.items, most, "curve"), writer_,
              [&](const Curve& curve) { PutCurve(curve.label, curve.values); });
  }

  void PutCurve(std::string_view label, const std::vector<double>& values) {
    writer_.Text(label);
    for (const double value : values) {
      PutFigure(value, writer_);
    }
  }

  void Put(const Tree& tree) {
    Kind("tree");
    writer_.Member("unit", tree.unit);
    writer_.Key("nodes");
    PutTuples(tree.items, writer_, [&](const Tree::Node& node) {
      writer_.Int(node.parent);
      writer_.Text(node.label);
      PutFigure(node.first, writer_);
      PutFigure(node.second, writer_);
      writer_.Int(node.first_count);
      writer_.Int(node.second_count);
      writer_.Text(node.note);
    });
  }

  void Put(const Map& map) {
    Kind("map");
    writer_.Member("rows", map.rows);
    writer_.Member("columns", map.columns);
    writer_.Key("cells");
    PutTuples(map.items, writer_, [&](const Map::Cell& cell) {
      writer_.Int(cell.row);
      writer_.Int(cell.column);
      PutFigure(cell.value, writer_);
      writer_.Text(cell.tip);
      writer_.Text(cell.search);
    });
  }

  Writer writer_;
  std::string title_;  // of the section begun last
  std::set<std::string> words_;
};

std::string Listing(const Document& document, const PageView& view, const PageSections& sections) {
  const Verdict& verdict = view.verdict ? *view.verdict : document.verdict;
  return JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("format", kPageFormat);
    PutRun(document.command, writer);
    writer.Member("word", verdict.word);
    writer.Member("verdict", verdict.text);
    writer.Member("tone", ToneName(verdict.tone));
    writer.Member("sides", std::vector<std::string>(view.sides.begin(), view.sides.end()));
    writer.Key("facts");
    PutTuples(view.facts, writer, [&](const Item& fact) {
      writer.Text(fact.label);
      writer.Text(fact.text);
      writer.Text(ToneName(fact.tone));
    });
    writer.Key("next");
    writer.BeginArray();
    for (const Advice& advice : document.next) {
      writer.Text(AdviceText(advice));
    }
    writer.EndArray();
    writer.Member("notes", sections.notes);
    writer.Member("warnings", document.page ? std::vector<std::string>() : document.warnings);
    writer.Key("sections");
    writer.Raw(sections.text);
    writer.Key("tables");
    writer.BeginArray();
    for (const PageTable& table : sections.tables) {
      writer.BeginObject();
      writer.Member("columns", table.columns);
      writer.Member("rows", table.total);
      writer.Member("amounts", table.amounts);
      writer.EndObject();
    }
    writer.EndArray();
    writer.EndObject();
  });
}

}  // namespace

Status CheckAnswerPage() { return CheckShell(resources::kAnswerPage); }

Status WriteAnswerPage(const std::filesystem::path& path, Document& document) {
  const PageView none;
  const PageView& view = document.page ? *document.page : none;
  PageSections sections(view.notes);
  if (document.page) {
    for (const PageSection& section : view.sections) {
      sections.Add(section, section.hint);
    }
  } else {
    for (const Section& section : document.sections) {
      sections.Add(section, "");
    }
  }
  sections.AddFiles(document.files, path);
  sections.Close();
  const auto listing = [&] {
    return PackBlock({"answer", [&](std::string& out) {
                        out +=
                            WithTranslations(Listing(document, view, sections), sections.words());
                      }});
  };
  uint64_t room = kMostPageBytes - resources::kAnswerPage.size();
  room -= std::min<uint64_t>(room, listing().size() + 4096);
  std::vector<std::string> elements(1);
  for (size_t i = 0; i < sections.tables.size(); ++i) {
    const PageTable& table = sections.tables[i];
    size_t rows = table.rows.size();
    std::string element = table.Element(i, rows);
    while (element.size() > room && rows > 0) {
      rows = std::min(rows - 1, static_cast<size_t>(static_cast<double>(rows) * 0.9 *
                                                    static_cast<double>(room) /
                                                    static_cast<double>(element.size())));
      element = table.Element(i, rows);
    }
    room -= std::min<uint64_t>(room, element.size());
    if (rows < table.total) {
      const std::vector<bool>& is_marked = table.is_marked;
      const bool any = std::find(is_marked.begin(), is_marked.end(), true) != is_marked.end();
      sections.notes.push_back(
          fmt::format("{}: the page holds {}{} of {}{}; the other formats hold all", table.name,
                      any ? "" : "the first ", base::FormatCount(rows),
                      base::Plural(table.total, "row"), any ? ", the highlighted ones first" : ""));
    }
    elements.push_back(std::move(element));
  }
  elements[0] = listing();
  MSP_RETURN_IF_ERROR(WriteWebPage(path, resources::kAnswerPage, elements).status());
  document.warnings.insert(document.warnings.end(), sections.notes.begin(), sections.notes.end());
  return {};
}

}  // namespace msprobe::report
