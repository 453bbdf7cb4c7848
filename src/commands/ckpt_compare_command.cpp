#include "src/commands/ckpt_compare_command.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/analysis/ckpt/document.h"
#include "src/analysis/ckpt/run.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kNotes =
    R"(A parameter that cannot be read is marked, the others are compared, and the exit code is 3.

)";

}  // namespace

Result<ExitCode> CompareCheckpoints(const analysis::ckpt::Options& options,
                                    const AnswerFlags& flags, const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::ckpt::Comparison comparison, analysis::ckpt::Run(options));
  return GiveAnswer(analysis::ckpt::MakeDocument(comparison), flags, context);
}

std::vector<Positional> CkptCompareCommand::positionals() {
  return {
      {.name = "CKPT",
       .fills = &options_.path_a,
       .help = "The checkpoint under test: a Megatron, torch distributed or Hugging Face folder, "
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
       .help = "Compare optimizer states, too: tensors, learning rates, betas, steps"},
      {.name = "--allow-missing-ranks",
       .fills = &options_.open.allow_missing_ranks,
       .group = Group::kSelection,
       .help = "Compare what is there when ranks are missing, instead of failing"},
      {.name = "--mapping",
       .type = "FILE",
       .fills = &options_.mapping_file,
       .group = Group::kMethod,
       .help = "YAML of rules that translate names of one checkpoint to those of the other"},
      {.name = "--vocab-size",
       .type = "N",
       .fills = &options_.vocabulary,
       .bounds = kPositive,
       .group = Group::kMethod,
       .help = "Rows of the vocabulary: leaves padding of embeddings out"},
      {.name = "--num-attention-heads",
       .type = "N",
       .fills = &options_.attention_heads,
       .bounds = kPositive,
       .group = Group::kMethod,
       .help = "Heads of the model, where neither checkpoint records them"},
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
       .help = "Merge Megatron's shards exactly as the Python tool does, mistakes included"},
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
       .help = "Also write all figures beside the result, as NAME_details.FORMAT, several with "
               "commas"},
      {.name = "--unmatched",
       .type = "FILE",
       .fills = &options_.unmatched_file,
       .group = Group::kOutput,
       .help = "Also write the names without a partner, and why, to this JSON file"},
      {.name = "--strict-json",
       .fills = &options_.strict_json,
       .group = Group::kOutput,
       .help = "null in the result instead of NaN and Infinity, which are not JSON"},
      ForceFlag(),
      ThreadsFlag(options_.threads),
  };
  AddAnswerFlags(flags, answer_, analysis::ckpt::kGateLevels);
  return flags;
}

std::vector<Example> CkptCompareCommand::examples() const {
  return {
      {"msprobe ckpt_compare gpu/ckpt npu/ckpt -o similarity.json",
       "two Megatron checkpoints, whatever their TP, PP, VPP and EP sizes"},
      {"msprobe ckpt_compare megatron/ckpt llama-hf --vocab-size 32000",
       "Megatron against Hugging Face: names are translated, padding rows left out"},
      {"msprobe ckpt_compare step100.pt step200.safetensors --format xlsx",
       "state dicts in single files; with a workbook of all figures"},
      {"msprobe ckpt_compare gpu/ckpt npu/ckpt --format html",
       "a page for any browser: a map of layers by kinds of parameters, all figures to search and "
       "sort"},
      {"msprobe ckpt_compare before after --fail-on different -q",
       "in CI: exit code 1 when any parameter differs"},
  };
}

std::string CkptCompareCommand::notes() const {
  return kNotes + FailOnHelp(analysis::ckpt::kGateLevels);
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
  return CompareCheckpoints(options_, answer_, context);
}

}  // namespace msprobe::commands
