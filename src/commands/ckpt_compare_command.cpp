#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/ckpt/ckpt.h"
#include "src/analysis/ckpt/document.h"
#include "src/analysis/ckpt/result.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe ckpt_compare: two checkpoints of any kind, and which parameters differ.

class CkptCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "ckpt_compare"; }
  std::string_view summary() const override {
    return "Compare two checkpoints and name the parameters that differ";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::ckpt::Options options_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
};

constexpr const char* kCkptCompareNotes =
    R"(If a parameter cannot be read, it is marked, the others are compared, and the exit code is 3.

)";

std::vector<Positional> CkptCompareCommand::positionals() {
  return {{.name = "CKPT",
           .fills = &options_.path_a,
           .help = "The checkpoint under test: a Megatron, DeepSpeed, torch distributed or Hugging "
                   "Face folder, "
                   "or one .pt, .bin, .safetensors, .npz or MindSpore .ckpt file",
           .required = true},
          {.name = "REFERENCE",
           .fills = &options_.path_b,
           .help = "The checkpoint to compare it with, of any kind",
           .required = true}};
}

std::vector<Flag> CkptCompareCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--optimizer",
       .fills = &options_.open.optimizer,
       .group = Group::kSelection,
       .help = "Also compare optimizer states: tensors, learning rates, betas, steps"},
      {.name = "--allow-missing-ranks",
       .fills = &options_.open.allow_missing_ranks,
       .group = Group::kSelection,
       .help = "If ranks are missing, compare the others instead of failing"},
      {.name = "--mapping",
       .type = "FILE",
       .fills = &options_.mapping_file,
       .group = Group::kMethod,
       .help = "YAML file with rules that translate names of one checkpoint to those of the other"},
      {.name = "--suggest-mapping",
       .type = "FILE",
       .fills = &options_.draft_file,
       .group = Group::kMethod,
       .help = "Write a draft of such rules, made from parameters of other names whose elements "
               "are equal"},
      {.name = "--vocab-size",
       .type = "N",
       .fills = &options_.vocabulary,
       .bounds = kPositive,
       .group = Group::kMethod,
       .help = "Size of the vocabulary; rows of embeddings beyond it are padding and ignored"},
      {.name = "--num-attention-heads",
       .type = "N",
       .fills = &options_.attention_heads,
       .bounds = kPositive,
       .group = Group::kMethod,
       .help = "Attention heads of the model, if neither checkpoint records them"},
      {.name = "--num-query-groups",
       .type = "N",
       .fills = &options_.query_groups,
       .bounds = kPositive,
       .group = Group::kMethod,
       .help = "Key/value heads of the model, if fewer than attention heads"},
      {.name = "--rtol",
       .type = "R",
       .fills = &options_.tolerance.relative,
       .bounds = kNotNegative,
       .group = Group::kMethod,
       .help = "Elements agree when |a - b| <= ATOL + RTOL * |b|; b is of REFERENCE"},
      {.name = "--atol",
       .type = "A",
       .fills = &options_.tolerance.absolute,
       .bounds = kNotNegative,
       .group = Group::kMethod,
       .help = "See --rtol"},
      {.name = "--compat",
       .fills = &options_.open.compatible_merge,
       .group = Group::kMethod,
       .help = "Merge Megatron shards exactly as the Python tool does, including its bugs"},
      {.name = "--output",
       .letter = "-o",
       .aliases = {"--output_path"},
       .type = "FILE",
       .fills = &options_.output,
       .group = Group::kOutput,
       .help = "The result file",
       .since = kPython811},
      {.name = "--format",
       .type = "LIST",
       .fills = &formats_,
       .values = {"json", "xlsx", "csv", "html"},
       .separator = ',',
       .group = Group::kOutput,
       .help = "Also write all metrics, as NAME_details.FORMAT beside the result; comma-separated "
               "list"},
      {.name = "--unmatched",
       .type = "FILE",
       .fills = &options_.unmatched_file,
       .group = Group::kOutput,
       .help = "Also write the unmatched names, with reasons, to this JSON file"},
      {.name = "--strict-json",
       .fills = &options_.strict_json,
       .group = Group::kOutput,
       .help = "Write null instead of NaN and Infinity, which strict JSON does not allow"},
      ForceFlag(),
      ThreadsFlag(options_.threads),
  };
  AddAnswerFlags(flags, answer_, analysis::ckpt::kGateLevels);
  return flags;
}

std::vector<Example> CkptCompareCommand::examples() const {
  return {
      {"msprobe ckpt_compare gpu/ckpt npu/ckpt -o similarity.json",
       "two Megatron checkpoints of any TP, PP, VPP and EP sizes"},
      {"msprobe ckpt_compare megatron/ckpt llama-hf --vocab-size 32000",
       "Megatron against Hugging Face: names are translated, padding rows are ignored"},
      {"msprobe ckpt_compare step100.pt step200.safetensors --format xlsx",
       "state dicts in single files, with a workbook of all metrics"},
      {"msprobe ckpt_compare gpu/ckpt npu/ckpt --format html",
       "a page for any browser: a map of layers by kinds of parameters, all metrics to search and "
       "sort"},
      {"msprobe ckpt_compare before after --fail-on different -q",
       "in CI: exit code 1 when any parameter differs"},
  };
}

std::string CkptCompareCommand::notes() const {
  return kCkptCompareNotes + FailOnHelp(analysis::ckpt::kGateLevels);
}

Result<ExitCode> CkptCompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  const auto wants = [&](const char* format) {
    return std::find(formats_.begin(), formats_.end(), format) != formats_.end();
  };
  options_.write_json = wants("json");
  options_.write_xlsx = wants("xlsx");
  options_.write_csv = wants("csv");
  options_.write_html = wants("html");
  options_.quiet = context.quiet;
  options_.float32_figures = options_.open.compatible_merge;
  MSP_ASSIGN_OR_RETURN(const analysis::ckpt::Comparison comparison, analysis::ckpt::Run(options_));
  return GiveAnswer(analysis::ckpt::MakeDocument(comparison), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeCkptCompare() { return std::make_unique<CkptCompareCommand>(); }

}  // namespace msprobe::commands
