#include "src/analysis/ckpt/compare_pairs.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/ckpt/block_sums.h"
#include "src/kernels/crc32.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;
using checkpoint::Piece;

constexpr auto kBlockElements = static_cast<int64_t>(tensor::kSumBlockElements);
// What one thread does at a time; a multiple of the block.
constexpr int64_t kChunkElements = 8 * kBlockElements;
// Chunks whose sums are kept at once: some gigabytes of elements, a few megabytes of sums.
constexpr size_t kChunksPerWave = 8192;

// A pair on its way: its boxes, and how many chunks are still to come before its pages may go.
struct Job {
  const MatchedPair* pair = nullptr;
  PairResult* result = nullptr;
  std::vector<Box> boxes;
  std::atomic<size_t> chunks_left{0};
};

struct Chunk {
  size_t job;
  size_t box;
  int64_t first;  // element of the box
  int64_t count;
};

void Release(const std::deque<TensorFile>& files, size_t file, const TensorView& view,
             int64_t first, int64_t count) {
  if (file < files.size()) {
    files[file].ReleasePages(view, first, count);
  }
}

// The row of the parameter in which an element of a box lies.
int64_t RowOf(const Box& box, int64_t first) {
  if (box.offset.empty()) {
    return 0;
  }
  const int64_t rows = box.a.shape[0];
  return box.offset[0] + first / (box.element_count() / rows);
}

// Where the first side's elements of a chunk begin; those of a strided box at the row they are in.
const std::byte* PlaceOf(const Box& box, const Chunk& chunk) {
  if (box.a.data == nullptr) {
    return nullptr;
  }
  const auto element_bytes = static_cast<int64_t>(DTypeSize(box.a.dtype));
  if (box.plain_a || box.a.shape.empty()) {
    return box.a.data + chunk.first * element_bytes;
  }
  const int64_t row = chunk.first / (box.element_count() / box.a.shape[0]);
  return box.a.data + row * box.a.strides[0] * element_bytes;
}

class PairComparer {
 public:
  PairComparer(const std::deque<TensorFile>& files_a, const std::deque<TensorFile>& files_b,
               const PairSettings& settings, base::ThreadPool& pool)
      : files_a_(files_a),
        files_b_(files_b),
        settings_(settings),
        pool_(pool),
        scratch_(pool.thread_count()) {}

  // Sums of boxes that lie side by side are merged by rows.
  void Add(const MatchedPair& pair, PairResult& result) {
    Result<std::vector<Box>> boxes = Refine(pair.a, pair.b);
    if (!boxes.ok()) {
      result.outcome = Outcome::kUnreadable;
      result.notes.push_back(boxes.status().message());
      return;
    }
    auto job = std::make_unique<Job>();
    job->pair = &pair;
    job->result = &result;
    job->boxes = *std::move(boxes);
    const size_t begin = chunks_.size();
    for (size_t box = 0; box < job->boxes.size(); ++box) {
      const int64_t count = job->boxes[box].element_count();
      for (int64_t first = 0; first < count; first += kChunkElements) {
        chunks_.push_back({jobs_.size(), box, first, std::min(count - first, kChunkElements)});
      }
    }
    std::stable_sort(chunks_.begin() + static_cast<std::ptrdiff_t>(begin), chunks_.end(),
                     [&](const Chunk& x, const Chunk& y) {
                       return RowOf(job->boxes[x.box], x.first) < RowOf(job->boxes[y.box], y.first);
                     });
    job->chunks_left = chunks_.size() - begin;
    jobs_.push_back(std::move(job));
    if (chunks_.size() >= kChunksPerWave) {
      Flush();
    }
  }

  void Flush() {
    // Files are read front to back, which is what a disk and the system's read-ahead are made for;
    // names come in another order, and pieces of a parameter lie in several files.
    std::vector<std::pair<const std::byte*, size_t>> order;
    for (size_t i = 0; i < chunks_.size(); ++i) {
      order.emplace_back(PlaceOf(jobs_[chunks_[i].job]->boxes[chunks_[i].box], chunks_[i]), i);
    }
    std::sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
      return x.first != y.first ? std::less<>()(x.first, y.first) : x.second < y.second;
    });
    std::vector<PairSums> sums(chunks_.size());
    pool_.ParallelFor(order.size(), [&](size_t item, size_t worker) {
      const size_t chunk = order[item].second;
      sums[chunk] = RunChunk(chunks_[chunk], scratch_[worker]);
    });
    for (size_t i = 0; i < chunks_.size(); ++i) {
      MergeSums(jobs_[chunks_[i].job]->result->sums, sums[i]);
    }
    // Rare, and of any size: one pair after the other.
    for (const std::unique_ptr<Job>& job : jobs_) {
      if (settings_.float32 && MayUnderflow(job->result->sums)) {
        SumFlushed(*job);
      } else if (!settings_.float32 && HasWideRange(*job->result) &&
                 LeavesDouble(job->result->sums)) {
        SumWide(*job);
      }
    }
    chunks_.clear();
    jobs_.clear();
  }

 private:
  PairSums RunChunk(const Chunk& chunk, BlockScratch& scratch) {
    Job& job = *jobs_[chunk.job];
    const Box& box = job.boxes[chunk.box];
    PairSums total;
    for (int64_t at = 0; at < chunk.count; at += kBlockElements) {
      const int64_t size = std::min(chunk.count - at, kBlockElements);
      MergeSums(total, SumsOfBlock(box, chunk.first + at, size, settings_.tolerance,
                                   settings_.means, settings_.float32, scratch));
    }
    const Piece& piece_a = job.pair->a.pieces[box.piece_a];
    const Piece& piece_b = job.pair->b.pieces[box.piece_b];
    Release(files_a_, piece_a.file, box.a, chunk.first, chunk.count);
    Release(files_b_, piece_b.file, box.b, chunk.first, chunk.count);
    if (job.chunks_left.fetch_sub(1) == 1) {
      ReleaseRest(job);
    }
    if (settings_.on_progress) {
      settings_.on_progress(
          static_cast<uint64_t>(chunk.count),
          static_cast<uint64_t>(chunk.count) * (DTypeSize(box.a.dtype) + DTypeSize(box.b.dtype)));
    }
    return total;
  }

  // Boxes that are columns of a piece cannot release their part of a page: the neighbour needs it.
  void ReleaseRest(const Job& job) const {
    for (const Box& box : job.boxes) {
      const Piece& piece_a = job.pair->a.pieces[box.piece_a];
      const Piece& piece_b = job.pair->b.pieces[box.piece_b];
      if (!box.plain_a) {
        Release(files_a_, piece_a.file, piece_a.view, 0, piece_a.view.element_count());
      }
      if (!box.plain_b) {
        Release(files_b_, piece_b.file, piece_b.view, 0, piece_b.view.element_count());
      }
    }
  }

  // Others' squares stay within double, however large or small their elements are.
  static bool HasWideRange(const PairResult& result) {
    const auto wide = [](DType dtype) {
      return dtype == DType::kFloat64 || dtype == DType::kComplex128;
    };
    return wide(result.dtype_a) || wide(result.dtype_b);
  }

  void SumWide(const Job& job) {
    WideSums& sums = job.result->sums.wide.emplace();
    for (const Box& box : job.boxes) {
      const int64_t count = box.element_count();
      for (int64_t first = 0; first < count; first += kBlockElements) {
        WideSumsOfBlock(box, first, std::min(count - first, kBlockElements), scratch_[0], sums);
      }
    }
  }

  void SumFlushed(const Job& job) {
    kernels::ComparePartial flushed;
    for (const Box& box : job.boxes) {
      const int64_t count = box.element_count();
      for (int64_t first = 0; first < count; first += kBlockElements) {
        FlushedSumsOfBlock(box, first, std::min(count - first, kBlockElements), scratch_[0],
                           flushed);
      }
    }
    kernels::ComparePartial& sums = job.result->sums.finite;
    sums.dot = flushed.dot;
    sums.npu_square_sum = flushed.npu_square_sum;
    sums.bench_square_sum = flushed.bench_square_sum;
    sums.difference_square_sum = flushed.difference_square_sum;
  }

  const std::deque<TensorFile>& files_a_;
  const std::deque<TensorFile>& files_b_;
  const PairSettings& settings_;
  base::ThreadPool& pool_;
  std::vector<BlockScratch> scratch_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Chunk> chunks_;
};

// Dtypes that float32 does not hold: their elements may be equal as float32 and yet differ.
bool LosesDigits(DType dtype) {
  switch (GetDTypeInfo(dtype).kind) {
    case DTypeKind::kFloat:
      return dtype == DType::kFloat64;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return DTypeSize(dtype) >= 4;
    case DTypeKind::kBool:
      return false;
    case DTypeKind::kComplex:
      return true;
  }
  return false;
}

// What somebody else reads by its description is not what its codes and scales say.
bool IsContradicted(const MatchedPair& pair) {
  const auto contradicts = [](const Parameter& side) {
    return std::any_of(side.pieces.begin(), side.pieces.end(), [](const Piece& piece) {
      return piece.coded != nullptr && !piece.coded->contradiction().empty();
    });
  };
  return contradicts(pair.a) != contradicts(pair.b);
}

Outcome Judge(const MatchedPair& pair, const PairResult& result, const PairSettings& settings) {
  const Tolerance& tolerance = settings.tolerance;
  const PairSums& sums = result.sums;
  const kernels::ComparePartial& finite = sums.finite;
  if (sums.equal_bits && result.dtype_a == result.dtype_b) {
    return Outcome::kIdentical;
  }
  if (finite.different_count + finite.nonfinite_mismatch_count + finite.opposite_inf_count == 0) {
    const bool digits_differ =
        settings.float32 && result.dtype_a == result.dtype_b && LosesDigits(result.dtype_a);
    return digits_differ && !tolerance.given() ? Outcome::kDifferent : Outcome::kEqual;
  }
  if (tolerance.given() && sums.exceeding_count == 0) {
    return Outcome::kClose;
  }
  return std::min(sums.beyond_a, sums.beyond_b) == 0 && !IsContradicted(pair) ? Outcome::kRounding
                                                                              : Outcome::kDifferent;
}

void AddNotes(std::vector<std::string>& notes, const std::vector<std::string>& more,
              std::string_view prefix) {
  for (const std::string& note : more) {
    notes.push_back(fmt::format("{}{}", prefix, note));
  }
}

}  // namespace

PairResult Describe(const MatchedPair& pair) {
  PairResult result;
  result.name = pair.name;
  result.name_a = pair.a.name;
  result.name_b = pair.b.name;
  result.dtype_a = pair.a.dtype;
  result.dtype_b = pair.b.dtype;
  result.shape_a = pair.a.shape;
  result.shape_b = pair.b.shape;
  result.format_a = checkpoint::FormatOf(pair.a);
  result.format_b = checkpoint::FormatOf(pair.b);
  if (!pair.a.status.ok() || !pair.b.status.ok()) {
    result.outcome = Outcome::kUnreadable;
  } else if (pair.a.shape != pair.b.shape) {
    result.outcome = Outcome::kShapes;
  }
  if (result.computed() && pair.a.raw_dtype != pair.b.raw_dtype) {
    const auto name = [](const Parameter& side) {
      return side.raw_dtype.empty() ? DTypeName(side.dtype) : std::string_view(side.raw_dtype);
    };
    result.outcome = Outcome::kUnreadable;
    result.notes.push_back(fmt::format("{} and {} cannot be compared: values of {} are not known",
                                       name(pair.a), name(pair.b),
                                       pair.a.raw_dtype.empty() ? name(pair.b) : name(pair.a)));
  }
  for (const auto& [side, parameter] :
       {std::pair("test", &pair.a), std::pair("reference", &pair.b)}) {
    if (!parameter->status.ok()) {
      result.notes.push_back(fmt::format("{}: {}", side, parameter->status.message()));
    }
    AddNotes(result.notes, parameter->notes, fmt::format("{}: ", side));
  }
  AddNotes(result.notes, pair.notes, "");
  return result;
}

std::vector<PairResult> ComparePairs(std::span<const MatchedPair> pairs,
                                     const std::deque<TensorFile>& files_a,
                                     const std::deque<TensorFile>& files_b,
                                     const PairSettings& settings, base::ThreadPool& pool) {
  std::vector<PairResult> results;
  results.reserve(pairs.size());
  PairComparer comparer(files_a, files_b, settings, pool);
  for (const MatchedPair& pair : pairs) {
    results.push_back(Describe(pair));
    if (results.back().computed()) {
      comparer.Add(pair, results.back());
    }
  }
  comparer.Flush();
  for (size_t i = 0; i < results.size(); ++i) {
    PairResult& result = results[i];
    if (!result.computed()) {
      continue;
    }
    result.metrics =
        settings.float32 ? ComputeFloat32Metrics(result.sums) : ComputeMetrics(result.sums);
    result.outcome = Judge(pairs[i], result, settings);
    if (result.outcome == Outcome::kDifferent && result.sums.finite.different_count == 0 &&
        result.sums.finite.nonfinite_mismatch_count == 0) {
      result.notes.emplace_back("equal as float32, but not in every digit");
    }
  }
  return results;
}

namespace {

using checkpoint::Checkpoint;

uint64_t BytesOf(const Parameter& parameter) {
  return static_cast<uint64_t>(parameter.element_count()) * DTypeSize(parameter.dtype);
}

// Whether the pieces, one after the other, are the elements in row-major order: each holds whole
// rows, and those of a matrix that was turned do not.
bool IsInOrder(const Parameter& parameter) {
  return std::all_of(parameter.pieces.begin(), parameter.pieces.end(), [&](const auto& piece) {
    for (size_t axis = 1; axis < parameter.shape.size(); ++axis) {
      if (piece.view.shape[axis] != parameter.shape[axis]) {
        return false;
      }
    }
    return piece.view.dtype == parameter.dtype && piece.coded == nullptr;
  });
}

// At most so many elements count, from the first on.
uint32_t ChecksumOf(const Parameter& parameter, size_t most) {
  uint32_t checksum = 0;
  std::vector<std::byte> scratch;
  for (const checkpoint::Piece& piece : parameter.pieces) {
    tensor::BlockReader reader(piece.view, scratch, tensor::BlockReader::Source::kFile);
    const size_t count = std::min(static_cast<size_t>(piece.view.element_count()), most);
    most -= count;
    for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
      checksum = kernels::Crc32(
          reader.Read(first, std::min(count - first, tensor::kCopyBlockElements)), checksum);
    }
  }
  return checksum;
}

// Equal for parameters that may hold the same elements.
using ContentKey = std::tuple<DType, std::string, Shape, uint32_t>;

// Candidates of one side, in their order.
std::vector<const Parameter*> CandidatesOf(const Checkpoint& side,
                                           const std::unordered_set<std::string>& names) {
  std::vector<const Parameter*> found;
  for (const Parameter& parameter : side.parameters) {
    if (names.contains(parameter.name) && parameter.status.ok() && parameter.element_count() > 0 &&
        IsInOrder(parameter)) {
      found.push_back(&parameter);
    }
  }
  return found;
}

// Leaves those that the other side has an equal number of elements for, as far as the bytes allow.
void KeepComparable(std::vector<const Parameter*>& side, const std::set<int64_t>& counts,
                    uint64_t most_bytes) {
  std::erase_if(side, [&](const Parameter* parameter) {
    return !counts.contains(parameter->element_count());
  });
  std::vector<const Parameter*> smallest = side;
  std::stable_sort(smallest.begin(), smallest.end(), [](const Parameter* x, const Parameter* y) {
    return BytesOf(*x) < BytesOf(*y);
  });
  std::unordered_set<const Parameter*> kept;
  for (const Parameter* parameter : smallest) {
    if (BytesOf(*parameter) > most_bytes) {
      break;
    }
    most_bytes -= BytesOf(*parameter);
    kept.insert(parameter);
  }
  std::erase_if(side, [&](const Parameter* parameter) { return !kept.contains(parameter); });
}

class ContentMatcher {
 public:
  ContentMatcher(const Checkpoint& a, const Checkpoint& b, base::ThreadPool& pool)
      : a_(a), b_(b), pool_(pool) {}

  // One round: those of the first side as they are, or each turned first.
  void Match(std::vector<const Parameter*>& left, std::vector<const Parameter*>& right,
             bool transposed) {
    std::vector<Parameter> turned;
    for (const Parameter* parameter : left) {
      if (!transposed) {
        turned.push_back(*parameter);
      } else if (Result<Parameter> other = checkpoint::Transpose(*parameter); other.ok()) {
        turned.push_back(*std::move(other));
      }
    }
    std::erase_if(turned, [](const Parameter& parameter) { return !IsInOrder(parameter); });
    std::vector<const Parameter*> first;
    for (const Parameter& parameter : turned) {
      first.push_back(&parameter);
    }
    std::vector<const Parameter*> second = right;
    // What begins alike on both sides is read to its end; of most models that is nothing.
    Groups groups;
    for (const size_t most : {tensor::kCopyBlockElements, SIZE_MAX}) {
      groups = GroupsOf(first, second, most);
      first.clear();
      second.clear();
      for (const auto& [key, group] : groups) {
        if (!group.first.empty() && !group.second.empty()) {
          first.insert(first.end(), group.first.begin(), group.first.end());
          second.insert(second.end(), group.second.begin(), group.second.end());
        }
      }
    }
    std::vector<MatchedPair> pairs;
    for (const auto& [key, group] : groups) {
      if (group.first.size() != group.second.size()) {
        continue;
      }
      for (size_t i = 0; i < group.first.size(); ++i) {
        pairs.push_back({group.first[i]->name, *group.first[i], *group.second[i], {}});
      }
    }
    // A checksum only says which may be equal.
    const std::vector<PairResult> results =
        ComparePairs(pairs, a_.files, b_.files, PairSettings(), pool_);
    for (size_t i = 0; i < pairs.size(); ++i) {
      // Parameters of the same name are mentioned only where they are transposed.
      if (results[i].outcome == Outcome::kIdentical &&
          (transposed || pairs[i].a.name != pairs[i].b.name)) {
        found_.emplace(pairs[i].a.name, SameContent{pairs[i].a.name, pairs[i].b.name, transposed});
        taken_b_.insert(pairs[i].b.name);
      }
    }
    std::erase_if(left, [&](const Parameter* side) { return found_.contains(side->name); });
    std::erase_if(right, [&](const Parameter* side) { return taken_b_.contains(side->name); });
  }

  std::vector<SameContent> Take() const {
    std::vector<SameContent> found;
    for (const Parameter& parameter : a_.parameters) {
      if (const auto same = found_.find(parameter.name); same != found_.end()) {
        found.push_back(same->second);
      }
    }
    return found;
  }

 private:
  // Parameters of both sides by their keys, in the order in which they are given.
  using Groups =
      std::map<ContentKey, std::pair<std::vector<const Parameter*>, std::vector<const Parameter*>>>;

  Groups GroupsOf(const std::vector<const Parameter*>& first,
                  const std::vector<const Parameter*>& second, size_t most) const {
    std::vector<ContentKey> keys(first.size() + second.size());
    const auto parameter_at = [&](size_t i) {
      return i < first.size() ? first[i] : second[i - first.size()];
    };
    pool_.ParallelFor(keys.size(), [&](size_t item, size_t /*worker*/) {
      const Parameter& parameter = *parameter_at(item);
      keys[item] = {parameter.dtype, parameter.raw_dtype, parameter.shape,
                    ChecksumOf(parameter, most)};
    });
    Groups groups;
    for (size_t i = 0; i < keys.size(); ++i) {
      auto& group = groups[keys[i]];
      (i < first.size() ? group.first : group.second).push_back(parameter_at(i));
    }
    return groups;
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  base::ThreadPool& pool_;
  std::unordered_map<std::string, SameContent> found_;  // by the first side's name
  std::unordered_set<std::string> taken_b_;
};

}  // namespace

std::vector<SameContent> FindSameContent(const Checkpoint& a, const Checkpoint& b,
                                         const MatchedParameters& matched,
                                         std::span<const PairResult> results, uint64_t most_bytes,
                                         base::ThreadPool& pool) {
  std::unordered_set<std::string> names_a;
  std::unordered_set<std::string> names_b;
  for (const Unmatched& name : matched.only_in_a) {
    names_a.insert(name.name);
  }
  for (const Unmatched& name : matched.only_in_b) {
    names_b.insert(name.name);
  }
  for (const PairResult& result : results) {
    if (result.outcome == Outcome::kDifferent || result.outcome == Outcome::kShapes) {
      names_a.insert(result.name_a);
      names_b.insert(result.name_b);
    }
  }
  std::vector<const Parameter*> left = CandidatesOf(a, names_a);
  std::vector<const Parameter*> right = CandidatesOf(b, names_b);
  std::set<int64_t> counts_a;
  std::set<int64_t> counts_b;
  for (const Parameter* parameter : left) {
    counts_a.insert(parameter->element_count());
  }
  for (const Parameter* parameter : right) {
    counts_b.insert(parameter->element_count());
  }
  KeepComparable(left, counts_b, most_bytes);
  KeepComparable(right, counts_a, most_bytes);
  ContentMatcher matcher(a, b, pool);
  matcher.Match(left, right, /*transposed=*/false);
  matcher.Match(left, right, /*transposed=*/true);
  return matcher.Take();
}

std::string MappingDraft(std::span<const SameContent> same) {
  const auto can_be_spelled = [](std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
      return c >= ' ' && c <= '~' && std::string_view("{}\"\\").find(c) == std::string_view::npos;
    });
  };
  std::unordered_set<std::string_view> sources;
  for (const SameContent& pair : same) {
    sources.insert(pair.name_a);
  }
  std::string text =
      "# Made from equal elements: check the names, then pass this file with --mapping.\n";
  std::string second;
  size_t number = 0;
  for (const SameContent& pair : same) {
    if (!can_be_spelled(pair.name_a) || !can_be_spelled(pair.name_b)) {
      continue;
    }
    // Rules are applied to the results of earlier ones: a name that both sides have, for different
    // parameters, is reached by a detour.
    const bool is_taken = sources.contains(pair.name_b);
    const std::string to = is_taken ? fmt::format("renamed.{}", ++number) : pair.name_b;
    text += fmt::format("- {{from: \"{}\", to: \"{}\"{}, side: first}}\n", pair.name_a, to,
                        pair.transposed ? ", transpose: true" : "");
    if (is_taken) {
      second += fmt::format("- {{from: \"{}\", to: \"{}\", side: first}}\n", to, pair.name_b);
    }
  }
  return text + second;
}

}  // namespace msprobe::analysis::ckpt
