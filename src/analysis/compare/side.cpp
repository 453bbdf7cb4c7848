// Reads one side of a comparison.
//
// dump.json is read entry by entry; the members of an entry (arguments, results, parameters) are
// walked in the order of the Python tool, and every leaf that holds a tensor or a value becomes
// a row. Texts of rows are kept in one arena. With a filter, the file is only scanned for the
// boundaries of entries, and entries that are left out are not decoded. Containers that are
// nested too deeply become one marked row.
#include "src/analysis/compare/side.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "src/base/buffer_pool.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_scan.h"
#include "src/dump/entry_tree.h"
#include "src/dump/json_source.h"
#include "src/dump/layout.h"
#include "src/kernels/crc32.h"

namespace msprobe::analysis::compare {
namespace {

// Where in an entry's tree the facts of one leaf stand.

// The members of a leaf that a row is made of; of equal keys the last one, as EntryTree::Find.
struct LeafMembers {
  uint32_t data_name = dump::EntryTree::kNone;
  uint32_t requires_grad = dump::EntryTree::kNone;
  uint32_t dtype = dump::EntryTree::kNone;
  uint32_t shape = dump::EntryTree::kNone;
  uint32_t value = dump::EntryTree::kNone;
  uint32_t md5 = dump::EntryTree::kNone;
  std::array<uint32_t, kStatCount> stats = {dump::EntryTree::kNone, dump::EntryTree::kNone,
                                            dump::EntryTree::kNone, dump::EntryTree::kNone};

  LeafMembers(const dump::EntryTree& tree, uint32_t index) {
    tree.ForEachChild(index, [&](uint32_t child) {
      const std::string_view key = tree[child].key;
      uint32_t* const member = dump::KeyIs(key, "dtype")           ? &dtype
                               : dump::KeyIs(key, "shape")         ? &shape
                               : dump::KeyIs(key, "requires_grad") ? &requires_grad
                               : dump::KeyIs(key, "data_name")     ? &data_name
                               : dump::KeyIs(key, "value")         ? &value
                               : dump::KeyIs(key, "md5")           ? &md5
                               : dump::KeyIs(key, "type")          ? nullptr
                                                                   : Statistic(key);
      if (member != nullptr) {
        *member = child;
      }
    });
  }

 private:
  uint32_t* Statistic(std::string_view key) {
    for (size_t i = 0; i < kStatCount; ++i) {
      if (key == dump::kStatisticKeys[i]) {
        return &stats[i];
      }
    }
    return nullptr;
  }
};

constexpr std::array<std::string_view, 10> kMarks = {"+",  "-",  "=",  "%",  "@",
                                                     "＋", "－", "＝", "％", "＠"};

bool StartsWithMark(std::string_view text) {
  for (const std::string_view mark : kMarks) {
    if (text.starts_with(mark)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool LooksLikeFormula(std::string_view text) {
  bool found = StartsWithMark(text);
  for (size_t at = text.find(';'); at != std::string_view::npos && !found;
       at = text.find(';', at + 1)) {
    found = StartsWithMark(text.substr(at + 1));
  }
  return found && !base::ParseDouble(text);
}

namespace {

using dump::EntryTree;
using dump::Node;
using dump::NodeKind;
using dump::RowState;

// Containers nested deeper than this give one marked row instead of their contents.
constexpr int kMaxDepth = 10;
constexpr std::string_view kNoFile = "-1";
constexpr std::string_view kNoneText = "None";
constexpr std::string_view kNoChecksum = "N/A";
constexpr std::string_view kChecksumOfNothing = "00000000";  // CRC-32 of the empty text
constexpr std::string_view kPointToPointClass = "torch.distributed.P2POp";
constexpr std::string_view kPlaceArguments[] = {"src", "dst", "group_src", "group_dst"};

struct EntrySection {
  std::string_view key;
  std::string_view suffix;
  RowState state;
};
// The members of an entry that hold rows, in the order in which they are walked.
constexpr EntrySection kSections[] = {
    {"input_args", ".input", RowState::kInput},
    {"input_kwargs", ".input", RowState::kInput},
    {"input", ".input", RowState::kInput},
    {"output", ".output", RowState::kOutput},
    {"parameters", ".parameters", RowState::kParameters},
};

bool IsFalseLike(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return true;
    case NodeKind::kBool:
      return !node.boolean;
    case NodeKind::kInt:
    case NodeKind::kFloat:
      return node.number == 0;
    case NodeKind::kText:
      return node.text.empty();
    case NodeKind::kList:
    case NodeKind::kObject:
      return node.child_count == 0;
  }
  return true;
}

bool HasPart(std::string_view name, std::string_view part) {
  for (size_t at = name.find(part); at != name.npos; at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) {
      return true;
    }
  }
  return false;
}

// The order of the rows of one entry in the table.
int StateOrder(RowState state) {
  switch (state) {
    case RowState::kInput:
    case RowState::kKwargs:
    case RowState::kDebug:
      return 0;
    case RowState::kParameters:
      return 1;
    case RowState::kOutput:
      return 2;
    case RowState::kParametersGrad:
      return 3;
  }
  return 3;
}

// Dtypes, shapes and types of a dump are a few texts that repeat: what was met last under the same
// hash is compared first, which costs less than a search of all.
class RepeatedTexts {
 public:
  explicit RepeatedTexts(Side& side) : side_(side) {}

  std::string_view Intern(std::string_view text) {
    std::string_view& known = texts_[PlaceOf(text)];
    if (known != text) {
      known = side_.Intern(text);
    }
    return known;
  }

  // "[2, 3]" of the node, as Python prints it.
  std::string_view Shape(const EntryTree& tree, uint32_t index) {
    const uint32_t axes = tree[index].child_count;
    if (tree[index].kind != NodeKind::kList || axes > kMostAxes) {
      return Intern(dump::PythonStr(tree, index));
    }
    std::array<int64_t, kMostAxes> sizes{};
    uint64_t hash = axes;
    for (uint32_t axis = 0; axis < axes; ++axis) {
      const Node& node = tree[index + 1 + axis];  // numbers have nothing below them
      if (node.kind != NodeKind::kInt) {
        return Intern(dump::PythonStr(tree, index));
      }
      sizes[axis] = node.integer;
      hash = (hash ^ static_cast<uint64_t>(node.integer)) * 0x9E3779B97F4A7C15ULL;
    }
    KnownShape& known = shapes_[hash >> 58U];
    if (known.axes != axes ||
        !std::equal(sizes.begin(), sizes.begin() + axes, known.sizes.begin())) {
      known = {axes, sizes, side_.Intern(dump::PythonStr(tree, index))};
    }
    return known.text;
  }

 private:
  static constexpr uint32_t kMostAxes = 6;
  struct KnownShape {
    uint32_t axes = UINT32_MAX;
    std::array<int64_t, kMostAxes> sizes{};
    std::string_view text;
  };

  static size_t PlaceOf(std::string_view text) {
    return text.empty() ? 0
                        : (text.size() * 31 + static_cast<unsigned char>(text.back()) * 7 +
                           static_cast<unsigned char>(text[text.size() / 2])) %
                              kPlaces;
  }

  static constexpr size_t kPlaces = 64;
  Side& side_;
  std::array<std::string_view, kPlaces> texts_;
  std::array<KnownShape, kPlaces> shapes_;
};

// CRC-32 as eight hexadecimal digits.
std::string_view ChecksumText(std::string_view text, std::array<char, 8>& digits) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const uint32_t checksum = kernels::Crc32(text);
  for (size_t i = 0; i < digits.size(); ++i) {
    digits[i] = kHex[(checksum >> (28 - 4 * i)) & 0xFU];
  }
  return {digits.data(), digits.size()};
}

class RowBuilder {
 public:
  RowBuilder(Side& side, Edition edition) : side_(side), edition_(edition), repeated_(side) {}

  // Where reading says how far it is: rows get their room at once instead of moving when it is used
  // up.
  void Watch(const uint64_t* read_bytes, const uint64_t* size_bytes) {
    read_bytes_ = read_bytes;
    size_bytes_ = size_bytes;
  }

  Status AddEntry(std::string_view name, const EntryTree& tree) {
    name_bytes_left_ += kRowNameBytesPerByte * TextBytes(name, tree);
    const uint32_t entry_index = static_cast<uint32_t>(side_.entries.size());
    SideEntry entry{side_.Keep(name), static_cast<uint32_t>(side_.rows.size()), 0};
    entry_ = entry_index;
    DetectMd5(tree);
    if (HasPart(name, "debug") || HasPart(name, "parameters_grad")) {
      below_parameters_grad_ = HasPart(name, "parameters_grad");
      path_ = name;
      Walk(tree, 0, 0, below_parameters_grad_ ? RowState::kParametersGrad : RowState::kDebug);
    } else if (tree[0].kind == NodeKind::kObject) {
      below_parameters_grad_ = false;
      for (const EntrySection& section : kSections) {
        const uint32_t child = tree.Find(0, section.key);
        if (child != EntryTree::kNone) {
          path_ = name;
          path_ += section.suffix;
          Walk(tree, child, 0, section.state);
        }
      }
    } else {
      side_.warnings.push_back(fmt::format("{}: the entry is not an object; skipped", name));
    }
    if (names_too_long_) {
      return BadFormatError(fmt::format(
          "{}: {}: the names of rows up to this entry take more than {} MiB and {} times "
          "the text: keys that long stand in no dump",
          side_.json_path.string(), base::Printable(base::Shortened(name, 200)),
          kMostRowNameBytes >> 20U, kRowNameBytesPerByte));
    }
    ReadNoiseFloor(name, tree, entry.first_row);
    entry.row_count = static_cast<uint32_t>(side_.rows.size()) - entry.first_row;
    const auto is_before = [](const SideRow& a, const SideRow& b) {
      return StateOrder(a.state) < StateOrder(b.state);
    };
    const auto first = side_.rows.begin() + entry.first_row;
    if (!std::is_sorted(first, side_.rows.end(), is_before)) {
      std::stable_sort(first, side_.rows.end(), is_before);
    }
    side_.entries.push_back(entry);
    return {};
  }

  // An entry that is left out tells how the dump was made all the same.
  Status PassEntry(const EntryTree& tree) {
    DetectMd5(tree);
    return {};
  }

  Framework seen_framework() const { return seen_framework_; }

 private:
  // No more than the entry takes in the file.
  static uint64_t TextBytes(std::string_view name, const EntryTree& tree) {
    uint64_t bytes = name.size();
    for (uint32_t i = 0; i < tree.size(); ++i) {
      bytes += tree[i].key.size() + tree[i].text.size() + 1;
    }
    return bytes;
  }

  // Appends a path segment for the time of a scope.
  class Segment {
   public:
    Segment(std::string& path, std::string_view text) : path_(path), length_(path.size()) {
      path_ += '.';
      path_ += text;
    }
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    ~Segment() { path_.resize(length_); }

   private:
    std::string& path_;
    const size_t length_;
  };

  // Recursion ends at kMaxDepth.
  void Walk(const EntryTree& tree, uint32_t index, int depth, RowState state) {
    const Node& node = tree[index];
    if (names_too_long_) {
      return;
    }
    if (node.kind == NodeKind::kNull) {
      AddNullRow(index, state);
      return;
    }
    if (IsFalseLike(node)) {
      return;
    }
    if (node.kind != NodeKind::kList && node.kind != NodeKind::kObject) {
      return;
    }
    if (depth > kMaxDepth) {
      SideRow& row = AddNullRow(index, state);
      row.problem = "Nested more than 10 levels deep: not compared.";
      return;
    }
    if (node.kind == NodeKind::kList) {
      size_t position = 0;
      tree.ForEachChild(index, [&](uint32_t child) {
        if (below_parameters_grad_) {
          Walk(tree, child, depth + 1, state);
        } else {
          const Segment segment(path_, std::to_string(position++));
          Walk(tree, child, depth + 1, state);
        }
      });
      return;
    }
    if (edition_ == Edition::kV26 &&
        TextOf(tree, tree.Find(index, "class_type")) == kPointToPointClass) {
      AddPointToPoint(tree, index, depth, state);
      return;
    }
    const uint32_t type = tree.Find(index, "type");
    if (type != EntryTree::kNone && tree[type].kind == NodeKind::kText) {
      AddLeaf(tree, index, tree[type].text, state);
      return;
    }
    tree.ForEachChild(index, [&](uint32_t child) {
      const Segment segment(path_, tree[child].key);
      Walk(tree, child, depth + 1, state);
    });
  }

  // {"repeats": 5, "output": {"0": {"digits": 6.9, "noise": 3e-07}}}, a key for the place of each.
  void ReadNoiseFloor(std::string_view name, const EntryTree& tree, uint32_t first_row) {
    const uint32_t floor = tree.Find(0, "noise_floor");
    const uint32_t outputs = floor == EntryTree::kNone ? floor : tree.Find(floor, "output");
    if (outputs == EntryTree::kNone || tree[outputs].kind != NodeKind::kObject) {
      return;
    }
    // A search among the outputs for every row would take the square of their number.
    std::unordered_map<std::string_view, uint32_t> place_of;
    tree.ForEachChild(outputs, [&](uint32_t child) { place_of[tree[child].key] = child; });
    const std::string prefix = fmt::format("{}.output.", name);
    for (size_t i = first_row; i < side_.rows.size(); ++i) {
      SideRow& row = side_.rows[i];
      if (!row.is_tensor || !row.name.starts_with(prefix)) {
        continue;
      }
      const auto found = place_of.find(row.name.substr(prefix.size()));
      if (found == place_of.end() || tree[found->second].kind != NodeKind::kObject) {
        continue;
      }
      const StatValue noise = ToStat(tree, tree.Find(found->second, "noise"));
      const StatValue digits = ToStat(tree, tree.Find(found->second, "digits"));
      if (noise.is_numeric() && std::isfinite(noise.number) && noise.number >= 0) {
        row.noise_floor = static_cast<float>(noise.number);
        row.digits = digits.is_numeric() ? static_cast<float>(digits.number) : -1;
      }
    }
  }

  // One row, of the tensor sent or received.
  void AddPointToPoint(const EntryTree& tree, uint32_t index, int depth, RowState state) {
    const uint32_t tensor = tree.Find(index, "tensor");
    if (tensor == EntryTree::kNone) {
      return;
    }
    const size_t first = side_.rows.size();
    Walk(tree, tensor, depth + 1, state);
    const auto text = [&](std::string_view key) {
      const uint32_t child = tree.Find(index, key);
      return child == EntryTree::kNone ? kNoneText : side_.Intern(dump::PythonStr(tree, child));
    };
    for (size_t row = first; row < side_.rows.size(); ++row) {
      side_.rows[row].point_to_point = static_cast<uint32_t>(side_.point_to_point.size()) + 1;
    }
    side_.point_to_point.push_back({text("op"), text("peer")});
  }

  // Twice as much, or what all entries will need if they are as those that were read.
  void MakeRoom() {
    constexpr uint64_t kFewBytes = uint64_t{1} << 18U;
    constexpr double kMargin = 1.02;
    constexpr uint64_t kMostBytesPerByte = 4;
    const size_t rows = side_.rows.size();
    size_t wanted = std::max<size_t>(rows * 2, 64);
    if (read_bytes_ != nullptr && *read_bytes_ >= kFewBytes) {
      const double share = static_cast<double>(*read_bytes_) / static_cast<double>(*size_bytes_);
      const auto all = static_cast<size_t>(static_cast<double>(rows) / share * kMargin) + 64;
      // A file that is dense in front only must not ask for more than memory can hold.
      const size_t most = kMostBytesPerByte * *size_bytes_ / sizeof(SideRow);
      wanted = std::max(std::min(all, most), rows + rows / 4);
    }
    side_.rows.reserve(wanted);
    base::AskForHugePages(side_.rows.data(), wanted * sizeof(SideRow));
  }

  SideRow& AddRow(std::string_view name, RowState section_state) {
    if (side_.rows.size() == side_.rows.capacity()) {
      MakeRoom();
    }
    SideRow& row = side_.rows.emplace_back();
    if (name.size() > name_bytes_left_) {
      names_too_long_ = true;  // the entry is refused: its rows need no names
      name = {};
    }
    name_bytes_left_ -= name.size();
    row.name = side_.Keep(name);
    row.entry = entry_;
    if (const std::optional<dump::RowName> parsed = dump::ParseRowName(row.name)) {
      row.state = parsed->state;
      row.api_name = parsed->api_name;
    } else {
      row.state = section_state;
      row.api_name = row.name;
      row.problem = "The name follows none of the known forms; its group in the table is a guess.";
    }
    return row;
  }

  SideRow& AddNullRow(uint32_t index, RowState state) {
    SideRow& row = AddRow(path_, state);
    row.leaf = index;
    row.dtype = kNoneText;
    row.shape = kNoneText;
    row.data_name = kNoFile;
    row.md5 = kNoChecksum;
    return row;
  }

  // Empty if the member is missing or not a text.
  static std::string_view TextOf(const EntryTree& tree, uint32_t member) {
    return member != EntryTree::kNone && tree[member].kind == NodeKind::kText ? tree[member].text
                                                                              : std::string_view();
  }

  // A checksum is a text; single values of newer dumps stand there as the numbers they are.
  std::string_view ChecksumOf(const EntryTree& tree, uint32_t member) {
    if (member == EntryTree::kNone || tree[member].kind == NodeKind::kText ||
        edition_ == Edition::kV8 || tree[member].kind == NodeKind::kNull) {
      return TextOf(tree, member);
    }
    return side_.Keep(dump::PythonStr(tree, member));
  }

  StatValue ToStat(const EntryTree& tree, uint32_t index) {
    StatValue stat;
    if (index == EntryTree::kNone) {
      return stat;
    }
    const Node& node = tree[index];
    switch (node.kind) {
      case NodeKind::kNull:
        break;
      case NodeKind::kBool:
        stat.kind = StatKind::kBool;
        stat.boolean = node.boolean;
        break;
      case NodeKind::kInt:
        stat.SetInteger(node.integer);
        break;
      case NodeKind::kFloat:
        stat.kind = StatKind::kNumber;
        stat.number = node.number;
        break;
      case NodeKind::kText:
      case NodeKind::kList:
      case NodeKind::kObject:
        stat = TextStat(dump::PythonStr(tree, index));
        break;
    }
    return stat;
  }

  StatValue TextStat(std::string_view text) {
    StatValue stat;
    stat.SetText(side_.Keep(text));
    return stat;
  }

  void AddLeaf(const EntryTree& tree, uint32_t index, std::string_view type, RowState state) {
    if (seen_framework_ == Framework::kUnknown) {
      seen_framework_ = type.starts_with("mindspore") ? Framework::kMindSpore
                        : type.starts_with("torch")   ? Framework::kPyTorch
                                                      : Framework::kUnknown;
    }
    const LeafMembers members(tree, index);
    const std::string_view data_name = TextOf(tree, members.data_name);
    // The file names the row, so that a dump can rename rows.
    const size_t dot = data_name.rfind('.');
    SideRow& row = AddRow(data_name.empty() || dot == std::string_view::npos || dot == 0
                              ? std::string_view(path_)
                              : data_name.substr(0, dot),
                          state);
    row.leaf = index;
    row.type = repeated_.Intern(type);
    row.data_name = data_name.empty() ? kNoFile : side_.Keep(data_name);
    row.requires_grad = RequiresGradOf(tree, members.requires_grad);
    const uint32_t dtype = members.dtype;
    const uint32_t value = members.value;
    if (dtype != EntryTree::kNone && !IsFalseLike(tree[dtype])) {
      row.is_tensor = true;
      row.dtype = tree[dtype].kind == NodeKind::kText ? repeated_.Intern(tree[dtype].text)
                                                      : side_.Intern(dump::PythonStr(tree, dtype));
      row.shape =
          members.shape == EntryTree::kNone ? kNoneText : repeated_.Shape(tree, members.shape);
      for (size_t i = 0; i < kStatCount; ++i) {
        row.stats[i] = ToStat(tree, members.stats[i]);
      }
    } else {
      FillValueLeaf(tree, index, type, value, row);
    }
    const std::string_view md5 = ChecksumOf(tree, members.md5);
    if (edition_ == Edition::kV26 && AddPlaceTexts(tree, index, type, value, row)) {
      return;
    }
    if (!md5.empty()) {
      row.md5 = side_.Keep(md5);
    } else if (value == EntryTree::kNone) {
      row.md5 = kChecksumOfNothing;
    } else {
      std::array<char, 8> digits;
      row.md5 = repeated_.Intern(ChecksumText(dump::PythonStr(tree, value), digits));
      if (tree[value].kind == NodeKind::kText && LooksLikeFormula(tree[value].text)) {
        NoteFormula(row.name, tree[value].text);
      }
    }
  }

  static RequiresGrad RequiresGradOf(const EntryTree& tree, uint32_t child) {
    if (child == EntryTree::kNone) {
      return RequiresGrad::kAbsent;
    }
    if (tree[child].kind != NodeKind::kBool) {
      return RequiresGrad::kNone;
    }
    return tree[child].boolean ? RequiresGrad::kTrue : RequiresGrad::kFalse;
  }

  // Ranks and groups of ranks are places, not numbers: texts in every column, checksum included.
  bool AddPlaceTexts(const EntryTree& tree, uint32_t index, std::string_view type, uint32_t value,
                     SideRow& row) {
    uint32_t place = EntryTree::kNone;
    if (type == "torch.ProcessGroup") {
      place = tree.Find(index, "group_ranks");
    } else if (IsPlaceArgument(row.name)) {
      place = value;
    }
    if (place == EntryTree::kNone) {
      return false;
    }
    row.stats.fill(TextStat(dump::PythonStr(tree, place)));
    row.md5 = row.stats[0].text();
    return true;
  }

  static bool IsPlaceArgument(std::string_view row_name) {
    const std::string_view last = row_name.substr(row_name.rfind('.') + 1);
    return std::find(std::begin(kPlaceArguments), std::end(kPlaceArguments), last) !=
           std::end(kPlaceArguments);
  }

  void FillValueLeaf(const EntryTree& tree, uint32_t index, std::string_view type, uint32_t value,
                     SideRow& row) {
    row.shape = "[]";
    row.dtype = row.type;
    if (type == "torch.Size") {
      row.shape =
          value == EntryTree::kNone ? kNoneText : side_.Intern(dump::PythonStr(tree, value));
    } else if (type == "slice") {
      row.shape = side_.Intern(value == EntryTree::kNone ? "()" : SliceShape(tree, value));
    } else if (type == "ellipsis") {
      row.stats.fill(ToStat(tree, value));
    } else if (type == "torch.ProcessGroup") {
      const uint32_t ranks = tree.Find(index, "group_ranks");
      row.stats.fill(ranks == EntryTree::kNone ? TextStat(kNoneText)
                                               : TextStat(dump::PythonStr(tree, ranks)));
    } else {
      row.dtype = value == EntryTree::kNone ? dump::PythonClass(NodeKind::kNull)
                                            : dump::PythonClass(tree[value].kind);
      row.stats.fill(ToStat(tree, value));
    }
  }

  // The shape of numpy.array(value).
  static std::string SliceShape(const EntryTree& tree, uint32_t value) {
    return tree[value].kind == NodeKind::kList ? fmt::format("({},)", tree[value].child_count)
                                               : "()";
  }

  void NoteFormula(std::string_view row_name, std::string_view text) {
    if (formula_notes_++ < 3) {
      side_.warnings.push_back(fmt::format(
          "{}: the text \"{}\" looks like a spreadsheet formula; it is written as plain text",
          row_name, text.substr(0, 80)));
    }
  }

  // A dump made with checksums: two levels are looked at in dump.json, every level in debug.json.
  void DetectMd5(const EntryTree& tree) {
    if (side_.has_md5 || tree.size() == 0) {
      return;
    }
    if (side_.is_debug) {
      for (uint32_t i = 0; i < tree.size(); ++i) {
        side_.has_md5 = side_.has_md5 || tree[i].key == "md5";
      }
      return;
    }
    if (tree[0].kind != NodeKind::kObject) {
      return;
    }
    tree.ForEachChild(0, [&](uint32_t member) {
      if (tree[member].kind == NodeKind::kList) {
        tree.ForEachChild(member, [&](uint32_t item) {
          side_.has_md5 = side_.has_md5 || (tree[item].kind == NodeKind::kObject &&
                                            tree.Find(item, "md5") != EntryTree::kNone);
        });
      } else if (tree[member].kind == NodeKind::kObject) {
        side_.has_md5 = side_.has_md5 || tree.Find(member, "md5") != EntryTree::kNone;
      }
    });
  }

  Side& side_;
  const Edition edition_;
  RepeatedTexts repeated_;
  const uint64_t* read_bytes_ = nullptr;
  const uint64_t* size_bytes_ = nullptr;
  std::string path_;
  uint32_t entry_ = 0;
  bool below_parameters_grad_ = false;
  int formula_notes_ = 0;
  uint64_t name_bytes_left_ = kMostRowNameBytes;
  bool names_too_long_ = false;
  Framework seen_framework_ = Framework::kUnknown;
};

}  // namespace

std::string_view Side::Intern(std::string_view text) {
  const auto found = interned_.find(text);
  return found != interned_.end() ? *found : *interned_.insert(arena_->Keep(text)).first;
}

namespace {

// Many times as fast as find() where the first letter of what is looked for is frequent.
bool Mentions(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

Status SkimSide(const SideOptions& options, RowBuilder& builder, Side& side) {
  Status failed;
  const auto visit = [&](const dump::ScannedEntry& entry, const auto& /*so_far*/) {
    const bool keep = options.keep_entry(entry.name);
    if (!keep && (side.has_md5 || !Mentions(entry.text, "\"md5\""))) {
      return true;
    }
    if (keep && options.places != nullptr) {
      options.places->push_back({entry.offset, entry.text.size()});
    }
    const Result<EntryTree> tree = dump::ParseEntry(entry.text);
    failed = !tree.ok() ? tree.status()
             : keep     ? builder.AddEntry(entry.name, *tree)
                        : builder.PassEntry(*tree);
    return failed.ok();
  };
  MSP_ASSIGN_OR_RETURN(const dump::EntryScanOutcome outcome,
                       dump::ScanEntries(side.json_path, visit));
  MSP_RETURN_IF_ERROR(std::move(failed), "cannot read ", side.json_path.string());
  if (outcome.truncated) {
    return BadFormatError(fmt::format("{} ends early", side.json_path.string()));
  }
  side.header.task = outcome.task;
  side.header.framework = outcome.framework;
  side.header.has_data = outcome.has_data;
  side.header.recovery = outcome.recovery;
  side.header.entry_count = outcome.entry_count;
  side.header.size_bytes = outcome.size_bytes;
  return {};
}

}  // namespace

Result<Side> LoadSide(const std::filesystem::path& json_path, const SideOptions& options) {
  Side side;
  side.json_path = json_path;
  side.tensor_folder = json_path.parent_path() / dump::kTensorFolderName;
  side.is_debug = json_path.filename() == dump::kDebugFileName;
  RowBuilder builder(side, options.edition);
  dump::ReadOptions read_options;
  read_options.allow_truncated = options.allow_truncated;
  uint64_t read_bytes = 0;
  uint64_t size_bytes = 0;
  if (!options.keep_entry) {
    read_options.read_bytes = &read_bytes;
    read_options.size_bytes = &size_bytes;
    builder.Watch(&read_bytes, &size_bytes);
  }
  // Places of entries that are left out would stand among the others.
  read_options.places = options.keep_entry ? nullptr : options.places;
  if (options.skim && options.keep_entry) {
    MSP_RETURN_IF_ERROR(SkimSide(options, builder, side));
  } else {
    MSP_ASSIGN_OR_RETURN(side.header,
                         dump::ReadDumpFile(json_path, read_options,
                                            [&](std::string_view name, const EntryTree& entry) {
                                              return options.keep_entry && !options.keep_entry(name)
                                                         ? builder.PassEntry(entry)
                                                         : builder.AddEntry(name, entry);
                                            }));
  }
  side.framework = side.header.framework == "pytorch"     ? Framework::kPyTorch
                   : side.header.framework == "mindspore" ? Framework::kMindSpore
                                                          : builder.seen_framework();
  if (options.edition == Edition::kV26) {
    if (side.header.framework == "mindtorch") {
      side.framework = Framework::kMindSpore;
    } else if (side.framework == Framework::kUnknown) {
      side.framework = Framework::kPyTorch;
    }
  }
  if (side.header.recovery) {
    side.warnings.push_back(fmt::format("{}: the capture was interrupted; its log holds {} entries",
                                        json_path.parent_path().string(), side.header.entry_count));
  }
  if (side.header.truncated) {
    side.warnings.push_back(
        fmt::format("{}: the file ends early; its {} complete entries are compared",
                    json_path.string(), side.header.entry_count));
  }
  return side;
}

}  // namespace msprobe::analysis::compare
