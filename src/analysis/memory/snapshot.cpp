// A snapshot is a dict: `segments`, what the allocator got from the device, each with its `blocks`
// in the order of their addresses; `device_traces`, per device the last events (`alloc`,
// `free_requested`, `free_completed`, ...) if a history was recorded. Blocks and events have
// `frames`, the innermost first; frames of equal stacks are one object, so that texts are made once
// for each.
//
// The form is that of PyTorch 1.13 to 2.13 (its page "Understanding CUDA Memory Usage"); before 2.1
// a block has its frames in `history`. What has another type than it should counts as absent.
#include "src/analysis/memory/snapshot.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/dump/stack_file.h"
#include "src/io/pickle_reader.h"

namespace msprobe::analysis::memory {
namespace {

using io::PickleId;
using io::PickleKind;

constexpr uint64_t kMostBytes = uint64_t{1} << 30U;
constexpr int64_t kMostSize = int64_t{1} << 50U;  // of a block, in bytes
constexpr size_t kMostFrames = 64;
constexpr size_t kMostText = 200;  // of a name in a frame

enum class Field : uint8_t {
  kSegments,
  kTraces,
  kDevice,
  kTotalSize,
  kBlocks,
  kAddress,
  kSize,
  kState,
  kFrames,
  kHistory,
  kAction,
  kFileName,
  kLine,
  kName,
  kOther
};
constexpr size_t kFields = static_cast<size_t>(Field::kOther);
constexpr std::array<std::pair<std::string_view, Field>, 16> kKeys = {{
    {"segments", Field::kSegments},
    {"device_traces", Field::kTraces},
    {"device", Field::kDevice},
    {"total_size", Field::kTotalSize},
    {"blocks", Field::kBlocks},
    {"address", Field::kAddress},
    {"addr", Field::kAddress},
    {"size", Field::kSize},
    {"real_size", Field::kSize},
    {"state", Field::kState},
    {"frames", Field::kFrames},
    {"history", Field::kHistory},
    {"action", Field::kAction},
    {"filename", Field::kFileName},
    {"line", Field::kLine},
    {"name", Field::kName},
}};

// The last two parts of a path: names like __init__.py say nothing alone.
std::string_view ShortPath(std::string_view path) {
  const size_t last = path.rfind('/');
  const size_t before =
      last == std::string_view::npos || last == 0 ? last : path.rfind('/', last - 1);
  return last == std::string_view::npos || before == std::string_view::npos
             ? path
             : path.substr(before + 1);
}

class SnapshotReader {
 public:
  SnapshotReader(const io::Pickle& pickle, Snapshot& made) : pickle_(pickle), made_(made) {}

  Status Read() {
    const Members root = MembersOf(pickle_.root());
    const PickleId segments = root[static_cast<size_t>(Field::kSegments)];
    // torch.cuda.memory_snapshot() is the list alone.
    const bool is_list = pickle_.kind(pickle_.root()) == PickleKind::kList;
    if (!is_list && !IsList(segments)) {
      return BadFormatError("it is a pickle, but none of a memory snapshot: no list `segments`")
          .WithHint("torch.cuda.memory._dump_snapshot(\"a.pickle\") writes one");
    }
    for (const PickleId segment : pickle_.sequence(is_list ? pickle_.root() : segments)) {
      MSP_RETURN_IF_ERROR(ReadSegment(MembersOf(segment)));
    }
    int64_t device = 0;
    for (const PickleId trace : SequenceOf(root, Field::kTraces)) {
      ReadTrace(trace, device++);
    }
    if (unreadable_ > 0) {
      made_.warnings.push_back(fmt::format("{} with a size that no block can have: left out",
                                           base::Plural(unreadable_, "block")));
    }
    made_.devices = live_on_.size();
    std::map<std::string, StackAmount> by_text;
    for (StackAmount& of : stacks_) {
      if (of.live.blocks > 0 || of.unfreed.blocks > 0) {
        by_text.emplace(of.stack, std::move(of));
      }
    }
    for (auto& [text, of] : by_text) {
      made_.stacks.push_back(std::move(of));
    }
    return {};
  }

 private:
  using Members = std::array<PickleId, kFields>;

  bool IsList(PickleId value) const {
    return value != io::kNoPickleValue &&
           (pickle_.kind(value) == PickleKind::kList || pickle_.kind(value) == PickleKind::kTuple);
  }

  // The known members of a dict; writers refer to a key that was there before, so that its text is
  // compared once.
  Members MembersOf(PickleId dict) {
    Members members;
    members.fill(io::kNoPickleValue);
    if (pickle_.kind(dict) != PickleKind::kDict) {
      return members;
    }
    const std::span<const PickleId> items = pickle_.items(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const Field field = FieldOf(items[i]);
      if (field != Field::kOther) {
        members[static_cast<size_t>(field)] = items[i + 1];
      }
    }
    return members;
  }

  Field FieldOf(PickleId key) {
    const auto [known, is_new] = field_of_key_.try_emplace(key, Field::kOther);
    if (is_new && pickle_.kind(key) == PickleKind::kText) {
      const auto* const found = std::find_if(kKeys.begin(), kKeys.end(), [&](const auto& row) {
        return row.first == pickle_.text(key);
      });
      known->second = found == kKeys.end() ? Field::kOther : found->second;
    }
    return known->second;
  }

  std::span<const PickleId> SequenceOf(const Members& of, Field field) const {
    const PickleId value = of[static_cast<size_t>(field)];
    return value == io::kNoPickleValue ? std::span<const PickleId>() : pickle_.sequence(value);
  }
  std::optional<int64_t> IntOf(const Members& of, Field field) const {
    const PickleId value = of[static_cast<size_t>(field)];
    return value == io::kNoPickleValue ? std::nullopt : pickle_.AsInt(value);
  }
  std::string_view TextOf(const Members& of, Field field) const {
    const PickleId value = of[static_cast<size_t>(field)];
    return value != io::kNoPickleValue && pickle_.kind(value) == PickleKind::kText
               ? pickle_.text(value)
               : std::string_view();
  }
  // nullopt, counted, for what no block can have.
  std::optional<uint64_t> SizeOf(const Members& of, Field field) {
    const std::optional<int64_t> size = IntOf(of, field);
    if (!size || *size < 0 || *size > kMostSize) {
      ++unreadable_;
      return std::nullopt;
    }
    return static_cast<uint64_t>(*size);
  }

  Status ReadSegment(const Members& segment) {
    const std::optional<uint64_t> total = SizeOf(segment, Field::kTotalSize);
    if (!total) {
      return {};
    }
    ++made_.segments;
    made_.reserved += *total;
    // Sums of what is checked here stay far below 2^64.
    if (made_.reserved > static_cast<uint64_t>(kMostSize)) {
      return BadFormatError("its segments take more than any memory");
    }
    const int64_t device = IntOf(segment, Field::kDevice).value_or(0);
    uint64_t live = 0;
    uint64_t free = 0;
    for (const PickleId id : SequenceOf(segment, Field::kBlocks)) {
      const Members block = MembersOf(id);
      const std::optional<uint64_t> size = SizeOf(block, Field::kSize);
      if (!size || *size > *total - live - free) {
        unreadable_ += size ? 1 : 0;
        continue;
      }
      const std::string_view state = TextOf(block, Field::kState);
      if (state == "inactive") {
        free += *size;
        made_.largest_free = std::max(made_.largest_free, *size);
        continue;
      }
      live += *size;
      Add(StackOfBlock(block), *size, &StackAmount::live);
    }
    made_.live.bytes += live;
    live_on_[device] += live;
    made_.stuck += live > 0 ? free : 0;
    return {};
  }

  void Add(size_t stack, uint64_t bytes, Amount StackAmount::*amount) {
    (stacks_[stack].*amount).bytes += bytes;
    ++(stacks_[stack].*amount).blocks;
    made_.live.blocks += amount == &StackAmount::live ? 1 : 0;
  }

  size_t StackOfBlock(const Members& block) {
    const PickleId frames = block[static_cast<size_t>(Field::kFrames)];
    if (IsList(frames) && !pickle_.sequence(frames).empty()) {
      return StackOf(frames);
    }
    for (const PickleId entry : SequenceOf(block, Field::kHistory)) {
      const PickleId older = MembersOf(entry)[static_cast<size_t>(Field::kFrames)];
      if (IsList(older) && !pickle_.sequence(older).empty()) {
        return StackOf(older);
      }
    }
    return StackOf(io::kNoPickleValue);
  }

  size_t StackOf(PickleId frames) {
    const auto [known, is_new] = stack_of_frames_.try_emplace(frames, 0);
    if (is_new) {
      StackAmount made = DescribeStack(frames);
      const auto [place, is_new_text] = stack_of_text_.try_emplace(made.stack, stacks_.size());
      if (is_new_text) {
        stacks_.push_back(std::move(made));
      }
      known->second = place->second;
    }
    return known->second;
  }

  // Frames of Python where there are any; those of C++ in between say how, not who.
  StackAmount DescribeStack(PickleId frames) {
    StackAmount made;
    std::vector<std::string> python;
    std::vector<std::string> others;
    const std::span<const PickleId> list =
        frames == io::kNoPickleValue ? std::span<const PickleId>() : pickle_.sequence(frames);
    for (const PickleId id : list) {
      const Members frame = MembersOf(id);
      const std::string_view file = TextOf(frame, Field::kFileName);
      const std::string_view name = TextOf(frame, Field::kName);
      const int64_t line = IntOf(frame, Field::kLine).value_or(0);
      const std::string function = base::Shortened(name, kMostText, "...");
      if (!file.ends_with(".py")) {
        if (others.size() < kMostFrames && !name.empty()) {
          others.push_back(function);
        }
        continue;
      }
      if (python.size() < kMostFrames) {
        python.push_back(fmt::format("{}:{} {}", base::Shortened(ShortPath(file), kMostText, "..."),
                                     line, function));
      }
      if (made.code.empty() &&
          dump::IsUserFrame(fmt::format("File {}, line {}, in {}", file, line, name))) {
        made.code = fmt::format("{}:{}", file, line);
      }
    }
    made.stack = base::Join(python.empty() ? others : python, kBetweenFrames);
    if (made.stack.empty()) {
      made.stack = kNoStack;
    }
    return made;
  }

  // What the events change, from the first to the last; the last one leads to what is live now.
  void ReadTrace(PickleId trace, int64_t device) {
    const std::span<const PickleId> events = pickle_.sequence(trace);
    if (events.empty()) {
      return;
    }
    struct Open {
      uint64_t bytes;
      size_t stack;
    };
    std::unordered_map<int64_t, Open, io::SpreadHash> open;
    double change = 0;
    std::array<double, Snapshot::kPoints> most;
    most.fill(-1e300);
    for (size_t i = 0; i < events.size(); ++i) {
      const Members event = MembersOf(events[i]);
      const std::string_view action = TextOf(event, Field::kAction);
      const std::optional<int64_t> address = IntOf(event, Field::kAddress);
      ++made_.events;
      made_.out_of_memory += action == "oom" ? 1 : 0;
      if (action == "alloc" && address) {
        if (const std::optional<uint64_t> size = SizeOf(event, Field::kSize)) {
          const PickleId frames = event[static_cast<size_t>(Field::kFrames)];
          open[*address] = {*size, StackOf(IsList(frames) ? frames : io::kNoPickleValue)};
          change += static_cast<double>(*size);
        }
      } else if ((action == "free_requested" || action == "free_completed" || action == "free") &&
                 address) {
        if (const auto at = open.find(*address); at != open.end()) {
          change -= static_cast<double>(at->second.bytes);
          open.erase(at);
        } else if (action != "free_completed") {
          // Allocated before the record began.
          change -= static_cast<double>(SizeOf(event, Field::kSize).value_or(0));
        }
      }
      double& point = most[i * Snapshot::kPoints / events.size()];
      point = std::max(point, change);
    }
    for (const auto& [address, of] : open) {
      Add(of.stack, of.bytes, &StackAmount::unfreed);
    }
    // Points without an event are as the one before.
    double last = 0;
    const auto live = live_on_.find(device);
    const double end = live == live_on_.end() ? 0 : static_cast<double>(live->second);
    for (double& point : most) {
      last = point > -1e299 ? point : last;
      point = std::max(0.0, end - change + last);
    }
    made_.curves.push_back(most);
  }

  const io::Pickle& pickle_;
  Snapshot& made_;
  uint64_t unreadable_ = 0;
  std::vector<StackAmount> stacks_;
  std::map<int64_t, uint64_t> live_on_;  // device
  std::unordered_map<std::string, size_t> stack_of_text_;
  std::unordered_map<uint64_t, size_t, io::SpreadHash> stack_of_frames_;
  std::unordered_map<uint64_t, Field, io::SpreadHash> field_of_key_;
};

}  // namespace

bool IsSnapshotFile(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".pickle" || extension == ".pkl") {
    return base::IsRegularFile(path);
  }
  if (!base::IsRegularFile(path)) {
    return false;
  }
  const Result<base::FileBytes> file = base::FileBytes::Open(path);
  // PROTO of protocols 2 to 5.
  return file.ok() && file->text().size() > 2 && file->text()[0] == '\x80' &&
         file->text()[1] >= '\x02' && file->text()[1] <= '\x05';
}

Result<Snapshot> ReadSnapshot(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  if (file.bytes().size() > kMostBytes) {
    return UnsupportedError(fmt::format("{} has more than 1 GiB", path.string()));
  }
  Result<Snapshot> snapshot = ReadSnapshotBytes(file.bytes());
  if (!snapshot.ok()) {
    return Status(snapshot.status()).AddContext(path.string());
  }
  snapshot->path = path;
  return snapshot;
}

Result<Snapshot> ReadSnapshotBytes(std::span<const std::byte> bytes) {
  MSP_ASSIGN_OR_RETURN(const io::Pickle pickle, io::PickleReader::Read(bytes));
  Snapshot snapshot;
  MSP_RETURN_IF_ERROR(SnapshotReader(pickle, snapshot).Read());
  return snapshot;
}

}  // namespace msprobe::analysis::memory
