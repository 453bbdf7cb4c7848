#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/ckpt/ckpt.h"
#include "src/analysis/ckpt/document.h"
#include "src/analysis/ckpt/result.h"
#include "src/base/strings.h"
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
  FlagTable flags() override;
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
  return {Argument("CKPT", &options_.path_a,
                   "The checkpoint under test: a Megatron, DeepSpeed, torch distributed or Hugging "
                   "Face folder, "
                   "or one .pt, .bin, .safetensors, .npz or MindSpore .ckpt file",
                   kRequired),
          Argument("REFERENCE", &options_.path_b, "The checkpoint to compare it with, of any kind",
                   kRequired)};
}

FlagTable CkptCompareCommand::flags() {
  return {
      Group::kSelection,
      Switch("--optimizer", &options_.open.optimizer,
             "Also compare optimizer states: tensors, learning rates, betas, steps"),
      Switch("--allow-missing-ranks", &options_.open.allow_missing_ranks,
             "If ranks are missing, compare the others instead of failing"),
      Group::kMethod,
      Path("--mapping", "FILE", &options_.mapping_file,
           "YAML file with rules that translate names of one checkpoint to those of the other"),
      Path("--suggest-mapping", "FILE", &options_.draft_file,
           "Write a draft of such rules, made from parameters of other names whose elements "
           "are equal"),
      Number("--vocab-size", "N", &options_.vocabulary,
             "Size of the vocabulary; rows of embeddings beyond it are padding and ignored",
             kPositive),
      Number("--num-attention-heads", "N", &options_.attention_heads,
             "Attention heads of the model, if neither checkpoint records them", kPositive),
      Number("--num-query-groups", "N", &options_.query_groups,
             "Key/value heads of the model, if fewer than attention heads", kPositive),
      Number("--rtol", "R", &options_.tolerance.relative,
             "Elements agree when |a - b| <= ATOL + RTOL * |b|; b is of REFERENCE", kNotNegative),
      Number("--atol", "A", &options_.tolerance.absolute, "See --rtol", kNotNegative),
      Switch("--compat", &options_.open.compatible_merge,
             "Merge Megatron shards exactly as the Python tool does, including its bugs"),
      Group::kOutput,
      Path("--output -o --output_path", "FILE", &options_.output, "The result file", kPython811),
      Choice("--format", "LIST", &formats_, {"json", "xlsx", "csv", "html"},
             "Also write all metrics, as NAME_details.FORMAT beside the result; comma-separated "
             "list",
             kSeparatedByCommas),
      Path("--unmatched", "FILE", &options_.unmatched_file,
           "Also write the unmatched names, with reasons, to this JSON file"),
      Switch("--strict-json", &options_.strict_json,
             "Write null instead of NaN and Infinity, which strict JSON does not allow"),
      ForceFlag(),
      ThreadsFlag(options_.threads),
      AnswerRows(answer_, analysis::ckpt::kGateLevels),
  };
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
  options_.write_json = base::IsOneOf("json", formats_);
  options_.write_xlsx = base::IsOneOf("xlsx", formats_);
  options_.write_csv = base::IsOneOf("csv", formats_);
  options_.write_html = base::IsOneOf("html", formats_);
  options_.quiet = context.quiet;
  options_.float32_figures = options_.open.compatible_merge;
  MSP_ASSIGN_OR_RETURN(const analysis::ckpt::Comparison comparison, analysis::ckpt::Run(options_));
  OwnForms own;
  own.page = comparison.page;
  return GiveAnswer(analysis::ckpt::MakeDocument(comparison), answer_, context, own);
}

}  // namespace

std::unique_ptr<Command> MakeCkptCompare() { return std::make_unique<CkptCompareCommand>(); }

}  // namespace msprobe::commands
