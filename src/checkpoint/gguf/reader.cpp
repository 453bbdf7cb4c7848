// Parameters of GGUF files under the names and in the layout of Hugging Face's models. The
// converter renames them, stacks the experts of a layer, and for models of LLaMA's kind puts the
// rows of queries and keys in another order, pairs of a rotation side by side; taken back by moving
// views. To the norms of Gemma it adds one, which is taken off where they are compared.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/common/readers.h"
#include "src/checkpoint/common/state_dict.h"
#include "src/io/coded/coded_tensor.h"
#include "src/io/contents.h"

namespace msprobe::checkpoint {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};
constexpr NamePair kModelNames[] = {{"token_embd.", "model.embed_tokens."},
                                    {"output_norm.", "model.norm."},
                                    {"output.", "lm_head."},
                                    {"position_embd.", "model.embed_positions."},
                                    {"token_embd_norm.", "model.embed_norm."}};
// Behind "blk.N.": those that begin with another come first.
constexpr NamePair kLayerNames[] = {
    {"attn_q_norm.", "self_attn.q_norm."},
    {"attn_k_norm.", "self_attn.k_norm."},
    {"attn_q_a_norm.", "self_attn.q_a_layernorm."},
    {"attn_kv_a_norm.", "self_attn.kv_a_layernorm."},
    {"attn_q_a.", "self_attn.q_a_proj."},
    {"attn_q_b.", "self_attn.q_b_proj."},
    {"attn_kv_a_mqa.", "self_attn.kv_a_proj_with_mqa."},
    {"attn_kv_b.", "self_attn.kv_b_proj."},
    {"attn_qkv.", "self_attn.qkv_proj."},
    {"attn_q.", "self_attn.q_proj."},
    {"attn_k.", "self_attn.k_proj."},
    {"attn_v.", "self_attn.v_proj."},
    {"attn_output.", "self_attn.o_proj."},
    {"attn_sinks.", "self_attn.sinks."},
    {"attn_norm.", "input_layernorm."},
    {"post_attention_norm.", "post_attention_layernorm."},
    {"post_ffw_norm.", "post_feedforward_layernorm."},
    {"ffn_norm.", "post_attention_layernorm."},
    {"ffn_gate_inp_shexp.", "mlp.shared_expert_gate."},
    {"ffn_gate_inp.", "mlp.gate."},
    {"ffn_gate_shexp.", "mlp.shared_expert.gate_proj."},
    {"ffn_up_shexp.", "mlp.shared_expert.up_proj."},
    {"ffn_down_shexp.", "mlp.shared_expert.down_proj."},
    {"ffn_gate.", "mlp.gate_proj."},
    {"ffn_up.", "mlp.up_proj."},
    {"ffn_down.", "mlp.down_proj."},
    {"exp_probs_b.", "mlp.gate.e_score_correction_"},
};
// Stacked experts: each becomes a parameter of its own.
constexpr NamePair kExpertNames[] = {{"ffn_gate_exps.", "gate_proj."},
                                     {"ffn_up_exps.", "up_proj."},
                                     {"ffn_down_exps.", "down_proj."}};

// Architectures whose converter reorders the rows of queries and keys.
constexpr std::string_view kReordered[] = {"llama",   "deci",      "granite", "granitemoe",
                                           "minicpm", "internlm2", "xverse",  "baichuan",
                                           "arcee",   "smollm3",   "olmo",    "deepseek"};

// Architectures whose converter adds one to the weights of norms.
constexpr std::string_view kNormsOfOneMore[] = {"gemma", "gemma2", "gemma3"};
// Architectures that have norms both in front of attention and MLP and after them.
constexpr std::string_view kFourNorms[] = {"gemma2", "gemma3", "gemma3n"};

// Float32 numbers to which one was added: what is left when it is taken off, and how far the sum
// was rounded.
class LessOne final : public io::CodedTensor {
 public:
  LessOne(Shape shape, std::span<const std::byte> stored)
      : CodedTensor(std::move(shape), "f32"), stored_(stored) {}

  void DecodeFrom(const ReadCodes* /*read*/, int64_t first, size_t count, DType /*partner*/,
                  float* values, float* bounds) const override {
    for (size_t i = 0; i < count; ++i) {
      const auto place = (static_cast<size_t>(first) + i) * sizeof(float);
      const auto sum = std::bit_cast<float>(io::LoadLittle<uint32_t>(stored_.data() + place));
      values[i] = sum - 1;
      if (bounds != nullptr) {
        const int exponent = sum == 0 || !std::isfinite(sum) ? -126 : std::ilogb(sum);
        bounds[i] = std::ldexp(1.F, exponent - 24) + std::fabs(values[i]) * 0x1p-24F;
      }
    }
  }
  uint64_t stored_bytes() const override { return stored_.size(); }

 private:
  std::span<const std::byte> stored_;
};

// Numbers of the metadata, "llama.attention.head_count".
class Metadata {
 public:
  explicit Metadata(std::span<const NamedScalar> scalars) : scalars_(scalars) {
    architecture_ = Text("general.architecture");
  }

  const std::string& architecture() const { return architecture_; }
  std::string Text(std::string_view key) const {
    for (const NamedScalar& scalar : scalars_) {
      if (scalar.path.size() == 1 && scalar.path.front() == key) {
        return scalar.text;
      }
    }
    return "";
  }
  std::optional<int64_t> Number(std::string_view key) const {
    const std::optional<int64_t> number = base::ParseInt(Text(architecture_ + std::string(key)));
    return number && *number > 0 ? number : std::nullopt;
  }

 private:
  std::span<const NamedScalar> scalars_;
  std::string architecture_;
};

ModelFacts FactsOf(const Metadata& metadata) {
  ModelFacts facts;
  facts.architecture = metadata.architecture();
  facts.layers = metadata.Number(".block_count");
  facts.attention_heads = metadata.Number(".attention.head_count");
  facts.query_groups = metadata.Number(".attention.head_count_kv");
  facts.head_size = metadata.Number(".attention.key_length");
  facts.hidden_size = metadata.Number(".embedding_length");
  facts.experts = metadata.Number(".expert_count");
  facts.vocabulary = metadata.Number(".vocab_size");
  return facts;
}

// Rows [half][pair] of each head from rows [pair][half]: pieces with every second row.
Result<Parameter> InOrder(const Parameter& parameter, int64_t heads) {
  const int64_t rows = parameter.shape.empty() ? 0 : parameter.shape[0];
  if (parameter.pieces.size() != 1 || heads <= 0 || rows % (2 * heads) != 0) {
    return MismatchError(fmt::format("the {} rows of {} cannot be divided into {} heads", rows,
                                     parameter.name, heads));
  }
  const int64_t half = rows / heads / 2;
  const Piece& whole = parameter.pieces.front();
  Parameter result = parameter;
  result.pieces.clear();
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t part = 0; part < 2; ++part) {
      Piece piece = whole;
      piece.Advance((head * 2 * half + part) * whole.view.strides[0]);
      piece.offset[0] = (head * 2 + part) * half;
      piece.view.shape[0] = half;
      piece.view.strides[0] = 2 * whole.view.strides[0];
      result.pieces.push_back(std::move(piece));
    }
  }
  return result;
}

class Namer {
 public:
  Namer(const ModelFacts& facts, Checkpoint& checkpoint) : facts_(facts), checkpoint_(checkpoint) {
    reorders_ = base::IsOneOf(facts.architecture, kReordered);
    norms_are_one_more_ = base::IsOneOf(facts.architecture, kNormsOfOneMore);
    has_four_norms_ = base::IsOneOf(facts.architecture, kFourNorms);
  }

  void Add(Parameter parameter) {
    constexpr std::string_view kLayer = "blk.";
    const std::string stored = parameter.name;
    if (norms_are_one_more_ && stored.ends_with("norm.weight")) {
      TakeOneOff(parameter);
    }
    if (!stored.starts_with(kLayer)) {
      for (const NamePair& name : kModelNames) {
        if (stored.starts_with(name.gguf)) {
          parameter.name = std::string(name.hugging_face) + stored.substr(name.gguf.size());
          break;
        }
      }
      checkpoint_.parameters.push_back(std::move(parameter));
      return;
    }
    const size_t dot = stored.find('.', kLayer.size());
    const std::string layer = "model.layers." + stored.substr(kLayer.size(), dot - kLayer.size());
    const std::string rest = dot == std::string::npos ? "" : stored.substr(dot + 1);
    for (const NamePair& name : kExpertNames) {
      if (rest.starts_with(name.gguf)) {
        AddExperts(parameter, layer, name, rest.substr(name.gguf.size()));
        return;
      }
    }
    for (const NamePair& name : kLayerNames) {
      if (rest.starts_with(name.gguf)) {
        const bool is_in_front = has_four_norms_ && name.gguf == "ffn_norm.";
        parameter.name =
            layer + "." +
            std::string(is_in_front ? "pre_feedforward_layernorm." : name.hugging_face) +
            rest.substr(name.gguf.size());
        break;
      }
    }
    const bool is_query = rest.starts_with("attn_q.");
    if (reorders_ && parameter.status.ok() && (is_query || rest.starts_with("attn_k."))) {
      const int64_t heads =
          (is_query ? facts_.attention_heads
                    : (facts_.query_groups ? facts_.query_groups : facts_.attention_heads))
              .value_or(0);
      Result<Parameter> ordered = InOrder(parameter, heads);
      if (ordered.ok()) {
        parameter = *std::move(ordered);
      } else {
        parameter.status = ordered.status();
        parameter.pieces.clear();
      }
    }
    checkpoint_.parameters.push_back(std::move(parameter));
  }

 private:
  // The converter writes these norms in float32; other dtypes are left as they are.
  static void TakeOneOff(Parameter& parameter) {
    if (!parameter.status.ok() || parameter.pieces.size() != 1 ||
        parameter.pieces.front().coded != nullptr || parameter.dtype != DType::kFloat32 ||
        !parameter.pieces.front().view.is_plain()) {
      return;
    }
    const std::vector<std::string> notes = parameter.notes;
    parameter = MakeParameter(
        parameter.name,
        std::make_shared<LessOne>(parameter.shape, parameter.pieces.front().view.bytes()));
    parameter.notes = notes;
    parameter.notes.emplace_back("the converter added 1, which was taken off");
  }

  void AddExperts(const Parameter& stacked, const std::string& layer, const NamePair& name,
                  const std::string& rest) {
    constexpr int64_t kMostExperts = 4096;
    if (!stacked.status.ok() || stacked.shape.size() < 2 || stacked.shape[0] > kMostExperts) {
      checkpoint_.parameters.push_back(stacked);
      return;
    }
    for (int64_t expert = 0; expert < stacked.shape[0]; ++expert) {
      Result<Parameter> one = Select(stacked, expert);
      if (!one.ok()) {
        continue;
      }
      one->name = fmt::format("{}.mlp.experts.{}.{}{}", layer, expert, name.hugging_face, rest);
      checkpoint_.parameters.push_back(*std::move(one));
    }
  }

  const ModelFacts& facts_;
  Checkpoint& checkpoint_;
  bool reorders_ = false;
  bool norms_are_one_more_ = false;
  bool has_four_norms_ = false;
};

}  // namespace

Status AddGgufParameters(Checkpoint& checkpoint) {
  checkpoint.kind = Kind::kGguf;
  for (const TensorFile& file : checkpoint.files) {
    const Metadata metadata(file.scalars());
    if (!metadata.architecture().empty()) {
      checkpoint.facts = FactsOf(metadata);
      break;
    }
  }
  Namer namer(checkpoint.facts, checkpoint);
  io::ReadBudget memory = io::ReadBudget::ForMemory(0);
  for (size_t number = 0; number < checkpoint.files.size(); ++number) {
    for (const NamedTensor& tensor : checkpoint.files[number].tensors()) {
      Parameter parameter = MakeStateEntry(tensor, number, memory).parameter;
      parameter.name = tensor.name();
      namer.Add(std::move(parameter));
    }
  }
  std::vector<std::string> names;
  for (const Parameter& parameter : checkpoint.parameters) {
    names.push_back(parameter.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return BadFormatError(fmt::format("two tensors are called {}", *twice));
  }
  return {};
}

namespace {

constexpr std::string_view kSuffix = ".gguf";

// "model-00002-of-00005.gguf" -> "model-" and "-of-00005.gguf"; empty for a file that is whole.
std::pair<std::string, std::string> SplitName(std::string_view name) {
  const size_t of = name.rfind("-of-");
  const size_t dash =
      of == std::string_view::npos || of == 0 ? std::string_view::npos : name.rfind('-', of - 1);
  if (dash == std::string_view::npos || !name.ends_with(kSuffix) ||
      !base::ParseInt(name.substr(dash + 1, of - dash - 1))) {
    return {};
  }
  return {std::string(name.substr(0, dash + 1)), std::string(name.substr(of))};
}

}  // namespace

std::vector<std::string> GgufFilesIn(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  for (std::string& name : base::NamesIn(folder)) {
    if (name.ends_with(kSuffix)) {
      found.push_back(std::move(name));
    }
  }
  std::sort(found.begin(), found.end());
  const bool are_parts = !found.empty() && std::all_of(found.begin(), found.end(), [&](auto& name) {
    return !SplitName(name).first.empty() && SplitName(name) == SplitName(found.front());
  });
  return found.size() == 1 || are_parts ? found : std::vector<std::string>();
}

Result<Checkpoint> OpenGguf(const std::filesystem::path& folder,
                            std::span<const std::string> files) {
  Checkpoint checkpoint;
  checkpoint.path = folder;
  for (const std::string& name : files) {
    TensorFile::Options options;
    options.gather_slices = false;
    MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(folder / name, options));
    if (file.format() != TensorFileFormat::kGguf) {
      return BadFormatError(fmt::format("{}: no GGUF file", (folder / name).native()));
    }
    checkpoint.warnings.insert(checkpoint.warnings.end(), file.warnings().begin(),
                               file.warnings().end());
    checkpoint.files.push_back(std::move(file));
  }
  const std::optional<int64_t> count =
      files.size() > 1 || !SplitName(files.front()).first.empty()
          ? base::ParseInt(base::ReplaceAll(
                base::ReplaceAll(SplitName(files.front()).second, "-of-", ""), ".gguf", ""))
          : std::nullopt;
  if (count && static_cast<size_t>(*count) != files.size()) {
    return NotFoundError(fmt::format("{}: {} of {} parts of a GGUF model are there",
                                     folder.native(), files.size(), *count));
  }
  MSP_RETURN_IF_ERROR(AddGgufParameters(checkpoint), folder.native());
  return checkpoint;
}

}  // namespace msprobe::checkpoint
