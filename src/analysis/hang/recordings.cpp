// A file's bytes -> a tree of plain values (a pickle by io's inert machine, JSON by json's) ->
// groups and calls. Both trees are read by the same code through a Source: members of a dict, items
// of a list, texts and numbers. What has another type than it should counts as absent.
//
// The form is that of PyTorch 2.3 to 2.13 (torch/csrc/distributed/c10d, "Flight Recorder"): a dict
// with `entries`, `pg_config` (members of groups) and `pg_status` (how far they are).
#include "src/analysis/hang/recordings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/stack_file.h"
#include "src/io/pickle_reader.h"
#include "src/json/document.h"

namespace msprobe::analysis::hang {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30U;
constexpr size_t kMostCalls = size_t{4} << 20U;
constexpr int64_t kMostRanks = 1 << 24;
constexpr int64_t kMostSequence = int64_t{1} << 53U;

class PickleSource {
 public:
  using Node = io::PickleId;

  explicit PickleSource(const io::Pickle& pickle) : pickle_(pickle) {}

  Node root() const { return pickle_.root(); }
  // A number for nodes that are the same: writers refer to a text or a frame that was there before.
  std::optional<uint64_t> Identity(Node node) const { return node; }
  std::optional<int64_t> Int(Node node) const { return pickle_.AsInt(node); }
  std::string_view Text(Node node) const {
    return pickle_.kind(node) == io::PickleKind::kText ? pickle_.text(node) : std::string_view();
  }
  template <typename Body>
  void ForMembers(Node node, const Body& body) const {
    if (pickle_.kind(node) == io::PickleKind::kDict) {
      const std::span<const Node> items = pickle_.items(node);
      for (size_t i = 0; i + 1 < items.size(); i += 2) {
        body(items[i], items[i + 1]);
      }
    }
  }
  // The text of a key that ForMembers gave.
  std::string KeyText(Node key) const { return std::string(Text(key)); }
  bool IsList(Node node) const {
    const io::PickleKind kind = pickle_.kind(node);
    return kind == io::PickleKind::kList || kind == io::PickleKind::kTuple;
  }
  template <typename Body>
  void ForItems(Node node, const Body& body) const {
    for (const Node item : pickle_.sequence(node)) {
      body(item);
    }
  }

 private:
  const io::Pickle& pickle_;
};

class JsonSource {
 public:
  using Node = const json::Json*;

  explicit JsonSource(const json::Json& document) : document_(document) {}

  Node root() const { return &document_; }
  std::optional<uint64_t> Identity(Node /*node*/) const { return std::nullopt; }
  std::optional<int64_t> Int(Node node) const {
    if (node->is_boolean()) {
      return json::BoolOf(*node) ? 1 : 0;
    }
    return node->is_number_integer() ? std::optional(json::IntOf(*node)) : std::nullopt;
  }
  std::string_view Text(Node node) const { return json::TextOf(*node); }
  template <typename Body>
  void ForMembers(Node node, const Body& body) const {
    if (node->is_object()) {
      for (const auto& [key, value] : node->items()) {
        body(std::string_view(key), &value);
      }
    }
  }
  std::string KeyText(std::string_view key) const { return std::string(key); }
  bool IsList(Node node) const { return node->is_array(); }
  template <typename Body>
  void ForItems(Node node, const Body& body) const {
    for (const json::Json& item : json::ItemsOf(*node)) {
      body(&item);
    }
  }

 private:
  const json::Json& document_;
};

enum class Field : uint8_t {
  kOther,
  kRecord,
  kGroupNumber,
  kGroup,
  kSequence,
  kPointToPointSequence,
  kIsPointToPoint,
  kName,
  kInputs,
  kInputDtypes,
  kOutputs,
  kState,
  kCompleted,
  kRetired,
  kFrames
};

// Keys of an entry; `seq_id` is that of version 1.
constexpr std::array<std::pair<std::string_view, Field>, 15> kFields = {{
    {"record_id", Field::kRecord},
    {"pg_id", Field::kGroupNumber},
    {"process_group", Field::kGroup},
    {"collective_seq_id", Field::kSequence},
    {"seq_id", Field::kSequence},
    {"p2p_seq_id", Field::kPointToPointSequence},
    {"is_p2p", Field::kIsPointToPoint},
    {"profiling_name", Field::kName},
    {"input_sizes", Field::kInputs},
    {"input_dtypes", Field::kInputDtypes},
    {"output_sizes", Field::kOutputs},
    {"state", Field::kState},
    {"time_discovered_completed_ns", Field::kCompleted},
    {"retired", Field::kRetired},
    {"frames", Field::kFrames},
}};

Field FieldOf(std::string_view key) {
  const auto* const found = std::find_if(kFields.begin(), kFields.end(),
                                         [key](const auto& row) { return row.first == key; });
  return found == kFields.end() ? Field::kOther : found->second;
}

// Groups without a description are called so.
std::string DescriptionOf(std::string_view text) {
  return text == "undefined" ? std::string() : std::string(text);
}

template <typename Source>
class RecordingReader {
 public:
  using Node = typename Source::Node;

  explicit RecordingReader(const Source& source) : source_(source) {}

  // Returns false if the file has no list `entries`.
  Result<bool> Read(Recording& made) {
    made_ = &made;
    std::optional<Node> entries;
    std::optional<Node> statuses;
    source_.ForMembers(source_.root(), [&](const auto& key, Node value) {
      const std::string name = source_.KeyText(key);
      if (name == "entries" && source_.IsList(value)) {
        entries = value;
      }
      if (name == "pg_status") {
        statuses = value;
      }
      if (name == "pg_config") {
        ReadGroups(value);
      }
      if (name == "rank") {
        made.rank = InRange(source_.Int(value), 0, kMostRanks);
      }
    });
    if (!entries) {
      return false;
    }
    size_t count = 0;
    source_.ForItems(*entries, [&](Node entry) {
      if (++count <= kMostCalls) {
        ReadCall(entry);
      }
    });
    if (count > kMostCalls) {
      return UnsupportedError(fmt::format("more than {} calls", kMostCalls));
    }
    std::stable_sort(made.calls.begin(), made.calls.end(),
                     [](const Call& a, const Call& b) { return a.record < b.record; });
    made.has_lost = !made.calls.empty() && made.calls.front().record > 0;
    if (statuses) {
      ReadStatuses(*statuses);
    }
    return true;
  }

 private:
  static std::optional<int64_t> InRange(std::optional<int64_t> value, int64_t least, int64_t most) {
    return value && *value >= least && *value <= most ? value : std::nullopt;
  }

  uint32_t GroupOf(const std::string& name, std::string description) {
    const auto [place, is_new] =
        group_of_name_.try_emplace(name, static_cast<uint32_t>(made_->groups.size()));
    if (is_new) {
      made_->groups.push_back({name, {}, {}, {}});
    }
    RecordedGroup& group = made_->groups[place->second];
    if (group.description.empty()) {
      group.description = std::move(description);
    }
    return place->second;
  }

  // {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}; gloo leaves texts empty.
  void ReadGroups(Node configs) {
    source_.ForMembers(configs, [&](const auto& key, Node config) {
      std::string name = source_.KeyText(key);
      std::string description;
      std::vector<int64_t> ranks;
      source_.ForMembers(config, [&](const auto& member, Node value) {
        const std::string what = source_.KeyText(member);
        if (what == "name" && !source_.Text(value).empty()) {
          name = source_.Text(value);
        }
        if (what == "desc") {
          description = DescriptionOf(source_.Text(value));
        }
        if (what == "ranks") {
          ranks = RanksIn(value);
        }
      });
      if (!name.empty()) {
        made_->groups[GroupOf(name, description)].ranks = std::move(ranks);
      }
    });
  }

  // A list, or the text of one.
  std::vector<int64_t> RanksIn(Node value) const {
    std::set<int64_t> ranks;
    const auto add = [&ranks](std::optional<int64_t> rank) {
      if (InRange(rank, 0, kMostRanks)) {
        ranks.insert(*rank);
      }
    };
    source_.ForItems(value, [&](Node item) { add(source_.Int(item)); });
    if (const Result<json::Json> list = json::ParseDocument(source_.Text(value)); list.ok()) {
      for (const json::Json& item : json::ItemsOf(*list)) {
        add(item.is_number_integer() ? std::optional(json::IntOf(item)) : std::nullopt);
      }
    }
    return {ranks.begin(), ranks.end()};
  }

  Field FieldOfKey(const auto& key) {
    if constexpr (std::is_same_v<Source, PickleSource>) {
      const auto [place, is_new] = field_of_key_.try_emplace(key, Field::kOther);
      if (is_new) {
        place->second = FieldOf(source_.Text(key));
      }
      return place->second;
    } else {
      return FieldOf(key);
    }
  }

  void ReadCall(Node entry) {
    Call call;
    call.record = static_cast<int64_t>(made_->calls.size());
    std::string group = "0";
    std::string description;
    std::optional<int64_t> number;
    int64_t sequence = 0;
    int64_t of_point_to_point = 0;
    std::string_view name;
    const auto flag = [&](Node value) { return source_.Int(value).value_or(0) != 0; };
    const auto counted = [&](Node value) {
      return InRange(source_.Int(value), 0, kMostSequence).value_or(0);
    };
    source_.ForMembers(entry, [&](const auto& key, Node value) {
      switch (FieldOfKey(key)) {
        case Field::kRecord:
          call.record = counted(value);
          break;
        case Field::kGroupNumber:
          number = source_.Int(value);
          break;
        case Field::kGroup:
          ReadGroupName(value, group, description);
          break;
        case Field::kSequence:
          sequence = counted(value);
          break;
        case Field::kPointToPointSequence:
          of_point_to_point = counted(value);
          break;
        case Field::kIsPointToPoint:
          call.is_point_to_point = flag(value);
          break;
        case Field::kName:
          name = source_.Text(value);
          break;
        case Field::kInputs:
          call.inputs = ElementsIn(value);
          break;
        case Field::kInputDtypes:
          call.dtypes = TextNumber(DtypesIn(value));
          break;
        case Field::kOutputs:
          call.outputs = ElementsIn(value);
          break;
        case Field::kState:
          call.is_completed |= source_.Text(value) == "completed";
          break;
        case Field::kCompleted:
          call.is_completed |= counted(value) != 0;
          break;
        case Field::kRetired:
          call.is_retired = flag(value);
          break;
        case Field::kFrames:
          call.code = CodeOf(value);
          break;
        case Field::kOther:
          break;
      }
    });
    call.group = GroupOf(group, std::move(description));
    if (number) {
      group_of_number_.try_emplace(std::to_string(*number), call.group);
    }
    call.sequence = call.is_point_to_point ? of_point_to_point : sequence;
    ReadName(name, call);
    made_->calls.push_back(call);
  }

  // ("0", "default_pg"), or the name alone.
  void ReadGroupName(Node value, std::string& name, std::string& description) const {
    if (!source_.Text(value).empty()) {
      name = source_.Text(value);
    }
    size_t place = 0;
    source_.ForItems(value, [&](Node item) {
      if (place == 0) {
        name = source_.Text(item);
      }
      if (place == 1) {
        description = DescriptionOf(source_.Text(item));
      }
      ++place;
    });
  }

  // "nccl:all_reduce"; "nccl:send 0->1", "nccl:recv 1<-0": ranks of the group.
  void ReadName(std::string_view name, Call& call) {
    if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
      name.remove_prefix(colon + 1);
    }
    if (const size_t blank = name.find(' '); blank != std::string_view::npos) {
      const std::string_view peers = name.substr(blank + 1);
      name = name.substr(0, blank);
      for (const std::string_view arrow : {"->", "<-"}) {
        const size_t at = peers.find(arrow);
        if (at == std::string_view::npos) {
          continue;
        }
        const auto rank = [](std::string_view text) {
          return static_cast<int32_t>(InRange(base::ParseInt(text), 0, kMostRanks).value_or(-1));
        };
        call.source = rank(peers.substr(0, at));
        call.target = rank(peers.substr(at + 2));
        if (arrow == "<-") {
          std::swap(call.source, call.target);
        }
      }
    }
    call.kind = TextNumber(std::string(name));
  }

  // The elements of all shapes in a list of shapes.
  uint64_t ElementsIn(Node shapes) const {
    uint64_t elements = 0;
    source_.ForItems(shapes, [&](Node shape) {
      uint64_t product = 1;
      source_.ForItems(shape, [&](Node size) {
        const uint64_t count =
            static_cast<uint64_t>(std::max<int64_t>(source_.Int(size).value_or(0), 0));
        product = count != 0 && product > std::numeric_limits<uint64_t>::max() / count
                      ? std::numeric_limits<uint64_t>::max()
                      : product * count;
      });
      elements = elements > std::numeric_limits<uint64_t>::max() - product
                     ? std::numeric_limits<uint64_t>::max()
                     : elements + product;
    });
    return elements;
  }

  std::string DtypesIn(Node dtypes) const {
    std::set<std::string> names;
    source_.ForItems(dtypes, [&](Node dtype) { names.emplace(source_.Text(dtype)); });
    return base::Join(std::vector<std::string>(names.begin(), names.end()), " ");
  }

  // "trainer.py:214" of the innermost frame of the user's own code, else of the innermost one.
  uint32_t CodeOf(Node frames) {
    std::optional<uint32_t> own;
    std::optional<uint32_t> any;
    source_.ForItems(frames, [&](Node frame) {
      if (own) {
        return;
      }
      const FrameText text = FrameOf(frame);
      if (!any) {
        any = text.code;
      }
      if (text.is_user) {
        own = text.code;
      }
    });
    return own ? *own : any.value_or(kNoText);
  }

  struct FrameText {
    uint32_t code = kNoText;
    bool is_user = false;
  };

  FrameText FrameOf(Node frame) {
    const std::optional<uint64_t> identity = source_.Identity(frame);
    if (identity) {
      if (const auto known = frames_.find(*identity); known != frames_.end()) {
        return known->second;
      }
    }
    std::string_view file;
    std::string_view function;
    int64_t line = 0;
    source_.ForMembers(frame, [&](const auto& key, Node value) {
      const std::string name = source_.KeyText(key);
      if (name == "filename") {
        file = source_.Text(value);
      }
      if (name == "name") {
        function = source_.Text(value);
      }
      if (name == "line") {
        line = source_.Int(value).value_or(0);
      }
    });
    FrameText text;
    if (!file.empty()) {
      text.is_user =
          dump::IsUserFrame(fmt::format("File {}, line {}, in {}", file, line, function));
      text.code = TextNumber(fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line));
    }
    if (identity) {
      frames_.emplace(*identity, text);
    }
    return text;
  }

  // {"0": {"last_enqueued_collective": 6, ...}} by number of the group.
  void ReadStatuses(Node statuses) {
    source_.ForMembers(statuses, [&](const auto& key, Node status) {
      const auto group = group_of_number_.find(source_.KeyText(key));
      if (group == group_of_number_.end()) {
        return;
      }
      source_.ForMembers(status, [&](const auto& member, Node value) {
        if (source_.KeyText(member) == "last_enqueued_collective") {
          made_->groups[group->second].enqueued = InRange(source_.Int(value), 0, kMostSequence);
        }
      });
    });
  }

  uint32_t TextNumber(std::string text) {
    const auto [place, is_new] =
        number_of_text_.try_emplace(std::move(text), static_cast<uint32_t>(made_->texts.size()));
    if (is_new) {
      made_->texts.push_back(place->first);
    }
    return place->second;
  }

  const Source& source_;
  Recording* made_ = nullptr;
  std::unordered_map<std::string, uint32_t> group_of_name_;
  std::unordered_map<std::string, uint32_t> group_of_number_;
  std::unordered_map<std::string, uint32_t> number_of_text_;
  std::unordered_map<uint64_t, Field, io::SpreadHash> field_of_key_;
  std::unordered_map<uint64_t, FrameText, io::SpreadHash> frames_;
};

template <typename Source>
Result<std::optional<Recording>> ReadFrom(const Source& source, const std::filesystem::path& path) {
  Recording recording;
  recording.path = path;
  RecordingReader<Source> reader(source);
  MSP_ASSIGN_OR_RETURN(const bool is_recording, reader.Read(recording));
  return is_recording ? std::optional(std::move(recording)) : std::nullopt;
}

// Numbers in a name, in their order.
std::vector<int64_t> NumbersIn(std::string_view name) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && base::IsDigit(name[end])) {
      ++end;
    }
    if (end > at) {
      const std::optional<int64_t> number = base::ParseInt(name.substr(at, end - at));
      if (number && *number <= kMostRanks) {
        numbers.push_back(*number);
      }
    }
    at = std::max(end, at + 1);
  }
  return numbers;
}

// The number behind "rank", as in "nccl_trace_rank_3" or "rank3".
std::optional<int64_t> NumberBehindRank(std::string_view name) {
  constexpr std::string_view kRank = "rank";
  const size_t at = name.rfind(kRank);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = name.substr(at + kRank.size());
  while (!rest.empty() && (rest.front() == '_' || rest.front() == '-')) {
    rest.remove_prefix(1);
  }
  const bool is_number = !rest.empty() && base::IsDigit(rest.front());
  return is_number ? std::optional(NumbersIn(rest).front()) : std::nullopt;
}

// The one rank that is in all groups of the recording.
std::optional<int64_t> RankByGroups(const Recording& recording) {
  std::optional<std::vector<int64_t>> common;
  for (const RecordedGroup& group : recording.groups) {
    if (group.ranks.empty()) {
      continue;
    }
    if (!common) {
      common = group.ranks;
      continue;
    }
    std::vector<int64_t> both;
    std::set_intersection(common->begin(), common->end(), group.ranks.begin(), group.ranks.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  return common && common->size() == 1 ? std::optional(common->front()) : std::nullopt;
}

// Whether `rule` gives every recording a rank of its own.
template <typename Rule>
bool AllDiffer(const std::vector<Recording>& recordings, const Rule& rule,
               std::vector<int64_t>& ranks) {
  ranks.clear();
  for (const Recording& recording : recordings) {
    const std::optional<int64_t> rank = rule(recording);
    if (!rank) {
      return false;
    }
    ranks.push_back(*rank);
  }
  return std::set<int64_t>(ranks.begin(), ranks.end()).size() == ranks.size();
}

// A rank may have left the same recording as a pickle and as JSON, which has no frames.
std::string NameWithoutForm(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  const bool is_form = extension == ".json" || extension == ".pickle" || extension == ".pkl";
  return (is_form ? path.stem() : path.filename()).string();
}

// A file without a list `entries` is none of a recorder: nullopt.
Result<std::optional<Recording>> ReadRecording(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  if (file.bytes().size() > kMostBytes) {
    return UnsupportedError(fmt::format("{} has more than 1 GiB", path.string()));
  }
  const size_t first = file.text().find_first_not_of(" \t\r\n");
  // JSON's first byte, and those of a dict pickled by protocols 2 to 5, 0 and 1.
  if (first == std::string_view::npos ||
      std::string_view("{\x80(}").find(file.text()[first]) == std::string_view::npos) {
    return std::optional<Recording>();
  }
  if (file.text()[first] == '{') {
    const Result<json::Json> document = json::ParseDocument(file.text());
    if (!document.ok()) {
      return Status(document.status()).AddContext(path.string());
    }
    return ReadFrom(JsonSource(*document), path);
  }
  const Result<io::Pickle> pickle = io::PickleReader::Read(file.bytes());
  if (!pickle.ok()) {
    return Status(pickle.status()).AddContext(path.string());
  }
  return ReadFrom(PickleSource(*pickle), path);
}

}  // namespace

Result<std::vector<Recording>> ReadRecordings(const std::filesystem::path& path, size_t threads,
                                              bool quiet, std::vector<std::string>& warnings) {
  std::vector<std::filesystem::path> paths;
  if (base::IsFolder(path)) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(path));
    for (const std::string& name : names) {
      if (base::IsRegularFile(path / name)) {
        paths.push_back(path / name);
      }
    }
  } else {
    paths.push_back(path);
  }
  std::vector<Result<std::optional<Recording>>> read(paths.size(), std::optional<Recording>());
  base::ThreadPool pool(threads);
  {
    base::Progress progress("reading", paths.size(), "files", quiet);
    pool.ParallelFor(paths.size(), [&](size_t item, size_t /*worker*/) {
      read[item] = ReadRecording(paths[item]);
      progress.Add();
    });
  }
  std::vector<Recording> recordings;
  std::unordered_map<std::string, size_t> place_of_name;
  for (size_t item = 0; item < paths.size(); ++item) {
    if (!read[item].ok()) {
      warnings.push_back(read[item].status().message());
      continue;
    }
    if (!read[item]->has_value()) {
      continue;
    }
    Recording& recording = **read[item];
    const auto [place, is_new] =
        place_of_name.try_emplace(NameWithoutForm(recording.path), recordings.size());
    if (is_new) {
      recordings.push_back(std::move(recording));
    } else if (recordings[place->second].path.extension() == ".json") {
      recordings[place->second] = std::move(recording);
    }
  }
  if (recordings.empty()) {
    return NotFoundError(fmt::format("{} holds no file of a Flight Recorder", path.string()) +
                         (warnings.empty() ? "" : ": " + warnings.front()))
        .WithHint(
            "PyTorch writes them where TORCH_FR_BUFFER_SIZE (before 2.9: "
            "TORCH_NCCL_TRACE_BUFFER_SIZE) is above 0 and a call takes too long");
  }
  return recordings;
}

std::vector<int64_t> RanksOf(const std::vector<Recording>& recordings, bool* guessed) {
  const auto name_of = [](const Recording& recording) {
    return recording.path.filename().string();
  };
  std::vector<int64_t> ranks;
  *guessed = false;
  if (AllDiffer(
          recordings, [](const Recording& of) { return of.rank; }, ranks) ||
      AllDiffer(
          recordings, [&](const Recording& of) { return NumberBehindRank(name_of(of)); }, ranks)) {
    return ranks;
  }
  const auto last_number = [&](const Recording& of) {
    const std::vector<int64_t> numbers = NumbersIn(name_of(of));
    return numbers.empty() ? std::nullopt : std::optional(numbers.back());
  };
  const auto first_number = [&](const Recording& of) {
    const std::vector<int64_t> numbers = NumbersIn(name_of(of));
    return numbers.empty() ? std::nullopt : std::optional(numbers.front());
  };
  if (AllDiffer(recordings, RankByGroups, ranks) || AllDiffer(recordings, last_number, ranks) ||
      AllDiffer(recordings, first_number, ranks)) {
    return ranks;
  }
  *guessed = recordings.size() > 1;
  ranks.resize(recordings.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace msprobe::analysis::hang
