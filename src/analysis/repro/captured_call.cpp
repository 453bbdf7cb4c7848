#include "src/analysis/repro/captured_call.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/repro/entry_json.h"
#include "src/base/files.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_tree.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/json/document.h"
#include "src/kernels/stats.h"

namespace msprobe::analysis::repro {
namespace {

// An expanded view of a few bytes can claim terabytes.
constexpr size_t kMostTensorBytes = size_t{1} << 34U;

Result<HeldTensor> LoadTensor(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  if (tensor->quantization != nullptr) {
    return UnsupportedError("a quantised tensor");
  }
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer buffer,
                       tensor::MakeContiguous(tensor->view, kMostTensorBytes));
  return std::make_shared<const tensor::TensorBuffer>(std::move(buffer));
}

void Walk(
    const Json& value, const Json::json_pointer& place, const std::string& name,
    const std::function<void(const Json&, const Json::json_pointer&, const std::string&)>& visit) {
  if (IsTensorRecord(value)) {
    visit(value, place, name);
    return;
  }
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      Walk(value[i], place / i, fmt::format("{}{}{}", name, name.empty() ? "" : ".", i), visit);
    }
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      Walk(item, place / key, name.empty() ? key : name + "." + key, visit);
    }
  }
}

// The file that holds a tensor from now on: of the same name, in a format that can hold its dtype.
std::string FileFor(const std::string& data_name, DType dtype) {
  std::filesystem::path path(data_name);
  const bool npy = path.extension() == ".npy" && dtype != DType::kBFloat16 &&
                   !(GetDTypeInfo(dtype).kind == DTypeKind::kFloat && DTypeSize(dtype) == 1);
  return path.replace_extension(npy ? ".npy" : ".pt").string();
}

void SetStatistics(Json& leaf, const TensorView& view) {
  const kernels::TensorStats stats = kernels::ComputeStats(view.dtype, view.bytes());
  leaf["shape"] = view.shape;
  const bool has_values = view.element_count() > 0;
  for (const auto& [key, number] : {std::pair("Max", stats.max), std::pair("Min", stats.min),
                                    std::pair("Mean", stats.mean), std::pair("Norm", stats.norm)}) {
    if (leaf.contains(key)) {
      leaf[key] = has_values ? Json(number) : Json();
    }
  }
}

Result<dump::EntryTree> TreeOf(const Json& entry) {
  return dump::ParseEntry(json::DocumentText(entry, -1, json::Writer::NonFinite::kPython));
}

}  // namespace

std::string CapturedCall::forward_name() const {
  return dump::WithDirection(name, dump::Direction::kForward);
}

uint64_t CapturedCall::element_count() const {
  uint64_t count = 0;
  for (const auto& [file, tensor] : tensors) {
    count += static_cast<uint64_t>(tensor->view().element_count());
  }
  return count;
}

std::vector<TensorLeaf> LeavesOf(const CapturedCall& call) {
  std::vector<TensorLeaf> leaves;
  for (const auto& [entry, value] : call.entries.items()) {
    const bool is_gradients = dump::ParseEntryName(entry).is_parameters_grad;
    for (const auto& [member, items] : value.items()) {
      const std::string root = is_gradients ? "parameters_grad." + member : member;
      Walk(items, Json::json_pointer() / entry / member, root,
           [&, &entry = entry, &member = member](const Json& leaf, const Json::json_pointer& place,
                                                 const std::string& name) {
             TensorLeaf& found = leaves.emplace_back();
             found.entry = entry;
             found.place = place;
             // The lists below parameters_grad have one item each, which is not named.
             found.name = is_gradients ? root : name;
             found.data_name = leaf.contains("data_name") && leaf["data_name"].is_string()
                                   ? leaf["data_name"].get<std::string>()
                                   : "";
             if (call.tensors.count(found.data_name) == 0) {
               found.data_name.clear();
             }
             for (const Json& size : leaf["shape"]) {
               found.shape.push_back(size.is_number_integer() ? size.get<int64_t>() : 0);
             }
             found.is_result = is_gradients || (entry == call.name && member == "output");
           });
    }
  }
  return leaves;
}

Result<CapturedCall> ReadCall(const recheck::DumpEntries& dump, const std::string& name) {
  CapturedCall call;
  call.name = name;
  call.framework = dump.framework();
  call.remarks = dump.RemarksOf(name);
  call.entries = Json::object();
  std::vector<std::string> names = {call.forward_name()};
  if (call.is_backward()) {
    names.push_back(name);
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (parsed.is_module) {
      const std::string module = recheck::ModuleOf(parsed);
      if (dump.Has(module + ".parameters_grad") && !dump.Has(module + ".forward.1")) {
        names.push_back(module + ".parameters_grad");
      }
    }
  }
  for (const std::string& entry : names) {
    MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, dump.Read(entry));
    MSP_ASSIGN_OR_RETURN(call.entries[entry], EntryJson(tree), entry);
    if (!call.entries[entry].is_object()) {
      return BadFormatError(fmt::format("{} is not an object", entry));
    }
  }
  std::map<std::string, Result<HeldTensor>> loaded;  // a file once, however many places name it
  for (auto& [entry, value] : call.entries.items()) {
    Walk(value, Json::json_pointer() / entry, "",
         [&](const Json& leaf, const Json::json_pointer& place, const std::string&) {
           const auto file = leaf.find("data_name");
           if (file == leaf.end() || !file->is_string()) {
             return;
           }
           const std::string data_name = file->get<std::string>();
           Json& record = call.entries[place];
           if (!dump::CheckDataName(data_name).ok()) {
             record["data_name"] = "-1";
             return;
           }
           auto known = loaded.find(data_name);
           if (known == loaded.end()) {
             known = loaded.emplace(data_name, LoadTensor(dump.tensor_folder() / data_name)).first;
           }
           const Result<HeldTensor>& tensor = known->second;
           if (!tensor.ok() || Json((*tensor)->view().shape) != leaf["shape"]) {
             record["data_name"] = "-1";
             return;
           }
           const std::string held = FileFor(data_name, (*tensor)->view().dtype);
           record["data_name"] = held;
           call.tensors[held] = *tensor;
         });
  }
  return call;
}

Result<recheck::CallVerdict> Recheck(const CapturedCall& call, base::ThreadPool& pool) {
  recheck::RecordedCall recorded;
  recorded.name = call.name;
  recorded.tensors = [&](std::string_view data_name) -> Result<reference::Value> {
    const auto tensor = call.tensors.find(std::string(data_name));
    return tensor == call.tensors.end() ? Result<reference::Value>(NotFoundError("no such tensor"))
                                        : reference::ValueOf(tensor->second->view());
  };
  std::vector<dump::EntryTree> trees;
  for (const auto& [entry, value] : call.entries.items()) {
    MSP_ASSIGN_OR_RETURN(dump::EntryTree tree, TreeOf(value));
    trees.push_back(std::move(tree));
  }
  recorded.remarks = call.remarks;
  recorded.forward = &trees[0];
  if (!call.is_backward()) {
    return recheck::RecheckForward(recorded, recheck::Precision(), pool);
  }
  recorded.backward = &trees[1];
  recorded.parameters_grad = trees.size() > 2 ? &trees[2] : nullptr;
  return recheck::RecheckBackward(recorded, recheck::Precision(), pool);
}

// The remarks, as a manifest has them.
Status WriteRemarks(const CapturedCall& call, const std::filesystem::path& folder) {
  if (call.remarks.alteration.empty() && call.remarks.own_gradients.empty()) {
    return {};
  }
  const std::string module = recheck::ModuleOf(dump::ParseEntryName(call.name));
  Json manifest = {{"complete", true}};
  if (!call.remarks.alteration.empty()) {
    manifest["altered_modules"][module] = call.remarks.alteration;
  }
  for (const std::string& parameter : call.remarks.own_gradients) {
    manifest["own_gradients"].push_back(fmt::format("{}.{}", module, parameter));
  }
  return base::WriteFileAtomically(
      folder / dump::kManifestFileName,
      json::DocumentText(manifest, 1, json::Writer::NonFinite::kText) + '\n');
}

Status WriteDump(const CapturedCall& call, const std::filesystem::path& folder) {
  const std::filesystem::path tensors = folder / dump::kTensorFolderName;
  MSP_RETURN_IF_ERROR(base::CreateFolders(tensors));
  for (const auto& [file, tensor] : call.tensors) {
    const TensorView view = tensor->view();
    MSP_RETURN_IF_ERROR(file.ends_with(".npy") ? WriteNpyFile(tensors / file, view)
                                               : WritePtFile(tensors / file, view));
  }
  Json document = {{"task", "tensor"}, {"level", "L1"}};
  if (!call.framework.empty()) {
    document["framework"] = call.framework;
  }
  document["dump_data_dir"] = dump::kTensorFolderName;
  Json& data = document["data"] = call.entries;
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    if (!leaf.data_name.empty()) {
      SetStatistics(data[leaf.place], call.tensors.at(leaf.data_name)->view());
    }
  }
  MSP_RETURN_IF_ERROR(WriteRemarks(call, folder));
  return base::WriteFileAtomically(
      folder / dump::kDumpFileName,
      json::DocumentText(document, 1, json::Writer::NonFinite::kPython) + '\n');
}

}  // namespace msprobe::analysis::repro
