#include "src/analysis/accuracy/online/judge_call.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/tensor_record.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/analysis/accuracy/precision_compare/run.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/json/value_tree.h"
#include "src/report/writers.h"

namespace msprobe::analysis::accuracy {
namespace {

using json::ValueKind;
using json::ValueTree;

constexpr size_t kMostReceivedDepth = 10;
constexpr std::array<std::string_view, 4> kRunTypes = {"Functional", "Tensor", "Torch", "NPU"};

using ReceivedTensors = std::map<std::string_view, TensorView>;

ReceivedTensors TensorsOf(const online::Call& call) {
  ReceivedTensors tensors;
  for (const online::CallTensor& tensor : call.tensors) {
    TensorView view;
    view.dtype = tensor.dtype;
    view.shape = tensor.shape;
    view.strides = ContiguousStrides(tensor.shape);
    view.data = tensor.bytes.data();
    view.extent_bytes = tensor.bytes.size();
    tensors.emplace(tensor.name, std::move(view));
  }
  return tensors;
}

// What a record says of an output, as a worker's answer has it.
Result<OutputValue> ReceivedValue(const ValueTree& tree, uint32_t place,
                                  const ReceivedTensors& tensors, size_t depth) {
  if (depth > kMostReceivedDepth) {
    return BadFormatError("outputs are nested too deeply");
  }
  const json::ValueNode& node = tree[place];
  OutputValue value;
  const auto scalar = [&](std::string type, std::string text) {
    value.kind = OutputValue::Kind::kScalar;
    value.type = std::move(type);
    value.text = std::move(text);
    return value;
  };
  switch (node.kind) {
    case ValueKind::kNull:
      value.type = "NoneType";
      return value;
    case ValueKind::kBool:
      return scalar("bool", node.boolean ? "True" : "False");
    case ValueKind::kInt:
      return scalar("int", std::to_string(node.integer));
    case ValueKind::kFloat:
      return scalar("float", base::PythonFloatRepr(node.number));
    case ValueKind::kText:
      return scalar("str", std::string(node.text));
    case ValueKind::kList:
    case ValueKind::kObject:
      break;
  }
  if (IsTensorRecord(tree, place)) {
    const uint32_t name = tree.Find(place, "data_name");
    const auto found = name == ValueTree::kNone ? tensors.end() : tensors.find(tree[name].text);
    if (found == tensors.end()) {
      return NotFoundError("the values of an output were not sent");
    }
    value.kind = OutputValue::Kind::kTensor;
    value.type = "torch.Tensor";
    value.tensor = found->second;
    return value;
  }
  const uint32_t typed = node.kind == ValueKind::kObject ? tree.Find(place, "value") : 0;
  if (node.kind == ValueKind::kObject && typed != ValueTree::kNone &&
      tree.Find(place, "type") != ValueTree::kNone) {
    return ReceivedValue(tree, typed, tensors, depth + 1);
  }
  value.kind = node.kind == ValueKind::kList ? OutputValue::Kind::kList : OutputValue::Kind::kDict;
  value.type = node.kind == ValueKind::kList ? "list" : "dict";
  Status status;
  tree.ForEachChild(place, [&](uint32_t child) {
    if (!status.ok()) {
      return;
    }
    Result<OutputValue> item = ReceivedValue(tree, child, tensors, depth + 1);
    if (!item.ok()) {
      status = std::move(item).status();
      return;
    }
    if (node.kind == ValueKind::kObject) {
      value.keys.emplace_back(tree[child].key);
    }
    value.items.push_back(*std::move(item));
  });
  MSP_RETURN_IF_ERROR(status);
  return value;
}

// A record holds a list also where the operator gave one value back.
Result<OutputValue> ReceivedOutputs(const ValueTree& record, const ReceivedTensors& tensors,
                                    const OutputValue& like) {
  const uint32_t place = record.Find(0, "output");
  if (place == ValueTree::kNone || record[place].kind != ValueKind::kList) {
    return BadFormatError("the record has no list of outputs");
  }
  MSP_ASSIGN_OR_RETURN(OutputValue list, ReceivedValue(record, place, tensors, 0));
  const bool is_one = list.items.size() == 1 && like.kind != OutputValue::Kind::kList;
  if (is_one) {
    return std::move(list.items.front());
  }
  list.type = like.type;  // a tuple or a named one, which the record does not tell
  if (list.items.size() == 1 && list.items.front().kind == OutputValue::Kind::kList) {
    OutputValue inner = std::move(list.items.front());
    inner.type = like.type;
    return inner;
  }
  return list;
}

std::string CsvRow(const std::vector<std::string>& cells) {
  std::string text;
  const std::vector<std::string_view> views(cells.begin(), cells.end());
  report::AppendCsvRow(views, text);
  return text;
}

std::string CsvRows(const std::vector<DetailRow>& rows) {
  std::string text;
  for (const DetailRow& row : rows) {
    const std::vector<std::string_view> views(row.cells.begin(), row.cells.end());
    report::AppendCsvRow(views, text);
  }
  return text;
}

std::vector<DetailCells> CellsOf(const std::vector<DetailRow>& rows) {
  std::vector<DetailCells> cells(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].cells.begin(), rows[i].cells.end(), cells[i].begin());
  }
  return cells;
}

}  // namespace

JudgedCall CallJudge::Skipped(const std::string& name, const std::string& why) const {
  JudgedCall judged;
  judged.details =
      CsvRows({BlankDetailRow(name + ".forward.output.0", Outcome::kSkip, why, options_.version)});
  judged.result = CsvRow({name, "SKIP", std::string(kBlank), why});
  judged.message = FirstLine(why);
  return judged;
}

JudgedCall CallJudge::Judge(const online::Call& call, Worker& worker) const {
  if (const std::optional<std::string> why = maker_.WhyNot(call.name); why) {
    return Skipped(call.name, *why);
  }
  Result<JudgedCall> judged = TryToJudge(call, worker);
  return judged.ok() ? *std::move(judged) : Skipped(call.name, judged.status().message());
}

Result<JudgedCall> CallJudge::TryToJudge(const online::Call& call, Worker& worker) const {
  MSP_ASSIGN_OR_RETURN(const ValueTree record, json::ParseValueTree(call.record));
  const OperatorName name = *ParseOperatorName(call.name);
  // What a peer names is only ever an operator of the list, or one of the user's own.
  if (!base::IsOneOf(name.type, kRunTypes) && options_.reference_file.empty()) {
    return UnsupportedError(fmt::format("operators of type {} are not run", name.type));
  }
  if (name.type == "Aten") {
    return UnsupportedError("operators of type Aten are not run for a training");
  }
  if (name.api.find("dropout") != std::string_view::npos) {
    return UnsupportedError("which elements a dropout drops is drawn anew by every run");
  }
  MSP_RETURN_IF_ERROR(worker.Start());
  worker.arguments().Clear();
  const ReceivedTensors tensors = TensorsOf(call);
  const TensorSource source = [&tensors](std::string_view wanted) -> Result<TensorView> {
    const auto found = tensors.find(wanted);
    return found == tensors.end()
               ? Result<TensorView>(NotFoundError("the values of an argument were not sent"))
               : Result<TensorView>(found->second);
  };
  MSP_ASSIGN_OR_RETURN(const MadeCall made,
                       maker_.MakeReceived(call.name, record, source, worker.arguments()));
  MSP_ASSIGN_OR_RETURN(const WorkerAnswer answer, worker.Call(made.frame));
  if (answer.failed) {
    return UnsupportedError(answer.message);
  }
  MSP_ASSIGN_OR_RETURN(const OutputValue outputs, ReceivedOutputs(record, tensors, answer.device));
  OutputJudgeOptions judge;
  judge.version = options_.version;
  judge.decimals = options_.decimals;
  judge.strict = options_.strict;
  judge.has_float8_input = made.has_float8_input;
  const Standard standard = standards_.Of(name.api, {});
  const bool is_two_way = standard == Standard::kAbsolute || standard == Standard::kBinary ||
                          standard == Standard::kThousandth;
  JudgedCall judged;
  MSP_ASSIGN_OR_RETURN(const JudgedOutputs training,
                       JudgeOutputs(call.name, "forward", is_two_way ? answer.device : answer.bench,
                                    outputs, standards_, judge));
  judged.max_abs = training.max_abs;
  if (is_two_way) {
    judged.outcome = training.outcome;
    judged.details = CsvRows(training.rows);
    judged.result = CsvRow(
        {call.name,
         std::string(OutcomeText(training.outcome, options_.version == StandardVersion::k26)),
         std::string(kBlank)});
    for (const DetailRow& row : training.rows) {
      if (judged.message.empty() && row.outcome == Outcome::kError) {
        judged.message = FirstLine(row.cells[detail_column::kMessage]);
      }
    }
    return judged;
  }
  MSP_ASSIGN_OR_RETURN(const JudgedOutputs here, JudgeOutputs(call.name, "forward", answer.bench,
                                                              answer.device, standards_, judge));
  PrecisionOptions precision;
  precision.version = options_.version;
  precision.english = options_.english;
  precision.strict = options_.strict;
  precision.worst = 1;
  ComparedOperator compared =
      CompareOperator(CellsOf(training.rows), CellsOf(here.rows), standards_, precision);
  judged.precision_details = std::move(compared.details);
  judged.precision_result = std::move(compared.results);
  judged.outcome = compared.outcome;
  judged.message = std::move(compared.reason);
  return judged;
}

}  // namespace msprobe::analysis::accuracy
