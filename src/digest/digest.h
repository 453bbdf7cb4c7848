// Digests of weights: for each unfused parameter sums over its elements that do not depend on how
// the model is cut, joined, ordered or stored (docs/design/digest.md), so that two holders of a
// model can prove that they hold the same one without either seeing the other's weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/threads.h"
#include "src/checkpoint/checkpoint.h"
#include "src/kernels/digest.h"

namespace msprobe::digest {

// A rectangle of elements.
struct Box {
  Shape offset;
  Shape shape;

  bool operator==(const Box&) const = default;
};

enum class ValueKind : uint8_t { kFloat, kInteger, kComplex };

// One unfused parameter, or what one rank holds of it.
struct Entry {
  std::string part;                  // the name that all families share (src/naming)
  std::string name;                  // as its own side names it, unfused
  std::string stored;                // the parameter that holds it
  std::string left_out;              // why it may be missing on one side; empty: it may not
  std::vector<std::string> fused;    // parts that could not be taken apart
  Shape shape;                       // of the whole
  std::optional<int64_t> padded_to;  // rows with padding, which is not digested
  ValueKind kind = ValueKind::kFloat;
  DType dtype = DType::kFloat32;  // float32 of codes
  std::string format;             // "bf16", "fp8_e4m3 block 128x128"
  std::vector<Box> boxes;         // what the sums hold; none overlaps another
  std::vector<uint64_t> blocks;   // per block of rows, first key
  uint64_t total = 0;             // second key
  std::string problem;            // why there are no sums

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
};

// Blocks hold at most 1/64 of the rows, and one row at least.
int64_t BlockRows(int64_t rows);
size_t BlockCount(int64_t rows);
// "0-127": the rows from the first to the last block given, both inclusive.
std::string RowsText(int64_t rows, size_t first_block, size_t last_block);

struct Digest {
  std::optional<int64_t> rank;  // none: of the whole model
  int64_t world_size = 1;
  kernels::DigestCast cast = kernels::DigestCast::kNone;
  std::string source;  // "Hugging Face", "live model"
  std::vector<Entry> entries;
};

std::string_view CastName(kernels::DigestCast cast);  // "bfloat16"; empty: none
std::optional<kernels::DigestCast> ParseCast(std::string_view text);

struct BuildOptions {
  kernels::DigestCast cast = kernels::DigestCast::kNone;
  std::optional<int64_t> vocabulary;  // rows of embeddings, without padding
  // Rows that the other side has of them, for models that record no vocabulary.
  std::optional<int64_t> other_vocabulary;
  std::optional<int64_t> attention_heads;
  std::optional<int64_t> query_groups;
};

// Adds up pieces of a model's parameters.
class Builder {
 public:
  // Names, shapes, dtypes and facts of `declared` count; its pieces are not looked at.
  static Result<Builder> Make(const checkpoint::Checkpoint& declared, const BuildOptions& options);
  Builder(Builder&& other) noexcept;
  Builder& operator=(Builder&& other) noexcept;
  ~Builder();

  // Adds pieces of declared.parameters[index]. `in_memory`: views of memory, not of mapped files.
  // An error is a piece that does not fit; what cannot be digested is a problem of its entries.
  Status Add(size_t index, std::span<const checkpoint::Piece> pieces, bool in_memory,
             base::ThreadPool& pool);
  // The entries of declared.parameters[index].
  std::vector<size_t> EntriesOf(size_t index) const;
  const std::vector<Entry>& entries() const;
  Digest Take();

 private:
  struct State;
  explicit Builder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Digests a whole checkpoint; on_progress may be empty.
Result<Digest> DigestOf(const checkpoint::Checkpoint& checkpoint, const BuildOptions& options,
                        base::ThreadPool& pool,
                        const std::function<void(uint64_t elements, uint64_t bytes)>& on_progress);

// ---- files (docs/formats/digest_json.md)

inline constexpr std::string_view kFilePrefix = "digest_rank";

std::string DigestJson(const Digest& digest);
// Everything is checked. Errors name the file, the parameter and what is wrong.
Result<Digest> ParseDigest(std::string_view text, const std::string& file_name);
// Told by content: a file that says so, or a folder with files digest_rank*.json.
bool LooksLikeDigest(const std::filesystem::path& path);
Result<std::vector<Digest>> ReadDigests(const std::filesystem::path& path);

// ---- ranks put together

struct Whole {
  Entry entry;                                              // of the whole; its boxes are none
  std::optional<std::pair<size_t, size_t>> missing_blocks;  // no rank holds some of their elements
  std::optional<std::pair<size_t, size_t>> unequal_blocks;  // copies differ here
  std::string note;  // of the latter: "ranks 0 and 2 hold different copies"
};

struct Model {
  kernels::DigestCast cast = kernels::DigestCast::kNone;
  std::string source;  // "live model, 8 ranks"
  std::vector<Whole> wholes;
  int64_t world_size = 1;
  std::vector<int64_t> missing_ranks;
};

// Copies are held against each other, parts added up.
Result<Model> JoinRanks(std::vector<Digest> digests);

}  // namespace msprobe::digest
