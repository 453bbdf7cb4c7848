#include "src/analysis/compare/line26/torchair_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGraphFile = "dynamo_original_graph_";
constexpr std::string_view kRankMark = "_global_rank";
constexpr std::string_view kWorld = "worldsize";

std::optional<int64_t> FolderNumber(std::string_view text) {
  const std::optional<int64_t> number = base::ParseInt(text);
  return number && *number >= 0 && std::all_of(text.begin(), text.end(), base::IsDigit)
             ? number
             : std::nullopt;
}

// Of the folder "worldsize2_global_rank1" on the way to a file, and of the nearest folder that is a
// number.
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
      // Of a call that was dumped twice the first by name, whatever the order of the file system.
      fs::path& array = side.ranks[place.rank].arrays[*std::move(key)];
      if (array.empty() || path < array) {
        array = path;
      }
    }
  }
  return error ? IoError(fmt::format("cannot list {}: {}", folder.string(), error.message()))
               : Status();
}

}  // namespace

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

}  // namespace msprobe::analysis::compare
