#include "src/report/web_page.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
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
  switch (kind) {
    case ListKind::kNumbered:
      return "numbered";
    case ListKind::kBullets:
      return "bullets";
    case ListKind::kSentences:
      return "sentences";
    case ListKind::kChecks:
      return "checks";
    case ListKind::kAmounts:
      return "amounts";
    case ListKind::kFacts:
    case ListKind::kAligned:
    case ListKind::kNamed:
      break;
  }
  return "facts";
}

// [label, text, tone, source, [details]]
void PutItem(const Item& item, json::Writer& writer) {
  writer.BeginArray();
  writer.Text(item.label);
  writer.Text(item.text);
  writer.Text(ToneName(item.tone));
  writer.Text(item.source ? item.source->line > 0
                                ? fmt::format("{}:{}", item.source->file, item.source->line)
                                : item.source->file
                          : std::string());
  writer.BeginArray();
  for (const Item& detail : item.details) {
    PutItem(detail, writer);
  }
  writer.EndArray();
  writer.EndArray();
}

// Up to 7 digits: a page is for reading, the other files hold all.
void PutFigure(double value, Writer& writer) {
  if (std::isfinite(value)) {
    writer.Raw(fmt::format("{:.7g}", value));
  } else {
    writer.Text(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }
}

void PutCell(const Cell& cell, Writer& writer) {
  switch (cell.kind()) {
    case CellKind::kEmpty:
      writer.Null();
      break;
    case CellKind::kInteger:
      writer.Int(cell.integer());
      break;
    case CellKind::kNumber:
      PutFigure(cell.number(), writer);
      break;
    case CellKind::kText:
    case CellKind::kBoolean:
      writer.Text(CellText(cell));
      break;
  }
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

}  // namespace

Status AnswerPage::Available() {
  if (resources::kAnswerPage.empty()) {
    return UnsupportedError("this msprobe was built without the page for --format html")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; other formats do not "
            "need it");
  }
  return {};
}

void AnswerPage::SetVerdict(std::string_view word, std::string_view line, Tone tone) {
  word_ = word;
  verdict_ = line;
  tone_ = tone;
}

void AnswerPage::SetSides(std::string_view first, std::string_view second) {
  sides_[0] = first;
  sides_[1] = second;
}

void AnswerPage::AddFact(std::string_view value, std::string_view text, Tone tone) {
  facts_.push_back(JsonText([&](Writer& writer) {
    writer.BeginArray();
    writer.Text(value);
    writer.Text(text);
    writer.Text(ToneName(tone));
    writer.EndArray();
  }));
}

void AnswerPage::BeginSection(std::string_view title, std::string_view hint) {
  sections_.push_back({std::string(title), std::string(hint), {}});
}

void AnswerPage::AddText(std::string_view text, Tone tone) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "text");
    writer.Member("text", text);
    writer.Member("tone", ToneName(tone));
    writer.EndObject();
  }));
}

void AnswerPage::AddList(const List& list) {
  const size_t count = std::min(list.items.size(), kMostItems);
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "list");
    writer.Member("style", PageKindName(list.kind));
    writer.Key("items");
    writer.BeginArray();
    for (size_t i = 0; i < count; ++i) {
      PutItem(list.items[i], writer);
    }
    writer.EndArray();
    writer.EndObject();
  }));
  if (count < list.items.size()) {
    notes_.push_back(fmt::format("{}: the page holds the first {} of {}; --json holds all",
                                 sections_.back().title, base::FormatCount(count),
                                 base::Plural(list.items.size(), "item")));
  }
}

void AnswerPage::AddTable(const Table& table, const std::vector<size_t>& amounts) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "table");
    writer.Member("table", static_cast<uint64_t>(tables_.size()));
    writer.EndObject();
  }));
  TableText text{sections_.back().title, table.columns(), {}, {}, table.row_count(), amounts};
  std::vector<bool> is_marked(table.row_count());
  for (size_t row = 0; row < table.row_count(); ++row) {
    is_marked[row] = table.fill(row) != Fill::kNone;
  }
  for (const size_t row : RowsToKeep(is_marked, kMostRows)) {
    text.is_marked.push_back(is_marked[row]);
    text.rows.push_back(JsonText([&](Writer& writer) {
      writer.BeginArray();
      writer.Int(static_cast<int64_t>(table.fill(row)));
      for (const report::Cell& cell : table.row(row)) {
        PutCell(cell, writer);
      }
      writer.EndArray();
    }));
  }
  tables_.push_back(std::move(text));
}

void AnswerPage::AddBars(const std::vector<std::string>& names, const std::vector<Bar>& bars,
                         std::string_view unit) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "bars");
    writer.Member("names", names);
    writer.Member("unit", unit);
    writer.Key("bars");
    writer.BeginArray();
    for (const Bar& bar : bars) {
      writer.BeginArray();
      writer.Text(bar.label);
      for (const double part : bar.parts) {
        PutFigure(part, writer);
      }
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
}

void AnswerPage::AddCurves(const Curves& curves) {
  const size_t most = std::max<size_t>(1, kMostCurveValues / curves.positions.size());
  const size_t count = std::min(curves.items.size(), most);
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "curves");
    writer.Member("unit", curves.unit);
    writer.Member("axis", curves.axis);
    writer.Member("positions", curves.positions);
    writer.Key("curves");
    writer.BeginArray();
    for (size_t i = 0; i < count; ++i) {
      writer.BeginArray();
      writer.Text(curves.items[i].label);
      for (const double value : curves.items[i].values) {
        PutFigure(value, writer);
      }
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
  if (count < curves.items.size()) {
    notes_.push_back(fmt::format("{}: the page holds the first {} of {}; --json holds all",
                                 sections_.back().title, base::FormatCount(count),
                                 base::Plural(curves.items.size(), "curve")));
  }
}

void AnswerPage::AddTree(const std::vector<Node>& nodes, std::string_view unit) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "tree");
    writer.Member("unit", unit);
    writer.Key("nodes");
    writer.BeginArray();
    for (const Node& node : nodes) {
      writer.BeginArray();
      writer.Int(node.parent);
      writer.Text(node.label);
      PutFigure(node.first, writer);
      PutFigure(node.second, writer);
      writer.Int(node.first_count);
      writer.Int(node.second_count);
      writer.Text(node.note);
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
}

void AnswerPage::AddMap(const std::vector<std::string>& rows,
                        const std::vector<std::string>& columns, const std::vector<Cell>& cells) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "map");
    writer.Member("rows", rows);
    writer.Member("columns", columns);
    writer.Key("cells");
    writer.BeginArray();
    for (const Cell& cell : cells) {
      writer.BeginArray();
      writer.Int(cell.row);
      writer.Int(cell.column);
      PutFigure(cell.value, writer);
      writer.Text(cell.tip);
      writer.Text(cell.search);
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
}

void AnswerPage::AddFiles(const std::vector<OutputFile>& files, const std::filesystem::path& page) {
  const size_t count = std::min(files.size(), kMostItems);
  if (count == 0) {
    return;
  }
  BeginSection("Files");
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "files");
    writer.Key("items");
    writer.BeginArray();
    for (size_t i = 0; i < count; ++i) {
      const std::string beside =
          files[i].path.lexically_relative(page.parent_path()).generic_string();
      const bool is_beside = !beside.empty() && !beside.starts_with("..") && beside != ".";
      writer.BeginArray();
      writer.Text(files[i].path.generic_string());
      writer.Text(files[i].what);
      writer.Text(is_beside ? beside : "");
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
  if (count < files.size()) {
    AddNote(fmt::format("Files: the page names the first {} of {}", base::FormatCount(count),
                        base::Plural(files.size(), "file")));
  }
}

std::string AnswerPage::Listing() const {
  const auto put_raw = [](Writer& writer, std::string_view key,
                          const std::vector<std::string>& items) {
    writer.Key(key);
    writer.BeginArray();
    for (const std::string& item : items) {
      writer.Raw(item);
    }
    writer.EndArray();
  };
  return JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("format", kPageFormat);
    writer.Member("version", MSPROBE_VERSION);
    writer.Member("command", command_);
    writer.Member("word", word_);
    writer.Member("verdict", verdict_);
    writer.Member("tone", ToneName(tone_));
    writer.Member("sides", std::vector<std::string>(std::begin(sides_), std::end(sides_)));
    put_raw(writer, "facts", facts_);
    writer.Member("next", next_);
    writer.Member("notes", notes_);
    writer.Member("warnings", warnings_);
    writer.Key("sections");
    writer.BeginArray();
    for (const Section& section : sections_) {
      writer.BeginObject();
      writer.Member("title", section.title);
      writer.Member("hint", section.hint);
      put_raw(writer, "blocks", section.blocks);
      writer.EndObject();
    }
    writer.EndArray();
    writer.Key("tables");
    writer.BeginArray();
    for (const TableText& table : tables_) {
      writer.BeginObject();
      writer.Member("columns", table.columns);
      writer.Member("rows", table.total);
      writer.Key("amounts");
      writer.BeginArray();
      for (const size_t column : table.amounts) {
        writer.Int(static_cast<int64_t>(column));
      }
      writer.EndArray();
      writer.EndObject();
    }
    writer.EndArray();
    writer.EndObject();
  });
}

Status AnswerPage::Write(const std::filesystem::path& path) {
  const auto pack_table = [](size_t index, const TableText& table, size_t most) {
    return PackBlock({fmt::format("t{}", index), [&table, most](std::string& out) {
                        out += '[';
                        for (const size_t row : RowsToKeep(table.is_marked, most)) {
                          out += out.size() == 1 ? "" : ",";
                          out += table.rows[row];
                        }
                        out += ']';
                      }});
  };
  uint64_t room = kMostBytes - resources::kAnswerPage.size();
  room -= std::min<uint64_t>(
      room, PackBlock({"answer", [&](std::string& out) { out += Listing(); }}).size() + 4096);
  std::vector<std::string> elements(1);
  for (size_t i = 0; i < tables_.size(); ++i) {
    size_t rows = tables_[i].rows.size();
    std::string element = pack_table(i, tables_[i], rows);
    while (element.size() > room && rows > 0) {
      rows = std::min(rows - 1, static_cast<size_t>(static_cast<double>(rows) * 0.9 *
                                                    static_cast<double>(room) /
                                                    static_cast<double>(element.size())));
      element = pack_table(i, tables_[i], rows);
    }
    room -= std::min<uint64_t>(room, element.size());
    if (rows < tables_[i].total) {
      const std::vector<bool>& is_marked = tables_[i].is_marked;
      const bool any = std::find(is_marked.begin(), is_marked.end(), true) != is_marked.end();
      notes_.push_back(fmt::format("{}: the page holds {}{} of {}{}; the other formats hold all",
                                   tables_[i].name, any ? "" : "the first ",
                                   base::FormatCount(rows), base::Plural(tables_[i].total, "row"),
                                   any ? ", the highlighted ones first" : ""));
    }
    elements.push_back(std::move(element));
  }
  elements[0] = PackBlock({"answer", [&](std::string& out) { out += Listing(); }});
  return WriteWebPage(path, resources::kAnswerPage, elements).status();
}

namespace {

struct BlockAdder {
  AnswerPage& page;

  void operator()(const List& list) const {
    if (!list.items.empty()) {
      page.AddList(list);
    }
  }
  void operator()(const Text& text) const { page.AddText(text.text, text.tone); }
  void operator()(const DataTable& table) const {
    if (table.table.row_count() > 0) {
      page.AddTable(table.table, table.amounts);
    }
  }
  void operator()(const Bars& bars) const {
    std::vector<AnswerPage::Bar> shown;
    for (const Bar& bar : bars.items) {
      shown.push_back({bar.label, {bar.value}});
    }
    page.AddBars({bars.unit}, shown, bars.unit);
  }
  void operator()(const Curves& curves) const {
    if (!curves.items.empty() && !curves.positions.empty()) {
      page.AddCurves(curves);
    }
  }
};

// Whether anything of a section would be seen.
bool IsEmpty(const Section& section) {
  for (const Block& block : section.blocks) {
    const bool empty = std::visit(
        [](const auto& part) {
          using Part = std::decay_t<decltype(part)>;
          if constexpr (std::is_same_v<Part, Text>) {
            return part.text.empty();
          } else if constexpr (std::is_same_v<Part, DataTable>) {
            return part.table.row_count() == 0;
          } else {
            return part.items.empty();
          }
        },
        block);
    if (!empty) {
      return false;
    }
  }
  return true;
}

}  // namespace

AnswerPage PageOf(const Document& document, const std::filesystem::path& path) {
  AnswerPage page(document.command);
  page.SetVerdict(document.verdict);
  for (const std::string& next : document.next) {
    page.AddNext(next);
  }
  for (const std::string& warning : document.warnings) {
    page.AddWarning(warning);
  }
  for (const Section& section : document.sections) {
    if (IsEmpty(section)) {
      continue;
    }
    page.BeginSection(section.title);
    for (const Block& block : section.blocks) {
      std::visit(BlockAdder{page}, block);
    }
  }
  page.AddFiles(document.files, path);
  return page;
}

}  // namespace msprobe::report
