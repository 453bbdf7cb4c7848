#include "src/commands/ckpt_compare_command.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/analysis/ckpt/answer.h"
#include "src/analysis/ckpt/run.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe ckpt_compare gpu/ckpt npu/ckpt -o similarity.json
      two Megatron checkpoints, whatever their TP, PP, VPP and EP sizes
  msprobe ckpt_compare megatron/ckpt llama-hf --vocab-size 32000
      Megatron against Hugging Face: names are translated, padding rows left out
  msprobe ckpt_compare step100.pt step200.safetensors --format xlsx
      state dicts in single files; with a workbook of all figures
  msprobe ckpt_compare gpu/ckpt npu/ckpt --format html
      a page for any browser: a map of layers by kinds of parameters, all figures to search and sort
  msprobe ckpt_compare before after --fail-on different -q
      in CI: exit code 1 when any parameter differs

A parameter that cannot be read is marked, the others are compared, and the exit code is 3.

)";

}  // namespace

Result<ExitCode> CompareCheckpoints(const analysis::ckpt::Options& options,
                                    const AnswerFlags& flags, const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::ckpt::Comparison comparison,
                       analysis::ckpt::RunComparison(options));
  return GiveAnswer(analysis::ckpt::MakeDocument(comparison), flags, context);
}

void CkptCompareCommand::Configure(CLI::App& app) {
  app.add_option("CKPT1", options_.path_a,
                 "A Megatron, torch distributed or Hugging Face folder, or one .pt, .bin, "
                 ".safetensors, .npz or MindSpore .ckpt file")
      ->type_name("")
      ->required();
  app.add_option("CKPT2", options_.path_b, "The checkpoint to compare with, of any kind")
      ->type_name("")
      ->required();
  app.add_option("-o,--output_path", options_.output,
                 "The result file (default: ./ckpt_similarity.json)")
      ->type_name("FILE");
  AddForceFlag(app);
  app.add_option("--format", formats_,
                 "Also write all figures beside the result, as NAME_details.FORMAT: json, xlsx, "
                 "csv, html; several with commas")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(CLI::IsMember({"json", "xlsx", "csv", "html"}));
  app.add_option("--unmatched", options_.unmatched_file,
                 "Also write the names without a partner, and why, to this JSON file")
      ->type_name("FILE");
  app.add_flag("--strict-json", options_.strict_json,
               "null in the result instead of NaN and Infinity, which are not JSON");
  app.add_option("--mapping", options_.mapping_file,
                 "YAML of rules that translate names of one checkpoint to those of the other")
      ->type_name("FILE");
  app.add_option("--vocab-size", options_.vocabulary,
                 "Rows of the vocabulary: leaves padding of embeddings out")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--num-attention-heads", options_.attention_heads,
                 "Heads of the model, where neither checkpoint records them")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--num-query-groups", options_.query_groups,
                 "Key/value heads of the model, if fewer than attention heads")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_flag("--optimizer", options_.open.optimizer,
               "Compare optimizer states, too: tensors, learning rates, betas, steps");
  app.add_flag("--allow-missing-ranks", options_.open.allow_missing_ranks,
               "Compare what is there when ranks are missing, instead of failing");
  app.add_flag("--compat", options_.open.compatible_merge,
               "Merge Megatron's shards exactly as the Python tool does, mistakes included");
  app.add_option("--rtol", options_.tolerance.relative,
                 "Elements agree when |a - b| <= ATOL + RTOL * |b|; b is of CKPT2 (default 0)")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--atol", options_.tolerance.absolute, "See --rtol (default 0)")
      ->type_name("A")
      ->check(CLI::NonNegativeNumber);
  AddAnswerFlags(app, answer_, analysis::ckpt::kGateLevels);
  AddThreadsFlag(app, options_.threads);
  app.footer(kExamples + FailOnHelp(analysis::ckpt::kGateLevels));
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
