// Digests held against each other.
//
// A side that is a checkpoint is digested first, with the cast that the other side declares and,
// where it does not record a vocabulary, the other side's rows. Entries belong together by the
// shared name of their part, then by their own name. Two entries can be compared where both sums
// are of the same values: the same cast, or one that changes nothing on the side that lacks it.
// Causes that a digest can show: the sums are those of another parameter, of another step (--also),
// of the same codes read wrongly (the side is a quantised checkpoint), or a rank holds no part.
#include "src/analysis/ckpt/digests.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/digest/digest.h"
#include "src/naming/rules.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Checkpoint;
using digest::Entry;
using digest::Model;
using digest::Whole;
using kernels::DigestCast;

constexpr std::string_view kSwappedWith = "swapped_with:";

struct DigestSide {
  Model model;
  std::optional<Checkpoint> checkpoint;  // that was digested here
  SideFacts facts;
};

Status CheckOptions(const Options& options) {
  const auto refuse = [](std::string_view flag) {
    return UsageError(
        fmt::format("{} cannot be used with a digest, which tells whether values are "
                    "equal, not how far apart they are",
                    flag));
  };
  if (options.tolerance.given()) {
    return refuse("--rtol and --atol");
  }
  if (options.open.compatible_merge) {
    return refuse("--compat");
  }
  if (options.open.optimizer) {
    return refuse("--optimizer");
  }
  if (!options.draft_file.empty()) {
    return refuse("--suggest-mapping");
  }
  if (options.sensitivity || !options.activations.empty()) {
    return refuse("--sensitivity");
  }
  if (!options.mapping_file.empty()) {
    return UsageError(
        "--mapping cannot be used with a digest: names are matched as the built-in "
        "rules read them");
  }
  return {};
}

Result<DigestSide> ReadSide(const std::filesystem::path& path) {
  DigestSide side;
  MSP_ASSIGN_OR_RETURN(std::vector<digest::Digest> digests, digest::ReadDigests(path));
  MSP_ASSIGN_OR_RETURN(side.model, digest::JoinRanks(std::move(digests)));
  side.facts.path = path;
  side.facts.parameter_count = side.model.wholes.size();
  side.facts.text = fmt::format("digest ({})", base::Printable(side.model.source));
  return side;
}

// Rows of the word embeddings, for a side that records no vocabulary.
std::optional<int64_t> VocabularyOf(const Model& model, const naming::BuiltInMapping& mapping) {
  for (const Whole& whole : model.wholes) {
    if (whole.entry.part == mapping.embedding) {
      return whole.entry.rows();
    }
  }
  return std::nullopt;
}

digest::BuildOptions BuildOptionsOf(const Options& options, const Model& other,
                                    const naming::BuiltInMapping& mapping) {
  digest::BuildOptions build;
  build.cast = other.cast;
  build.vocabulary = options.vocabulary;
  build.attention_heads = options.attention_heads;
  build.query_groups = options.query_groups;
  build.other_vocabulary = VocabularyOf(other, mapping);
  return build;
}

Result<DigestSide> DigestCheckpoint(const std::filesystem::path& path, const Options& options,
                                    const digest::BuildOptions& build, base::ThreadPool& pool,
                                    uint64_t& bytes) {
  DigestSide side;
  MSP_ASSIGN_OR_RETURN(side.checkpoint, checkpoint::OpenCheckpoint(path, options.open));
  const Checkpoint& checkpoint = *side.checkpoint;
  uint64_t elements = 0;
  for (const checkpoint::Parameter& parameter : checkpoint.parameters) {
    elements += static_cast<uint64_t>(parameter.element_count());
  }
  base::Progress progress("digesting", elements, "elements", options.quiet);
  MSP_ASSIGN_OR_RETURN(
      digest::Digest whole,
      digest::DigestOf(checkpoint, build, pool, [&](uint64_t count, uint64_t of_them) {
        bytes += of_them;
        progress.Add(count, of_them);
      }));
  std::vector<digest::Digest> digests;
  digests.push_back(std::move(whole));
  MSP_ASSIGN_OR_RETURN(side.model, digest::JoinRanks(std::move(digests)));
  side.facts = {checkpoint.kind, checkpoint.path, checkpoint.iteration,
                checkpoint.parameters.size()};
  return side;
}

// Whether a cast leaves all values of a type as they are.
bool KeepsValues(DigestCast cast, DType dtype) {
  switch (cast) {
    case DigestCast::kNone:
      return true;
    case DigestCast::kFloat32:
      return dtype != DType::kFloat64;
    case DigestCast::kBFloat16:
      return dtype == DType::kBFloat16 || DTypeSize(dtype) == 1;
    case DigestCast::kFloat16:
      // The 5-bit exponents of bfloat8 formats fit; those of e5m2fnuz reach one further down.
      return dtype == DType::kFloat16 || dtype == DType::kFloat8E4M3FN ||
             dtype == DType::kFloat8E5M2 || dtype == DType::kFloat8E4M3FNUZ;
  }
  return false;
}

std::string CastText(DigestCast cast) {
  return cast == DigestCast::kNone ? "no cast"
                                   : fmt::format("the cast to {}", digest::CastName(cast));
}

// Why two entries say nothing about each other; empty where they do.
std::string WhyNotComparable(const Whole& a, const Whole& b, const DigestSide& side_a,
                             const DigestSide& side_b) {
  for (const auto& [whole, name] : {std::pair(&a, "test"), std::pair(&b, "reference")}) {
    if (!whole->entry.problem.empty()) {
      return fmt::format("{}: {}", name, whole->entry.problem);
    }
  }
  const auto is_float = [](const Whole& whole) {
    return whole.entry.kind == digest::ValueKind::kFloat;
  };
  if (a.entry.kind != b.entry.kind) {
    return fmt::format("{} and {} are numbers of different kinds", DTypeName(a.entry.dtype),
                       DTypeName(b.entry.dtype));
  }
  if (a.entry.shape != b.entry.shape) {
    return fmt::format("shapes {} and {}{}", ShapeText(a.entry.shape), ShapeText(b.entry.shape),
                       a.entry.padded_to.has_value() != b.entry.padded_to.has_value()
                           ? ": one side records no vocabulary, so that rows of padding are in its "
                             "sums (--vocab-size N when its digest is made)"
                           : "");
  }
  const DigestCast cast_a = side_a.model.cast;
  const DigestCast cast_b = side_b.model.cast;
  if (is_float(a) && cast_a != cast_b &&
      (!KeepsValues(cast_a, b.entry.dtype) || !KeepsValues(cast_b, a.entry.dtype))) {
    return fmt::format(
        "the test's digest has {} of {}, the reference's {} of {}: declare the same "
        "dtype when both are made",
        CastText(cast_a), a.entry.format, CastText(cast_b), b.entry.format);
  }
  for (const auto& [whole, side, name] :
       {std::tuple(&a, &side_a, "test"), std::tuple(&b, &side_b, "reference")}) {
    if (whole->missing_blocks && !side->model.missing_ranks.empty()) {
      return fmt::format("{}: rows {} are held by ranks that are missing", name,
                         digest::RowsText(whole->entry.rows(), whole->missing_blocks->first,
                                          whole->missing_blocks->second));
    }
  }
  return {};
}

using BlockRange = std::optional<std::pair<size_t, size_t>>;

BlockRange DifferentBlocks(const Entry& a, const Entry& b) {
  BlockRange range;
  for (size_t block = 0; block < a.blocks.size(); ++block) {
    if (a.blocks[block] != b.blocks[block]) {
      range = range ? std::pair(range->first, block) : std::pair(block, block);
    }
  }
  if (!range && a.total != b.total && !a.blocks.empty()) {
    range = std::pair<size_t, size_t>(0, a.blocks.size() - 1);
  }
  return range;
}

bool SameSums(const Entry& a, const Entry& b) {
  return a.shape == b.shape && a.blocks == b.blocks && a.total == b.total;
}

BlockRange Joined(const BlockRange& a, const BlockRange& b) {
  if (!a || !b) {
    return a ? a : b;
  }
  return std::pair(std::min(a->first, b->first), std::max(a->second, b->second));
}

class DigestComparer {
 public:
  DigestComparer(const Options& options, base::ThreadPool& pool) : options_(options), pool_(pool) {}

  Result<Comparison> Run() {
    MSP_RETURN_IF_ERROR(CheckOptions(options_));
    MSP_ASSIGN_OR_RETURN(mapping_, naming::LoadBuiltInMapping());
    MSP_RETURN_IF_ERROR(ReadBoth());
    result_.of_digests = true;
    result_.a = sides_[0].facts;
    result_.b = sides_[1].facts;
    NoteMissingRanks();
    Match();
    MSP_RETURN_IF_ERROR(FindStale());
    result_.bytes = bytes_;
    return std::move(result_);
  }

 private:
  Status ReadBoth() {
    const std::array<const std::filesystem::path*, 2> paths = {&options_.path_a, &options_.path_b};
    std::array<bool, 2> is_digest = {};
    for (size_t side = 0; side < 2; ++side) {
      is_digest[side] = digest::LooksLikeDigest(*paths[side]);
      if (is_digest[side]) {
        MSP_ASSIGN_OR_RETURN(sides_[side], ReadSide(*paths[side]));
      }
    }
    for (size_t side = 0; side < 2; ++side) {
      if (!is_digest[side]) {
        const digest::BuildOptions build =
            BuildOptionsOf(options_, sides_[1 - side].model, mapping_);
        MSP_ASSIGN_OR_RETURN(sides_[side],
                             DigestCheckpoint(*paths[side], options_, build, pool_, bytes_));
        for (const std::string& warning : sides_[side].checkpoint->warnings) {
          result_.warnings.push_back(
              fmt::format("{}: {}", side == 0 ? "test" : "reference", warning));
        }
      }
    }
    return {};
  }

  void NoteMissingRanks() {
    for (size_t side = 0; side < 2; ++side) {
      const Model& model = sides_[side].model;
      if (model.missing_ranks.empty()) {
        continue;
      }
      result_.is_incomplete = true;
      std::string ranks;
      constexpr size_t kShown = 8;
      for (size_t i = 0; i < std::min(model.missing_ranks.size(), kShown); ++i) {
        ranks += fmt::format("{}{}", i == 0 ? "" : ", ", model.missing_ranks[i]);
      }
      result_.warnings.push_back(fmt::format("{}: the digests of {} of {} ranks are missing: {}{}",
                                             side == 0 ? "test" : "reference",
                                             model.missing_ranks.size(), model.world_size, ranks,
                                             model.missing_ranks.size() > kShown ? ", ..." : ""));
    }
  }

  using Places = std::unordered_map<std::string_view, size_t>;

  void Match() {
    const std::vector<Whole>& all_a = sides_[0].model.wholes;
    const std::vector<Whole>& all_b = sides_[1].model.wholes;
    Places by_part;
    Places by_name;
    for (size_t i = 0; i < all_b.size(); ++i) {
      by_part.emplace(all_b[i].entry.part, i);
      by_name.emplace(all_b[i].entry.name, i);
    }
    std::vector<bool> used(all_b.size(), false);
    std::vector<const Whole*> alone;
    for (const Whole& a : all_a) {
      size_t place = Find(by_part, a.entry.part, used);
      if (place == SIZE_MAX) {
        place = Find(by_name, a.entry.name, used);
      }
      if (place == SIZE_MAX) {
        alone.push_back(&a);
        continue;
      }
      used[place] = true;
      Compare(a, all_b[place]);
    }
    const size_t words_b = Find(by_part, mapping_.embedding, {});
    for (const Whole* a : alone) {
      if (a->entry.part == mapping_.output_layer && words_b != SIZE_MAX) {
        Compare(*a, all_b[words_b]);
        NoteTied("reference");
      } else if (!FindFused(*a, sides_[1].model, false)) {
        AddAlone(*a, result_.only_in_a, result_.left_out_a);
      }
    }
    const auto words_a = std::find_if(all_a.begin(), all_a.end(), [&](const Whole& whole) {
      return whole.entry.part == mapping_.embedding;
    });
    for (size_t i = 0; i < all_b.size(); ++i) {
      if (used[i]) {
        continue;
      }
      const Whole& b = all_b[i];
      if (b.entry.part == mapping_.output_layer && words_a != all_a.end()) {
        Compare(*words_a, b);
        result_.pairs.back().name = b.entry.name;
        NoteTied("test");
      } else if (!FindFused(b, sides_[0].model, true)) {
        AddAlone(b, result_.only_in_b, result_.left_out_b);
      }
    }
  }

  static size_t Find(const Places& places, const std::string& name, const std::vector<bool>& used) {
    const auto found = places.find(name);
    return found == places.end() || (!used.empty() && used[found->second]) ? SIZE_MAX
                                                                           : found->second;
  }

  void NoteTied(std::string_view side) {
    result_.pairs.back().notes.push_back(
        fmt::format("the {} has no output layer: its word embeddings take that place where the two "
                    "are tied",
                    side));
  }

  // A joined parameter that its side could not take apart, beside the parts of the other.
  bool FindFused(const Whole& whole, const Model& other, bool is_reference) {
    if (whole.entry.fused.empty()) {
      return false;
    }
    const bool has_parts =
        std::any_of(other.wholes.begin(), other.wholes.end(), [&](const Whole& one) {
          return std::find(whole.entry.fused.begin(), whole.entry.fused.end(), one.entry.part) !=
                 whole.entry.fused.end();
        });
    if (!has_parts) {
      return false;
    }
    PairResult& pair = result_.pairs.emplace_back();
    parts_.push_back({whole.entry.part, whole.entry.part});
    Describe(whole.entry, whole.entry, pair);
    pair.outcome = Outcome::kNotComparable;
    pair.notes.push_back(fmt::format(
        "{}: the number of attention heads was not known when the digest was made, so that it "
        "could not be taken apart (--num-attention-heads N, --num-query-groups N)",
        is_reference ? "reference" : "test"));
    return true;
  }

  static void AddAlone(const Whole& whole, std::vector<Unmatched>& missing,
                       std::vector<Unmatched>& left_out) {
    const Entry& entry = whole.entry;
    if (!entry.left_out.empty()) {
      left_out.push_back({entry.name, entry.left_out});
    } else {
      missing.push_back({entry.name, ""});
    }
  }

  static void Describe(const Entry& a, const Entry& b, PairResult& pair) {
    pair.name = a.name;
    pair.name_a = a.stored;
    pair.name_b = b.stored;
    pair.dtype_a = a.dtype;
    pair.dtype_b = b.dtype;
    pair.shape_a = a.shape;
    pair.shape_b = b.shape;
    pair.format_a = a.format;
    pair.format_b = b.format;
  }

  void Compare(const Whole& a, const Whole& b) {
    PairResult& pair = result_.pairs.emplace_back();
    parts_.push_back({a.entry.part, b.entry.part});
    Describe(a.entry, b.entry, pair);
    for (const auto& [whole, name] : {std::pair(&a, "test"), std::pair(&b, "reference")}) {
      if (whole->entry.padded_to) {
        pair.notes.push_back(fmt::format("{}: {} rows, of which {} are padding", name,
                                         *whole->entry.padded_to,
                                         *whole->entry.padded_to - whole->entry.rows()));
      }
    }
    if (std::string why = WhyNotComparable(a, b, sides_[0], sides_[1]); !why.empty()) {
      pair.outcome = Outcome::kNotComparable;
      pair.notes.push_back(std::move(why));
      return;
    }
    pair.sums.finite.element_count = static_cast<uint64_t>(ElementCount(a.entry.shape));
    const BlockRange missing = Joined(a.missing_blocks, b.missing_blocks);
    const BlockRange unequal = Joined(a.unequal_blocks, b.unequal_blocks);
    BlockRange different = missing ? missing : Joined(DifferentBlocks(a.entry, b.entry), unequal);
    if (!different) {
      pair.outcome = Outcome::kIdentical;
      pair.metrics.l2 = 0;
      return;
    }
    pair.outcome = Outcome::kDifferent;
    pair.rows = digest::RowsText(a.entry.rows(), different->first, different->second);
    for (const auto& [whole, name] : {std::pair(&a, "test"), std::pair(&b, "reference")}) {
      if (whole->missing_blocks) {
        pair.cause = "part_missing";
        pair.notes.push_back(fmt::format("{}: no rank holds all of these rows", name));
      }
      if (!whole->note.empty()) {
        pair.notes.push_back(fmt::format("{}: {}", name, whole->note));
      }
    }
    if (pair.cause.empty()) {
      FindSwapped(a, b, pair);
    }
    if (pair.cause.empty()) {
      FindReading(a, b, pair);
    }
  }

  // The sums are those of another parameter.
  void FindSwapped(const Whole& a, const Whole& b, PairResult& pair) {
    if (by_sums_.empty()) {
      for (size_t side = 0; side < 2; ++side) {
        for (const Whole& whole : sides_[side].model.wholes) {
          by_sums_[Key(side, whole.entry)].push_back(&whole);
        }
      }
    }
    const auto find = [&](size_t side, const Entry& sums, const Whole& own) -> const Whole* {
      const auto found = by_sums_.find(Key(side, sums));
      for (const Whole* one :
           found == by_sums_.end() ? std::vector<const Whole*>() : found->second) {
        if (one != &own && SameSums(one->entry, sums)) {
          return one;
        }
      }
      return nullptr;
    };
    if (const Whole* other = find(1, a.entry, b)) {
      pair.cause = fmt::format("{}{}", kSwappedWith, NameInTest(other->entry));
      pair.notes.push_back(
          fmt::format("the test has the values of {} of the reference", other->entry.name));
    } else if (const Whole* mine = find(0, b.entry, a)) {
      pair.cause = fmt::format("{}{}", kSwappedWith, mine->entry.name);
      pair.notes.push_back(
          fmt::format("the reference has the values of {} of the test", mine->entry.name));
    }
  }

  static std::string Key(size_t side, const Entry& entry) {
    return fmt::format("{} {} {}", side, entry.total, ShapeText(entry.shape));
  }

  // As the first side calls it.
  std::string NameInTest(const Entry& entry) const {
    for (const Whole& whole : sides_[0].model.wholes) {
      if (whole.entry.part == entry.part) {
        return whole.entry.name;
      }
    }
    return entry.name;
  }

  // The sums are those of the same codes, read as somebody would who makes a known mistake.
  void FindReading(const Whole& a, const Whole& b, PairResult& pair) {
    for (size_t side = 0; side < 2 && pair.cause.empty(); ++side) {
      if (!sides_[side].checkpoint) {
        continue;
      }
      const Entry& own = side == 0 ? a.entry : b.entry;
      const Entry& other = side == 0 ? b.entry : a.entry;
      const Checkpoint& checkpoint = *sides_[side].checkpoint;
      const auto stored = std::find_if(
          checkpoint.parameters.begin(), checkpoint.parameters.end(),
          [&](const checkpoint::Parameter& parameter) { return parameter.name == own.stored; });
      if (stored == checkpoint.parameters.end() || stored->pieces.size() != 1 ||
          stored->pieces.front().coded == nullptr) {
        continue;
      }
      const auto index = static_cast<size_t>(stored - checkpoint.parameters.begin());
      for (const io::CodedTensor::Reading& reading :
           stored->pieces.front().coded->OtherReadings()) {
        if (readings_left_ == 0) {
          return;
        }
        --readings_left_;
        if (HasSums(checkpoint, side, index, reading, own, other)) {
          pair.cause = reading.cause;
          break;
        }
      }
    }
  }

  bool HasSums(const Checkpoint& checkpoint, size_t side, size_t index,
               const io::CodedTensor::Reading& reading, const Entry& own, const Entry& wanted) {
    Result<digest::Builder> builder = digest::Builder::Make(
        checkpoint, BuildOptionsOf(options_, sides_[1 - side].model, mapping_));
    std::vector<checkpoint::Piece> pieces = checkpoint.parameters[index].pieces;
    pieces.front().coded = reading.tensor;
    if (!builder.ok() || !builder->Add(index, pieces, false, pool_).ok()) {
      return false;
    }
    for (const size_t entry : builder->EntriesOf(index)) {
      if (builder->entries()[entry].part == own.part) {
        return SameSums(builder->entries()[entry], wanted);
      }
    }
    return false;
  }

  // Digests or checkpoints of other steps that --also names. The values of the same parameter say
  // more than those of another one, of which models have equal ones: norms before they are trained.
  Status FindStale() {
    const auto unexplained = [](const PairResult& pair) {
      return pair.outcome == Outcome::kDifferent &&
             (pair.cause.empty() || pair.cause.starts_with(kSwappedWith));
    };
    for (const std::filesystem::path& path : options_.also) {
      if (std::none_of(result_.pairs.begin(), result_.pairs.end(), unexplained)) {
        break;
      }
      uint64_t bytes = 0;
      Result<DigestSide> other =
          digest::LooksLikeDigest(path)
              ? ReadSide(path)
              : DigestCheckpoint(path, options_,
                                 BuildOptionsOf(options_, sides_[0].model, mapping_), pool_, bytes);
      MSP_RETURN_IF_ERROR(other.status());
      std::unordered_map<std::string_view, const Entry*> by_part;
      for (const Whole& whole : other->model.wholes) {
        by_part.emplace(whole.entry.part, &whole.entry);
      }
      for (size_t side = 0; side < 2; ++side) {
        for (const Whole& whole : sides_[side].model.wholes) {
          const auto found = by_part.find(whole.entry.part);
          if (found == by_part.end() || !SameSums(*found->second, whole.entry)) {
            continue;
          }
          for (size_t i = 0; i < parts_.size(); ++i) {
            PairResult& pair = result_.pairs[i];
            if (unexplained(pair) && parts_[i][side] == whole.entry.part) {
              if (!pair.cause.empty()) {
                pair.notes.pop_back();
              }
              pair.cause = "stale";
              pair.notes.push_back(fmt::format("the {} has the values of {}",
                                               side == 0 ? "test" : "reference", path.string()));
            }
          }
        }
      }
    }
    return {};
  }

  const Options& options_;
  base::ThreadPool& pool_;
  naming::BuiltInMapping mapping_;
  std::array<DigestSide, 2> sides_;
  std::unordered_map<std::string, std::vector<const Whole*>> by_sums_;
  std::vector<std::array<std::string, 2>> parts_;  // of each pair
  size_t readings_left_ = 200;                     // each digests a parameter again
  uint64_t bytes_ = 0;
  Comparison result_;
};

}  // namespace

bool IsOfDigests(const Options& options) {
  return digest::LooksLikeDigest(options.path_a) || digest::LooksLikeDigest(options.path_b);
}

Result<Comparison> CompareDigests(const Options& options, base::ThreadPool& pool) {
  return DigestComparer(options, pool).Run();
}

Result<report::Document> WriteDigest(const DigestOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  digest::BuildOptions build;
  if (!options.dtype.empty()) {
    const std::optional<DigestCast> cast = digest::ParseCast(options.dtype);
    if (!cast) {
      return UsageError(fmt::format("--dtype {} is none of float32, bfloat16 and float16",
                                    base::Printable(options.dtype)));
    }
    build.cast = *cast;
  }
  build.vocabulary = options.vocabulary;
  build.attention_heads = options.attention_heads;
  build.query_groups = options.query_groups;
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(options.output));
  if (digest::LooksLikeDigest(options.path)) {
    return UsageError(fmt::format("{} is a digest already", options.path.string()));
  }
  base::ThreadPool pool(options.threads);
  MSP_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                       checkpoint::OpenCheckpoint(options.path, options.open));
  uint64_t elements = 0;
  for (const checkpoint::Parameter& parameter : checkpoint.parameters) {
    elements += static_cast<uint64_t>(parameter.element_count());
  }
  uint64_t bytes = 0;
  base::Progress progress("digesting", elements, "elements", options.quiet);
  MSP_ASSIGN_OR_RETURN(
      const digest::Digest made,
      digest::DigestOf(checkpoint, build, pool, [&](uint64_t count, uint64_t of_them) {
        bytes += of_them;
        progress.Add(count, of_them);
      }));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(options.output, digest::DigestJson(made)));
  report::Document document;
  document.command = "digest";
  report::List broken{report::ListKind::kNamed, {}, {8}};
  report::List joined{report::ListKind::kNamed, {}, {8}};
  for (const Entry& entry : made.entries) {
    if (!entry.problem.empty()) {
      broken.items.push_back({entry.name, entry.problem});
    } else if (!entry.fused.empty()) {
      joined.items.push_back({entry.name, base::Join(entry.fused, " + ")});
    }
  }
  const size_t all = made.entries.size();
  const size_t bad = broken.items.size();
  document.verdict.unit = "parameters";
  document.verdict.number = static_cast<double>(all - bad);
  if (all == bad) {
    document.verdict.Say("NOTHING DIGESTED", "no parameter could be read", report::Tone::kBad,
                         report::AnswerOutcome::kIncomplete);
  } else if (bad > 0) {
    document.verdict.Say("INCOMPLETE",
                         fmt::format("{} of {} could not be read", base::FormatCount(bad),
                                     base::Plural(all, "parameter")),
                         report::Tone::kBad, report::AnswerOutcome::kIncomplete);
  } else {
    document.verdict.Say(
        "DIGESTED",
        fmt::format("{} of {}{}", base::Plural(all, "parameter"), options.path.filename().string(),
                    build.cast == DigestCast::kNone
                        ? ""
                        : fmt::format(", cast to {}", digest::CastName(build.cast))),
        report::Tone::kGood);
  }
  document.sections.push_back(report::MakeSection("Not digested", std::move(broken)));
  document.sections.push_back(report::MakeSection(
      "Joined as they are (--num-attention-heads N takes them apart)", std::move(joined)));
  const std::filesystem::path files[] = {options.output};
  document.AddFiles(files);
  document.warnings = checkpoint.warnings;
  document.bytes = bytes;
  document.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return document;
}

}  // namespace msprobe::analysis::ckpt
