// The tokens of two runs, sequence by sequence, with all that is stored beside them.
//
// Each array of log-probabilities is opened with what lies beside it: mask, ids, positions,
// lengths, numbers of sequences, versions of the weights. A row of an array is one sequence, or
// several where ids or positions of the tokens say so (a pack). A sequence of the first run meets
// the one of the same number in the same step of the second, or without numbers the one at the same
// place. What is stored about both becomes marks of the tokens, so that only the log-probabilities
// stay in memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/analysis/rl/explain.h"
#include "src/analysis/rl/rl.h"
#include "src/analysis/rl/token_numbers.h"
#include "src/analysis/rl/token_tables.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/kernels/element_pairs.h"

namespace msprobe::analysis::rl {

// An array of log-probabilities of one side, and what is stored beside it. Lists are empty where
// nothing is stored.
struct GapTokens::Array {
  ArrayLocation location;
  size_t rows = 0;
  size_t columns = 0;
  std::vector<float> logs;
  std::vector<uint8_t> counts;  // of the first run alone
  std::vector<int32_t> ids;     // one per token, as the next one
  std::vector<int32_t> positions;
  std::vector<int64_t> sequences;  // one per row, or one per token
  std::vector<int64_t> prompts;    // one per row, as the next one
  std::vector<int64_t> responses;
  std::vector<int64_t> versions;  // one, one per row, or one per token

  uint64_t composition = 0;  // the same for the same set of sequences
};

namespace {

namespace fs = std::filesystem;
using GapArray = GapTokens::Array;

constexpr size_t kReadAtOnce = size_t{1} << 16U;

// The array of a key at a location; nothing if it is not stored there.
Result<std::optional<OpenArray>> OpenBeside(const SavedData& run, const std::string& key,
                                            const ArrayLocation& location,
                                            std::vector<std::byte>& scratch) {
  const auto files = run.keys.find(key);
  const fs::path* path = files == run.keys.end() ? nullptr : FindBeside(files->second, location);
  if (path == nullptr) {
    return std::optional<OpenArray>();
  }
  MSP_ASSIGN_OR_RETURN(OpenArray array, OpenSavedArray(*path, scratch));
  return std::optional<OpenArray>(std::move(array));
}

template <typename Number>
void ReadInto(const TensorView& view, std::vector<Number>& out) {
  const auto count = static_cast<size_t>(view.element_count());
  kernels::NumberReader<double> reader(view);
  out.resize(count);
  for (size_t at = 0; at < count; at += kReadAtOnce) {
    const std::span<const double> some = reader.Read(at, std::min(kReadAtOnce, count - at));
    for (size_t i = 0; i < some.size(); ++i) {
      if constexpr (std::is_floating_point_v<Number>) {
        out[at + i] = static_cast<Number>(some[i]);
      } else {
        constexpr double kMost = sizeof(Number) > 4 ? 9e15 : 2147483647.0;
        out[at + i] = std::fabs(some[i]) <= kMost ? static_cast<Number>(some[i]) : Number{-1};
      }
    }
  }
}

class ArrayLoader {
 public:
  ArrayLoader(const SavedData& run, const TokenOptions& options, bool is_first)
      : run_(run), options_(options), is_first_(is_first) {}

  Result<std::shared_ptr<GapArray>> Load(const std::string& key, const ArrayLocation& location,
                                         std::vector<std::string>& warnings) {
    auto array = std::make_shared<GapArray>();
    array->location = location;
    std::vector<std::byte> scratch;
    MSP_ASSIGN_OR_RETURN(const std::optional<OpenArray> logs,
                         OpenBeside(run_, key, location, scratch));
    if (!logs || logs->view.element_count() == 0) {
      return NotFoundError("there are no log-probabilities");
    }
    const Shape& shape = logs->view.shape;
    const auto count = static_cast<size_t>(logs->view.element_count());
    array->columns = shape.empty() ? 1 : static_cast<size_t>(shape.back());
    array->rows = count / array->columns;
    ReadInto(logs->view, array->logs);
    const auto beside = [&](const std::string& name, auto& out,
                            std::initializer_list<size_t> fits) {
      const Status status = ReadBeside(name, location, out, fits);
      if (!status.ok()) {
        out.clear();
        warnings.push_back(fmt::format("{} at {}: {}", base::Printable(name),
                                       LocationText(location), status.message()));
      }
    };
    if (is_first_ && !options_.mask.empty()) {
      std::vector<float> mask;
      MSP_RETURN_IF_ERROR(ReadBeside(options_.mask, location, mask, {count}));
      if (mask.empty()) {
        return NotFoundError(fmt::format("no mask: {} is not stored there", options_.mask));
      }
      array->counts.resize(count);
      std::transform(mask.begin(), mask.end(), array->counts.begin(),
                     [](float value) { return static_cast<uint8_t>(value != 0 ? 1 : 0); });
    }
    const size_t rows = array->rows;
    beside(options_.ids, array->ids, {count});
    beside(options_.positions, array->positions, {count});
    beside(options_.sequences, array->sequences, {rows, count});
    beside(options_.prompt_lengths, array->prompts, {rows, 0});
    beside(options_.response_lengths, array->responses, {rows, 0});
    beside(options_.versions, array->versions, {1, rows, count});
    for (size_t i = 0; i < array->sequences.size(); ++i) {
      const bool is_new = i == 0 || array->sequences[i] != array->sequences[i - 1];
      if (is_new && array->sequences[i] >= 0) {
        uint64_t hash = static_cast<uint64_t>(array->sequences[i]) + 0x9E3779B97F4A7C15U;
        hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9U;
        array->composition += hash ^ (hash >> 27U);
      }
    }
    return array;
  }

 private:
  // `fits`: the numbers of elements that it may have; 0 stands for any.
  template <typename Number>
  Status ReadBeside(const std::string& key, const ArrayLocation& location, std::vector<Number>& out,
                    std::initializer_list<size_t> fits) {
    std::vector<std::byte> scratch;
    if (key.empty()) {
      return {};
    }
    MSP_ASSIGN_OR_RETURN(const std::optional<OpenArray> array,
                         OpenBeside(run_, key, location, scratch));
    if (!array) {
      return {};
    }
    const auto count = static_cast<size_t>(array->view.element_count());
    constexpr size_t kMostOfAnyNumber = 1'000'000;
    const bool fit = std::any_of(fits.begin(), fits.end(), [&](size_t size) {
      return size == count || (size == 0 && count <= kMostOfAnyNumber);
    });
    if (!fit) {
      return MismatchError(fmt::format("shape {} does not fit the log-probabilities: not used",
                                       ShapeText(array->view.shape)));
    }
    ReadInto(array->view, out);
    return {};
  }

  const SavedData& run_;
  const TokenOptions& options_;
  const bool is_first_;
};

// A sequence within an array.
struct Piece {
  uint32_t array = 0;
  size_t row = 0;
  size_t begin = 0;  // columns
  size_t end = 0;
  size_t number_in_row = 0;
  int64_t sequence = -1;  // -1: not known
};

// The sequences of an array, as the numbers and positions in `of` split its rows, most often the
// array itself.
std::vector<Piece> PiecesOf(const GapArray& array, uint32_t number, const GapArray& of) {
  std::vector<Piece> pieces;
  const bool by_token = of.sequences.size() == of.rows * of.columns && of.columns > 1;
  const bool same_size = of.rows == array.rows && of.columns == array.columns;
  // A single row of sequences end to end, with or without their prompts.
  std::vector<size_t> ends;
  if (array.rows == 1 && of.responses.size() > 1) {
    size_t responses = 0;
    size_t both = 0;
    for (size_t i = 0; i < of.responses.size(); ++i) {
      responses += static_cast<size_t>(std::max<int64_t>(of.responses[i], 0));
      both += static_cast<size_t>(std::max<int64_t>(of.responses[i], 0));
      both += of.prompts.size() == of.responses.size()
                  ? static_cast<size_t>(std::max<int64_t>(of.prompts[i], 0))
                  : 0;
    }
    if (responses == array.columns || both == array.columns) {
      size_t end = 0;
      for (size_t i = 0; i < of.responses.size(); ++i) {
        end += static_cast<size_t>(std::max<int64_t>(of.responses[i], 0));
        end += both == array.columns && both != responses
                   ? static_cast<size_t>(std::max<int64_t>(of.prompts[i], 0))
                   : 0;
        ends.push_back(end);
      }
    }
  }
  for (size_t row = 0; row < array.rows; ++row) {
    const size_t at = row * array.columns;
    Piece piece;
    piece.array = number;
    piece.row = row;
    size_t next_end = 0;
    for (size_t column = 1; column <= array.columns; ++column) {
      bool ends_here = column == array.columns;
      if (!ends_here && same_size) {
        ends_here = by_token ? of.sequences[at + column] != of.sequences[at + column - 1]
                             : !of.positions.empty() &&
                                   of.positions[at + column] < of.positions[at + column - 1] &&
                                   of.positions[at + column] <= 1;
      }
      if (!ends.empty()) {
        ends_here = ends_here || (next_end < ends.size() && column == ends[next_end]);
        next_end += next_end < ends.size() && column >= ends[next_end] ? 1 : 0;
      }
      if (!ends_here) {
        continue;
      }
      piece.end = column;
      piece.sequence = by_token && same_size               ? of.sequences[at + column - 1]
                       : of.sequences.size() == array.rows ? of.sequences[row]
                                                           : -1;
      pieces.push_back(piece);
      piece.begin = column;
      ++piece.number_in_row;
    }
  }
  return pieces;
}

int64_t AtRow(const std::vector<int64_t>& list, const GapArray& array, size_t row) {
  return list.size() == array.rows ? list[row] : list.size() == 1 ? list[0] : -1;
}

int64_t VersionAt(const GapArray& array, size_t row, size_t column) {
  return array.versions.size() == array.rows * array.columns && array.columns > 1
             ? array.versions[row * array.columns + column]
             : AtRow(array.versions, array, row);
}

uint64_t HashOf(std::span<const int32_t> ids) {
  uint64_t hash = 1469598103934665603U;
  for (const int32_t id : ids) {
    hash = (hash ^ static_cast<uint32_t>(id)) * 1099511628211U;
  }
  return hash | 1U;
}

void MarkAll(GapRow& row, size_t from, uint16_t mark) {
  if (from == 0 && row.marks.empty()) {
    row.mark |= mark;
    return;
  }
  if (row.marks.empty()) {
    row.marks.assign(row.length, 0);
  }
  for (size_t i = from; i < row.length; ++i) {
    row.marks[i] |= mark;
  }
}

// How far the ids of one side have to be shifted to be those of the other; 0 where that is not it.
int ShiftOfIds(std::span<const int32_t> a, std::span<const int32_t> b) {
  constexpr size_t kFewest = 6;
  if (a.size() < kFewest || a.size() != b.size()) {
    return 0;
  }
  const auto agree = [&](int shift) {
    size_t same = 0;
    for (size_t i = 1; i + 1 < a.size(); ++i) {
      same += a[i] == b[static_cast<size_t>(static_cast<int64_t>(i) + shift)] ? 1 : 0;
    }
    return same * 10 >= (a.size() - 2) * 9;
  };
  return agree(0) ? 0 : agree(1) ? 1 : agree(-1) ? -1 : 0;
}

class RowMaker {
 public:
  RowMaker(const TokenOptions& options, const SavedData& first, const SavedData& second,
           GapTokens& tokens)
      : options_(options), runs_{&first, &second}, tokens_(tokens) {}

  void Make(const GapArray& a, const Piece& in_a, const GapArray& b, const Piece& in_b,
            int64_t step_number) {
    size_t from = in_a.begin;
    size_t to = std::min(in_a.end, in_a.begin + (in_b.end - in_b.begin));
    const size_t a_at = in_a.row * a.columns;
    const auto counts = [&](size_t column) {
      return a.counts.empty() || a.counts[a_at + column] != 0;
    };
    while (from < to && !counts(from)) {
      ++from;
    }
    while (to > from && !counts(to - 1)) {
      --to;
    }
    if (from == to) {
      return;
    }
    GapRow row;
    row.length = static_cast<uint32_t>(std::min<size_t>(to - from, UINT32_MAX));
    const size_t b_from = in_b.begin + (from - in_a.begin);
    const size_t b_at = in_b.row * b.columns + b_from;
    row.a = a.logs.data() + a_at + from;
    row.b = b.logs.data() + b_at;
    row.counts = a.counts.empty() ? nullptr : a.counts.data() + a_at + from;
    row.a_array = in_a.array;
    row.b_array = in_b.array;
    row.step = step_number;
    row.rank = a.location.rank;
    uint64_t place = 1469598103934665603U;
    for (const uint64_t part :
         {static_cast<uint64_t>(a.location.rank), static_cast<uint64_t>(a.location.micro_step),
          static_cast<uint64_t>(in_a.row), static_cast<uint64_t>(from)}) {
      place = (place ^ part) * 1099511628211U;
    }
    row.place = in_a.sequence >= 0 ? static_cast<uint64_t>(in_a.sequence) * 2 : place | 1U;
    const int64_t prompt = AtRow(a.prompts, a, in_a.row);
    const bool is_packed = in_a.number_in_row > 0 || in_a.end < a.columns;
    row.position = !a.positions.empty() ? a.positions[a_at + from]
                   : is_packed          ? static_cast<int64_t>(from - in_a.begin)
                                        : static_cast<int64_t>(from) + std::max<int64_t>(prompt, 0);
    if (in_a.number_in_row > 0) {
      MarkAll(row, 0, kLaterInPack);
    }
    MarkPads(a, in_a, from, b, row);
    MarkIds(a, a_at + from, b, b_at, row);
    MarkPositions(a, a_at + from, b, b_at, row);
    MarkVersions(a, in_a, from, b, in_b, b_from, row);
    if (!a.sequences.empty() && !b.sequences.empty() && a.composition != b.composition) {
      MarkAll(row, 0, kOtherBatch);
    }
    MarkRoutes(a, a_at + from, b, b_at, row);
    tokens_.rows.push_back(std::move(row));
  }

 private:
  static void MarkPads(const GapArray& a, const Piece& in_a, size_t from, const GapArray& b,
                       GapRow& row) {
    const int64_t response = AtRow(a.responses, a, in_a.row);
    if (response >= 0 && a.responses.size() == a.rows && in_a.end == a.columns) {
      const auto end = static_cast<size_t>(response);
      if (end < from + row.length) {
        MarkAll(row, end > from ? end - from : 0, kBeyondEnd);
      }
    }
    for (const GapArray* side : {&b, &a}) {
      if (side->prompts.size() == side->rows && side->rows == a.rows && side->rows > 1) {
        const int64_t widest = *std::max_element(side->prompts.begin(), side->prompts.end());
        row.left_pads = std::max<int64_t>(widest - AtRow(side->prompts, *side, in_a.row), 0);
        break;
      }
    }
    if (row.left_pads > 0) {
      MarkAll(row, 0, kLeftPads);
    }
  }

  void MarkIds(const GapArray& a, size_t a_at, const GapArray& b, size_t b_at, GapRow& row) {
    if (a.ids.empty()) {
      return;
    }
    const auto of_a = std::span(a.ids).subspan(a_at, row.length);
    row.ids_hash = HashOf(of_a);
    tokens_.vocabulary = std::max<int64_t>(
        tokens_.vocabulary, int64_t{*std::max_element(of_a.begin(), of_a.end())} + 1);
    if (b.ids.empty()) {
      return;
    }
    const auto of_b = std::span(b.ids).subspan(b_at, row.length);
    const auto [differ, other] = std::mismatch(of_a.begin(), of_a.end(), of_b.begin());
    if (differ == of_a.end()) {
      return;
    }
    if (ShiftOfIds(of_a, of_b) != 0) {
      MarkAll(row, 0, kShiftedIds);
    } else {
      MarkAll(row, static_cast<size_t>(differ - of_a.begin()), kOtherIds);
    }
  }

  static void MarkPositions(const GapArray& a, size_t a_at, const GapArray& b, size_t b_at,
                            GapRow& row) {
    if (a.positions.empty() || b.positions.empty()) {
      return;
    }
    for (size_t i = 0; i < row.length; ++i) {
      if (a.positions[a_at + i] != b.positions[b_at + i]) {
        MarkAll(row, i, kOtherPosition);
        return;
      }
    }
  }

  void MarkVersions(const GapArray& a, const Piece& in_a, size_t from, const GapArray& b,
                    const Piece& in_b, size_t b_from, GapRow& row) {
    if (a.versions.empty() || b.versions.empty()) {
      return;
    }
    tokens_.has_versions = true;
    if (VersionAt(a, in_a.row, from) != VersionAt(b, in_b.row, b_from) &&
        a.versions.size() <= a.rows && b.versions.size() <= b.rows) {
      MarkAll(row, 0, kOtherVersion);
      return;
    }
    for (size_t i = 0; i < row.length; ++i) {
      if (VersionAt(a, in_a.row, from + i) != VersionAt(b, in_b.row, b_from + i)) {
        if (row.marks.empty()) {
          row.marks.assign(row.length, 0);
        }
        row.marks[i] |= kOtherVersion;
      }
    }
  }

  // Experts of a token: [..., layers, chosen], in any order.
  void MarkRoutes(const GapArray& a, size_t a_at, const GapArray& b, size_t b_at, GapRow& row) {
    kernels::NumberReader<double>* readers[2] = {Routes(0, a), Routes(1, b)};
    if (readers[0] == nullptr || readers[1] == nullptr ||
        sides_[0].per_token != sides_[1].per_token || sides_[0].chosen != sides_[1].chosen) {
      return;
    }
    const size_t per_token = sides_[0].per_token;
    const size_t chosen = sides_[0].chosen;
    const size_t layers = per_token / chosen;
    tokens_.layers.resize(std::max(tokens_.layers.size(), layers));
    std::vector<double> of_a(chosen);
    std::vector<double> of_b(chosen);
    bool differed = false;
    const size_t step = std::max<size_t>(kReadAtOnce / per_token, 1);
    for (size_t at = 0; at < row.length; at += step) {
      const size_t some = std::min<size_t>(step, row.length - at);
      const std::span<const double> x = readers[0]->Read((a_at + at) * per_token, some * per_token);
      const std::span<const double> y = readers[1]->Read((b_at + at) * per_token, some * per_token);
      for (size_t i = 0; i < some; ++i) {
        if (row.counts != nullptr && row.counts[at + i] == 0) {
          continue;
        }
        bool differs = false;
        for (size_t layer = 0; layer < layers; ++layer) {
          const size_t begin = (i * layers + layer) * chosen;
          std::copy_n(x.begin() + static_cast<ptrdiff_t>(begin), chosen, of_a.begin());
          std::copy_n(y.begin() + static_cast<ptrdiff_t>(begin), chosen, of_b.begin());
          std::sort(of_a.begin(), of_a.end());
          std::sort(of_b.begin(), of_b.end());
          ++tokens_.layers[layer].tokens;
          if (of_a != of_b) {
            ++tokens_.layers[layer].differ;
            differs = true;
          }
        }
        if ((differs || differed) && row.marks.empty()) {
          row.marks.assign(row.length, 0);
        }
        if (differs) {
          row.marks[at + i] |= kOtherRoute;
        }
        if (differed) {
          row.marks[at + i] |= kBehindRoute;
        }
        differed = differed || differs;
      }
    }
  }

  kernels::NumberReader<double>* Routes(size_t side, const GapArray& array) {
    SideRoutes& routes = sides_[side];
    if (routes.of != &array) {
      routes = SideRoutes();
      routes.of = &array;
      Result<std::optional<OpenArray>> opened =
          OpenBeside(*runs_[side], options_.routes, array.location, routes.scratch);
      const auto count = static_cast<int64_t>(array.rows * array.columns);
      if (!opened.ok()) {
        tokens_.warnings.push_back(fmt::format("{} at {}: {}", base::Printable(options_.routes),
                                               LocationText(array.location),
                                               opened.status().message()));
      } else if (opened->has_value()) {
        routes.opened = std::move(*opened);
        const Shape& shape = routes.opened->view.shape;
        const int64_t elements = routes.opened->view.element_count();
        constexpr int64_t kMostChosen = 1024;
        constexpr int64_t kMostPerToken = int64_t{1} << 16U;
        if (shape.empty() || elements == 0 || elements % count != 0 ||
            elements / count > kMostPerToken || shape.back() > kMostChosen ||
            elements / count % shape.back() != 0) {
          tokens_.warnings.push_back(fmt::format(
              "{} at {}: shape {} does not fit the log-probabilities: not used",
              base::Printable(options_.routes), LocationText(array.location), ShapeText(shape)));
        } else {
          routes.per_token = static_cast<size_t>(elements / count);
          routes.chosen = static_cast<size_t>(shape.back());
          routes.reader = std::make_unique<kernels::NumberReader<double>>(routes.opened->view);
        }
      }
    }
    return routes.reader.get();
  }

  struct SideRoutes {
    const GapArray* of = nullptr;
    std::vector<std::byte> scratch;
    std::optional<OpenArray> opened;
    std::unique_ptr<kernels::NumberReader<double>> reader;
    size_t per_token = 0;
    size_t chosen = 0;
  };

  const TokenOptions& options_;
  const std::array<const SavedData*, 2> runs_;
  GapTokens& tokens_;
  std::array<SideRoutes, 2> sides_;
};

}  // namespace

Result<GapTokens> LoadGapTokens(const TokenKey& key, const TokenOptions& options,
                                const SavedData& first, const SavedData& second,
                                base::ThreadPool& pool) {
  GapTokens tokens;
  const LocatedFiles& first_files = first.keys.at(key.first);
  const LocatedFiles& second_files = second.keys.at(key.second);
  struct Job {
    ArrayLocation location;
    bool is_first = true;
    std::shared_ptr<GapArray> array;
    std::vector<std::string> warnings;
  };
  // A log-probability takes two bytes at least; what does not fit into memory is left out, evenly.
  uint64_t most_tokens = 0;
  for (const auto& [location, path] : first_files) {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(path, error);
    most_tokens += error ? 0 : bytes / 2;
  }
  const uint64_t every = 1 + most_tokens / (2 * kMostGapTokens);
  std::vector<Job> jobs;
  for (const bool is_first : {true, false}) {
    uint64_t number = 0;
    for (const auto& [location, path] : is_first ? first_files : second_files) {
      if (number++ % every == 0) {
        jobs.push_back({location, is_first, nullptr, {}});
      }
    }
  }
  if (every > 1) {
    tokens.warnings.push_back(fmt::format(
        "one of {} arrays was looked at for --explain: all of them do not fit into memory", every));
  }
  pool.ParallelFor(jobs.size(), [&](size_t index, size_t) {
    Job& job = jobs[index];
    ArrayLoader loader(job.is_first ? first : second, options, job.is_first);

    Result<std::shared_ptr<GapArray>> array =
        loader.Load(job.is_first ? key.first : key.second, job.location, job.warnings);
    if (array.ok()) {
      job.array = std::move(*array);
    }
  });
  // Sequences of the second run by step and number.
  std::map<ArrayLocation, uint32_t> second_at;
  std::map<std::pair<int64_t, int64_t>, std::vector<Piece>> second_pieces;
  for (Job& job : jobs) {
    tokens.warnings.insert(tokens.warnings.end(), job.warnings.begin(), job.warnings.end());
    const auto number = static_cast<uint32_t>(tokens.arrays.size());
    tokens.arrays.push_back(job.array);
    if (!job.is_first && job.array != nullptr) {
      second_at[job.location] = number;
      if (!job.array->sequences.empty()) {
        for (const Piece& piece : PiecesOf(*job.array, number, *job.array)) {
          if (piece.sequence >= 0) {
            second_pieces[{job.location.step, piece.sequence}].push_back(piece);
          }
        }
      }
    }
  }
  RowMaker maker(options, first, second, tokens);
  for (uint32_t number = 0; number < jobs.size(); ++number) {
    if (!jobs[number].is_first || jobs[number].array == nullptr) {
      continue;
    }
    const GapArray& a = *jobs[number].array;
    const auto same_place = second_at.find(a.location);
    const GapArray* beside =
        same_place == second_at.end() ? nullptr : tokens.arrays[same_place->second].get();
    const bool says_nothing = a.sequences.size() != a.rows * a.columns && a.positions.empty();
    for (const Piece& piece :
         PiecesOf(a, number,
                  says_nothing && beside != nullptr && beside->rows == a.rows ? *beside : a)) {
      const auto found = second_pieces.find({a.location.step, piece.sequence});
      if (piece.sequence >= 0 && !a.sequences.empty() && found != second_pieces.end()) {
        // Among several of one number the one at the same place, else in the same rank.
        const Piece* best = &found->second.front();
        int best_fit = -1;
        for (const Piece& other : found->second) {
          const GapArray& b = *tokens.arrays[other.array];
          const int fit = b.location == a.location ? 2 : b.location.rank == a.location.rank ? 1 : 0;
          if (fit > best_fit) {
            best_fit = fit;
            best = &other;
          }
        }
        tokens.has_batches = true;
        maker.Make(a, piece, *tokens.arrays[best->array], *best, a.location.step);
      } else if (beside != nullptr && piece.row < beside->rows && piece.begin < beside->columns &&
                 (a.sequences.empty() || beside->sequences.empty())) {
        Piece other = piece;
        other.array = same_place->second;
        other.end = std::min(piece.end, beside->columns);
        maker.Make(a, piece, *beside, other, a.location.step);
      }
    }
  }
  return tokens;
}

}  // namespace msprobe::analysis::rl
