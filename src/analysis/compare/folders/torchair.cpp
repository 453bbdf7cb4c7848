#include "src/analysis/compare/folders/torchair.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/real_data.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/kernel_dump/format.h"
#include "src/kernels/element_pairs.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {
namespace {

// The folders that torchair dumps: kernel dumps of GE, arrays of FX.

struct GeKernel {
  int64_t token = 0;
  kernel_dump::VectorOperator op;
};

// An array of a call of the FX graph, by token, call ("add-aten.add.Tensor"), whether it is an
// output, and number.
struct FxKey {
  int64_t token = 0;
  std::string call;
  bool is_output = false;
  size_t number = 0;
  auto operator<=>(const FxKey&) const = default;
};

struct TorchairRank {
  std::vector<GeKernel> kernels;  // in the order of time
  std::map<FxKey, std::filesystem::path> arrays;
};

struct TorchairSide {
  GeGraph graph;
  std::map<std::optional<int64_t>, TorchairRank> ranks;  // by worldsize<W>_global_rank<R>

  bool is_ge() const { return !graph.empty(); }
};

// The metrics of torchair's report, of two tensors of as many elements.

constexpr size_t kTorchairMetricCount = 7;
constexpr std::array<std::string_view, kTorchairMetricCount> kTorchairMetrics = {
    "cosine_similarity",   "max_relative_error", "mean_relative_error",        "max_absolute_error",
    "mean_absolute_error", "kl_divergence",      "relative_euclidean_distance"};

struct TorchairMetrics {
  std::array<double, kTorchairMetricCount> values{};
  bool golden_finite = true;  // else there are no values
  bool mine_finite = true;
};

// Pairs of tensors of two dumps of torchair.

// Where one tensor of a row lies.
struct TensorPlace {
  const kernel_dump::VectorOperator* op = nullptr;  // of GE
  std::filesystem::path array;                      // of FX
  bool is_output = false;
  size_t number = 0;

  // As the report tells it.
  std::string Text() const;
  // As the framework knows it. kNotFound when the file has no such tensor.
  Result<tensor::TensorBuffer> Read() const;
};

struct TorchairRow {
  int64_t token = 0;
  TensorPlace golden;
  TensorPlace mine;
};

constexpr std::string_view kFxAttribute = "_fx_tensor_name";
constexpr std::string_view kOutputMark = ".OUTPUT.";

FxOutput ParseFxName(std::string_view text, size_t number) {
  const size_t mark = text.rfind(kOutputMark);
  if (mark == std::string_view::npos) {
    return {std::string(text), number};
  }
  const std::optional<int64_t> told = base::ParseInt(text.substr(mark + kOutputMark.size()));
  return {std::string(text.substr(0, mark)),
          told && *told >= 0 ? static_cast<size_t>(*told) : number};
}

// One walk over the text, level by level of its blocks.
class Reader {
 public:
  Reader(std::string_view text, GeGraph& graph) : text_(text), graph_(graph) {}

  Status Read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '{') {
        MSP_RETURN_IF_ERROR(Open());
      } else if (c == '}') {
        MSP_RETURN_IF_ERROR(Close());
      } else if (c == '"' || c == '\'') {
        std::string value;
        MSP_RETURN_IF_ERROR(Quoted(c, value));
        Value(value);
      } else if (IsWord(c)) {
        const size_t first = at_;
        while (at_ < text_.size() && IsWord(text_[at_])) {
          ++at_;
        }
        word_ = text_.substr(first, at_ - first);
      } else {
        ++at_;
      }
    }
    return blocks_.empty() ? Status() : Bad("the text ends inside of a block");
  }

 private:
  static bool IsWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  Status Bad(std::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
    return BadFormatError(fmt::format("line {}: {}", line, what));
  }

  Status Open() {
    if (blocks_.size() == kDeepestGeGraph) {
      return Bad("too many blocks inside each other");
    }
    blocks_.push_back(word_);
    if (word_ == "op") {
      name_.clear();
      outputs_.clear();
    } else if (word_ == "output_desc") {
      outputs_.emplace_back();
    } else if (word_ == "attr") {
      key_.clear();
    }
    ++at_;
    return {};
  }

  Status Close() {
    if (blocks_.empty()) {
      return Bad("a block ends that did not begin");
    }
    if (blocks_.back() == "op" && !name_.empty()) {
      if (graph_.size() == kMostGeNodes) {
        return Bad("too many operators");
      }
      graph_[io::kernel_dump::InFileNames(name_)].outputs = std::move(outputs_);
    }
    blocks_.pop_back();
    ++at_;
    return {};
  }

  Status Quoted(char quote, std::string& value) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      }
      value += text_[at_];
    }
    if (at_ == text_.size()) {
      return Bad("a quoted word that does not end");
    }
    ++at_;
    return {};
  }

  template <size_t kCount>
  bool Inside(const std::array<std::string_view, kCount>& path) const {
    return blocks_.size() >= kCount &&
           std::equal(path.begin(), path.end(), blocks_.end() - static_cast<ptrdiff_t>(kCount));
  }

  void Value(const std::string& value) {
    constexpr std::array<std::string_view, 1> kOp = {"op"};
    constexpr std::array<std::string_view, 3> kAttribute = {"op", "output_desc", "attr"};
    constexpr std::array<std::string_view, 4> kText = {"op", "output_desc", "attr", "value"};
    if (word_ == "name" && Inside(kOp)) {
      name_ = value;
    } else if (word_ == "key" && Inside(kAttribute)) {
      key_ = value;
    } else if (word_ == "s" && Inside(kText) && key_ == kFxAttribute && !outputs_.empty()) {
      outputs_.back() = ParseFxName(value, outputs_.size() - 1);
    }
  }

  std::string_view text_;
  GeGraph& graph_;
  size_t at_ = 0;
  std::string_view word_;  // in front of a block or value
  std::vector<std::string_view> blocks_;
  std::string name_;
  std::string key_;
  std::vector<FxOutput> outputs_;
};

// The longest name that `text` starts with. Names are sorted: what stands in front of the place of
// `text` is such a name, or shares its longest common start with it, which is the next to look for.
GeGraph::const_iterator LongestStart(const GeGraph& graph, std::string_view text) {
  while (true) {
    auto place = graph.upper_bound(text);
    if (place == graph.begin()) {
      return graph.end();
    }
    --place;
    const std::string_view name = place->first;
    if (text.starts_with(name)) {
      return place;
    }
    const auto parting = std::mismatch(text.begin(), text.end(), name.begin(), name.end());
    text = text.substr(0, static_cast<size_t>(parting.first - text.begin()));
  }
}

}  // namespace

Status ReadGeGraph(std::string_view text, GeGraph& graph) { return Reader(text, graph).Read(); }

std::vector<const GeNode*> SplitFused(const GeGraph& graph, std::string_view fused,
                                      std::vector<std::string>* names) {
  std::vector<const GeNode*> parts;
  while (!fused.empty()) {
    const auto found = LongestStart(graph, fused);
    if (found == graph.end()) {
      return {};
    }
    parts.push_back(&found->second);
    if (names != nullptr) {
      names->push_back(found->first);
    }
    fused.remove_prefix(found->first.size());
  }
  return parts;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGraphFile = "dynamo_original_graph_";
constexpr std::string_view kRankMark = "_global_rank";
constexpr std::string_view kWorld = "worldsize";

// The rank of the folder "worldsize2_global_rank1" on the way to a file, and the nearest folder
// that is a number.
struct FolderPlace {
  std::optional<int64_t> rank;
  std::optional<int64_t> token;
};
FolderPlace PlaceOf(const fs::path& folder) {
  FolderPlace place;
  for (const fs::path& part : folder) {
    const std::string name = part.string();
    if (const std::optional<int64_t> token = FolderNumber(name)) {
      place.token = token;
    }
    const size_t mark = name.find(kRankMark);
    if (name.starts_with(kWorld) && mark != std::string::npos) {
      place.rank = FolderNumber(std::string_view(name).substr(mark + kRankMark.size()));
    }
  }
  return place;
}

// "add-aten.add.Tensor.INPUT.0.20251120100000.npy"
std::optional<FxKey> ParseArrayName(std::string_view name) {
  std::vector<std::string_view> fields = base::Split(name, '.');
  if (fields.size() < 5 || fields.back() != "npy") {
    return std::nullopt;
  }
  fields.pop_back();
  const std::string_view way = fields[fields.size() - 3];
  const std::optional<int64_t> number = FolderNumber(fields[fields.size() - 2]);
  if ((way != "INPUT" && way != "OUTPUT") || !number) {
    return std::nullopt;
  }
  FxKey key;
  key.call = name.substr(0, static_cast<size_t>(way.data() - name.data()) - 1);
  key.is_output = way == "OUTPUT";
  key.number = static_cast<size_t>(*number);
  return key;
}

// Every graph and array below a folder.
Status ReadTree(const fs::path& folder, TorchairSide& side) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored) || !entry->is_regular_file(ignored)) {
      continue;
    }
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    if (name.starts_with(kGraphFile) && name.ends_with(".txt")) {
      MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
      MSP_RETURN_IF_ERROR(ReadGeGraph(file.text(), side.graph).AddContext(path.string()));
    } else if (std::optional<FxKey> key = ParseArrayName(name)) {
      const FolderPlace place = PlaceOf(path.parent_path().lexically_relative(folder));
      key->token = place.token.value_or(1) - 1;
      // If a call was dumped twice: the first by name, whatever the order of the file system.
      fs::path& array = side.ranks[place.rank].arrays[*std::move(key)];
      if (array.empty() || path < array) {
        array = path;
      }
    }
  }
  return error ? IoError(fmt::format("cannot list {}: {}", folder.string(), error.message()))
               : Status();
}

// A side with a text of the graph is of GE, others of FX, whose tokens count from 1 and are
// numbered from 0 here. kNotFound when there is neither a kernel dump nor an array.
Result<TorchairSide> ReadTorchairSide(const fs::path& folder) {
  TorchairSide side;
  MSP_RETURN_IF_ERROR(ReadTree(folder, side));
  if (!side.is_ge()) {
    if (side.ranks.empty()) {
      return NotFoundError(fmt::format("{} holds no dump of torchair", folder.string()))
          .WithHint(
              "expected: kernel dumps beside a dynamo_original_graph_<n>.txt, or arrays "
              "<call>-<operator>.<INPUT|OUTPUT>.<n>.<time>.npy");
    }
    return side;
  }
  side.ranks.clear();
  MSP_ASSIGN_OR_RETURN(std::vector<kernel_dump::VectorOperator> operators,
                       kernel_dump::FindVectorOperators(folder));
  for (kernel_dump::VectorOperator& op : operators) {
    if (!op.dump.empty()) {
      const FolderPlace place = PlaceOf(op.dump.parent_path().lexically_relative(folder));
      const int64_t token = place.token.value_or(0);
      side.ranks[place.rank].kernels.push_back({token, std::move(op)});
    }
  }
  return side;
}

constexpr float kSmallFloat = 0x1p-23F;

// Numbers of the report are float32.
double AsFloat(double value) { return static_cast<double>(static_cast<float>(value)); }

// torchair.h has the formulas. Both are plain and have at least one element.
TorchairMetrics MeasureTorchair(const TensorView& golden, const TensorView& mine) {
  TorchairMetrics metrics;
  const auto count = static_cast<double>(golden.element_count());
  double dot = 0, golden_squares = 0, mine_squares = 0, squares = 0;
  double relative = 0, absolute = 0;
  float max_relative = 0, max_absolute = 0;
  float golden_most = -INFINITY, mine_most = -INFINITY;
  bool all_small = true;
  kernels::ForEachPair<float>(golden, mine, [&](float a, float b) {
    metrics.golden_finite = metrics.golden_finite && std::isfinite(a);
    metrics.mine_finite = metrics.mine_finite && std::isfinite(b);
    const double x = static_cast<double>(a);
    const double y = static_cast<double>(b);
    dot += x * y;
    golden_squares += x * x;
    mine_squares += y * y;
    squares += (y - x) * (y - x);
    golden_most = std::max(golden_most, a);
    mine_most = std::max(mine_most, b);
    const float difference = std::fabs(b - a);
    max_absolute = std::max(max_absolute, difference);
    absolute += static_cast<double>(difference);
    if (std::fabs(a) > kSmallFloat) {
      all_small = false;
      const float ratio = std::fabs(b / a - 1.0F);
      max_relative = std::max(max_relative, ratio);
      relative += static_cast<double>(ratio);
    }
  });
  if (!metrics.golden_finite || !metrics.mine_finite) {
    return metrics;
  }
  const double golden_top = static_cast<double>(golden_most);
  const double mine_top = static_cast<double>(mine_most);
  double golden_sum = 0, mine_sum = 0;
  kernels::ForEachPair<float>(golden, mine, [&](float a, float b) {
    golden_sum += std::exp(static_cast<double>(a) - golden_top);
    mine_sum += std::exp(static_cast<double>(b) - mine_top);
  });
  // log of p / q for p = exp(a - top) / sum and the same of q.
  const double offset = std::log(mine_sum) + mine_top - std::log(golden_sum) - golden_top;
  double divergence = 0;
  kernels::ForEachPair<float>(golden, mine, [&](float a, float b) {
    const double x = static_cast<double>(a);
    divergence += std::exp(x - golden_top) / golden_sum * (x - static_cast<double>(b) + offset);
  });
  const bool both_zero = golden_squares == 0 && mine_squares == 0;
  const double cosine = both_zero ? 1 : dot / (std::sqrt(golden_squares) * std::sqrt(mine_squares));
  metrics.values = {std::isnan(cosine) ? 0 : std::round(cosine * 1e10) / 1e10,
                    static_cast<double>(max_relative),
                    AsFloat(relative / count),
                    static_cast<double>(max_absolute),
                    AsFloat(absolute / count),
                    AsFloat(std::max(divergence, 0.0)),
                    all_small ? 0 : AsFloat(std::sqrt(squares / golden_squares))};
  return metrics;
}

using kernel_dump::OpenOperator;
using kernel_dump::VectorOperator;

// The first call of the FX graph that an output of an operator names; empty: none.
std::string CallOf(const GeNode& node) {
  const auto named = std::find_if(node.outputs.begin(), node.outputs.end(),
                                  [](const FxOutput& output) { return !output.call.empty(); });
  return named == node.outputs.end() ? std::string() : named->call;
}

class RankPairing {
 public:
  RankPairing(const TorchairSide& mine, const TorchairSide& golden, const TorchairRank& golden_rank)
      : mine_(mine), golden_(golden), golden_rank_(golden_rank) {
    for (const GeKernel& kernel : golden_rank.kernels) {
      kernels_[{kernel.token, kernel.op.name}].push_back(&kernel.op);
    }
  }

  // Whether it has a partner.
  bool AddKernel(const GeKernel& kernel) {
    const size_t before = rows_.size();
    const Result<OpenOperator> open = OpenOperator::Open(kernel.op);
    // An unreadable kernel has one row, of its first output.
    const size_t inputs = open.ok() ? open->count(false) : 0;
    const size_t outputs = open.ok() ? open->count(true) : 1;
    if (golden_.is_ge()) {
      AddBesideKernels(kernel, inputs, outputs);
    } else {
      AddBesideCalls(kernel, inputs, outputs);
    }
    return rows_.size() > before;
  }

  std::vector<TorchairRow> TakeRows() { return std::move(rows_); }

 private:
  void Add(const GeKernel& kernel, TensorPlace golden, bool is_output, size_t number) {
    rows_.push_back({kernel.token, std::move(golden), {&kernel.op, {}, is_output, number}});
  }

  // The run of `name` in the kernel's token that is number `turn`; null when there is none.
  const VectorOperator* FindKernel(const GeKernel& kernel, const std::string& name,
                                   size_t turn) const {
    const auto found = kernels_.find({kernel.token, name});
    return found == kernels_.end() || turn >= found->second.size() ? nullptr : found->second[turn];
  }

  void AddBesideKernels(const GeKernel& kernel, size_t inputs, size_t outputs) {
    const size_t turn = turns_[{kernel.token, kernel.op.name}]++;
    const VectorOperator* first = FindKernel(kernel, kernel.op.name, turn);
    const VectorOperator* last = first;
    if (first == nullptr) {
      std::vector<std::string> names;
      SplitFused(golden_.graph, kernel.op.name, &names);
      if (!names.empty()) {
        first = FindKernel(kernel, names.front(), turn);
        last = FindKernel(kernel, names.back(), turn);
      }
    }
    for (size_t i = 0; first != nullptr && i < inputs; ++i) {
      Add(kernel, {first, {}, false, i}, false, i);
    }
    for (size_t i = 0; last != nullptr && i < outputs; ++i) {
      Add(kernel, {last, {}, true, i}, true, i);
    }
  }

  void AddBesideCalls(const GeKernel& kernel, size_t inputs, size_t outputs) {
    const std::vector<const GeNode*> parts = SplitFused(mine_.graph, kernel.op.name);
    if (parts.empty()) {
      const bool converts = kernel.op.op_type == "Cast" || kernel.op.op_type == "TransData";
      if (converts && inputs > 0 && outputs > 0) {
        Add(kernel, {&kernel.op, {}, false, 0}, true, 0);
      }
      return;
    }
    const auto add = [&](const std::string& call, bool is_output, size_t fx, size_t ge) {
      const auto found = golden_rank_.arrays.find({kernel.token, call, is_output, fx});
      if (!call.empty() && found != golden_rank_.arrays.end()) {
        Add(kernel, {nullptr, found->second, is_output, fx}, is_output, ge);
      }
    };
    const std::string first_call = CallOf(*parts.front());
    for (size_t i = 0; i < inputs; ++i) {
      add(first_call, false, i, i);
    }
    const GeNode& last = *parts.back();
    const std::string last_call = CallOf(last);
    for (size_t i = 0; i < outputs; ++i) {
      const bool told = i < last.outputs.size() && !last.outputs[i].call.empty();
      add(told ? last.outputs[i].call : last_call, true, told ? last.outputs[i].number : i, i);
    }
  }

  const TorchairSide& mine_;
  const TorchairSide& golden_;
  const TorchairRank& golden_rank_;
  using KernelKey = std::pair<int64_t, std::string>;  // token, name
  // A loop runs a kernel more than once per token.
  std::map<KernelKey, std::vector<const VectorOperator*>> kernels_;
  std::map<KernelKey, size_t> turns_;
  std::vector<TorchairRow> rows_;
};

std::string TensorPlace::Text() const {
  return op == nullptr
             ? array.string()
             : fmt::format("{},{},{}", op->dump.string(), is_output ? "outputs" : "inputs", number);
}

Result<tensor::TensorBuffer> TensorPlace::Read() const {
  VectorOperator source;
  if (op == nullptr) {
    source.arrays[number] = array;
  }
  MSP_ASSIGN_OR_RETURN(const OpenOperator open, OpenOperator::Open(op == nullptr ? source : *op));
  const bool outputs = op == nullptr || is_output;
  if (!open.has(outputs, number)) {
    return NotFoundError("the file has no such tensor");
  }
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer buffer, open.AsFrameworkKnows(outputs, number));
  MSP_RETURN_IF_ERROR(open.Check());
  return buffer;
}

// The rows of one rank, in the order of time, by the rules of torchair.h. Both
// ranks must outlive them. `without_partner` counts the kernels of the test that have no row.
std::vector<TorchairRow> PairTorchairRank(const TorchairSide& mine, const TorchairRank& mine_rank,
                                          const TorchairSide& golden,
                                          const TorchairRank& golden_rank,
                                          uint64_t& without_partner) {
  RankPairing pairing(mine, golden, golden_rank);
  for (const GeKernel& kernel : mine_rank.kernels) {
    without_partner += pairing.AddKernel(kernel) ? 0U : 1U;
  }
  return pairing.TakeRows();
}

using report::Cell;

// Path, operator, dtype, shape, and statistics of float32, whatever the dtype is; no statistics of
// what has no elements or is complex.
void AddTensor(const TensorPlace& place, const Result<tensor::TensorBuffer>& tensor,
               FolderRow& row) {
  row.Add(place.Text());
  row.Add(place.op == nullptr ? std::string() : place.op->op_type);
  std::array<std::string, 5> texts;  // dtype, shape, max, min, mean
  if (tensor.ok()) {
    const TensorView view = tensor->view();
    texts[0] = fmt::format("torch.{}", DTypeName(view.dtype));
    texts[1] = ShapeText(view.shape);
    const auto count = static_cast<size_t>(view.element_count());
    if (count > 0 && kernel_dump::CheckMeasurable(view, view).ok()) {
      kernels::NumberReader<float> numbers(view);
      double largest = -INFINITY;
      double smallest = INFINITY;
      double sum = 0;
      for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
        for (const float number :
             numbers.Read(first, std::min(tensor::kCopyBlockElements, count - first))) {
          const auto value = static_cast<double>(number);
          largest = kernel_dump::LargerOrNaN(largest, value);
          smallest = kernel_dump::SmallerOrNaN(smallest, value);
          sum += value;
        }
      }
      texts[2] = base::PythonFloatRepr(largest);
      texts[3] = base::PythonFloatRepr(smallest);
      texts[4] = base::PythonFloatRepr(AsFloat(sum / static_cast<double>(count)));
    }
  }
  for (std::string& text : texts) {
    row.Add(std::move(text));
  }
}

// The metrics of both tensors, flattened, or why there are none.
Result<TorchairMetrics> Measure(const Result<tensor::TensorBuffer>& golden,
                                const Result<tensor::TensorBuffer>& mine, FolderRow& row) {
  for (const Result<tensor::TensorBuffer>* tensor : {&golden, &mine}) {
    MSP_RETURN_IF_ERROR(Status(tensor->status()));
  }
  TensorView a = golden->view();
  TensorView b = mine->view();
  if (a.element_count() != b.element_count()) {
    return MismatchError("data shape doesn't match.");
  }
  MSP_RETURN_IF_ERROR(kernel_dump::CheckMeasurable(b, a));
  if (a.element_count() == 0) {
    return UnsupportedError("no elements to compare");
  }
  for (TensorView* view : {&a, &b}) {
    view->shape = {view->element_count()};
    view->strides = {1};
  }
  row.distance = ComputeRealMetrics(b, a, Edition::kV26).distance;
  row.noise = FolderNoise(b.dtype, a.dtype);
  return MeasureTorchair(a, b);
}

// `id`: its place in the report.
FolderRow ReportRow(const TorchairRow& pair, size_t id) {
  FolderRow row;
  row.name = pair.mine.Text();
  row.Add(Cell::Integer(pair.token));
  row.Add(Cell::Integer(static_cast<int64_t>(id)));
  const Result<tensor::TensorBuffer> golden = pair.golden.Read();
  const Result<tensor::TensorBuffer> mine = pair.mine.Read();
  AddTensor(pair.golden, golden, row);
  AddTensor(pair.mine, mine, row);
  const Result<TorchairMetrics> metrics = Measure(golden, mine, row);
  std::string reason = metrics.ok() ? "" : metrics.status().message();
  if (metrics.ok()) {
    reason += metrics->golden_finite ? "" : "golden_data includes NAN or inf.";
    reason += metrics->mine_finite ? "" : "my_data includes NAN or inf.";
  } else {
    const bool mismatched = metrics.status().code() == StatusCode::kMismatch;
    row.outcome = mismatched ? FolderRow::Outcome::kMismatched : FolderRow::Outcome::kNoValues;
    row.unreadable = !mismatched;
  }
  const bool has_values = metrics.ok() && reason.empty();
  for (size_t i = 0; i < kTorchairMetricCount; ++i) {
    row.AddIf(has_values, has_values ? base::PythonFloatRepr(metrics->values[i]) : "");
  }
  row.Add(base::Printable(reason));
  return row;
}

std::vector<std::string> ReportColumns() {
  std::vector<std::string> columns = {"token_id", "data_id"};
  for (const char* side : {"golden", "my"}) {
    columns.push_back(fmt::format("{}_data_path", side));
    for (const char* fact : {"op_type", "dtype", "shape", "max_value", "min_value", "mean_value"}) {
      columns.push_back(fmt::format("{}_{}", side, fact));
    }
  }
  columns.insert(columns.end(), kTorchairMetrics.begin(), kTorchairMetrics.end());
  columns.emplace_back("cmp_fail_reason");
  return columns;
}

std::string RankName(std::optional<int64_t> rank) {
  return rank ? fmt::format("rank {}", *rank) : "what is in no folder of a rank";
}

std::string RankWithoutPartner(std::optional<int64_t> rank, const std::filesystem::path& here,
                               const std::filesystem::path& there) {
  return fmt::format("{} of {} is not in {}", RankName(rank), here.string(), there.string());
}

}  // namespace

Result<FolderComparison> CompareTorchair(const Options& options, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const TorchairSide mine, ReadTorchairSide(options.npu_path));
  MSP_ASSIGN_OR_RETURN(const TorchairSide golden, ReadTorchairSide(options.bench_path));
  if (!mine.is_ge()) {
    return NotFoundError(fmt::format("{} holds no dynamo_original_graph_<n>.txt, which names the "
                                     "operators of a dump of GE",
                                     options.npu_path.string()))
        .WithHint("the dump of GE comes first, one of GE or FX second");
  }
  FolderComparison comparison;
  const std::optional<int64_t>& asked = options.v26->torchair_rank;
  bool found = false;
  for (const auto& [rank, mine_rank] : mine.ranks) {
    if (asked && rank != asked) {
      continue;
    }
    const auto partner = golden.ranks.find(rank);
    if (partner == golden.ranks.end()) {
      comparison.warnings.push_back(RankWithoutPartner(rank, options.npu_path, options.bench_path));
      continue;
    }
    found = true;
    uint64_t without_partner = 0;
    const std::vector<TorchairRow> rows =
        PairTorchairRank(mine, mine_rank, golden, partner->second, without_partner);
    if (rows.empty()) {
      comparison.warnings.push_back(
          fmt::format("{}: none of {} kernels has a partner", RankName(rank), without_partner));
      continue;
    }
    FolderTable& table = comparison.tables.emplace_back();
    table.counts.npu_only = without_partner;
    table.name = fmt::format("msprobe_cmp_report{}", rank ? fmt::format("_rank{}", *rank) : "");
    table.table = report::Table("report", ReportColumns());
    CompareRows(
        rows.size(),
        [&](size_t i, size_t) {
          FolderRow row = ReportRow(rows[i], i);
          row.table = comparison.tables.size() - 1;
          return row;
        },
        FirstBy::kPlace, pool, comparison);
  }
  for (const auto& [rank, unused] : golden.ranks) {
    if (mine.ranks.count(rank) == 0 && !asked) {
      comparison.warnings.push_back(RankWithoutPartner(rank, options.bench_path, options.npu_path));
    }
  }
  if (asked && !found) {
    return NotFoundError(fmt::format("rank {} is not in both of {} and {}", *asked,
                                     options.npu_path.string(), options.bench_path.string()))
        .WithHint("ranks are the folders worldsize<W>_global_rank<R>");
  }
  if (comparison.tables.empty()) {
    return MismatchError(fmt::format("{} and {} have no tensor in common",
                                     options.npu_path.string(), options.bench_path.string()))
        .WithHint("operators pair by the names in the text of the graph, tokens by their numbers");
  }
  return comparison;
}

}  // namespace msprobe::analysis::compare
