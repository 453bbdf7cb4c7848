#include "src/dump/dump_writer.h"

#include <utility>
#include <vector>

namespace msprobe::dump {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20U;

void WriteScalar(const Node& node, json::Writer& json) {
  switch (node.kind) {
    case NodeKind::kBool:
      json.Bool(node.boolean);
      break;
    case NodeKind::kInt:
      json.Int(node.integer);
      break;
    case NodeKind::kFloat:
      if (node.text.empty()) {
        json.Float(node.number);
      } else {
        json.Raw(node.text);
      }
      break;
    case NodeKind::kText:
      json.Text(node.text);
      break;
    default:
      json.Null();
      break;
  }
}

// Without recursion: a file may nest deeper than the stack allows.
void WriteTree(const EntryTree& tree, json::Writer& json) {
  std::vector<uint32_t> open;  // containers around the next node
  for (uint32_t index = 0; index < tree.size(); ++index) {
    const Node& node = tree[index];
    if (!open.empty() && tree[open.back()].kind == NodeKind::kObject) {
      json.Key(node.key);
    }
    if (node.kind == NodeKind::kObject) {
      json.BeginObject();
      open.push_back(index);
    } else if (node.kind == NodeKind::kList) {
      json.BeginArray();
      open.push_back(index);
    } else {
      WriteScalar(node, json);
    }
    while (!open.empty() && tree[open.back()].end == index + 1) {
      if (tree[open.back()].kind == NodeKind::kObject) {
        json.EndObject();
      } else {
        json.EndArray();
      }
      open.pop_back();
    }
  }
}

}  // namespace

DumpWriter::DumpWriter(base::AtomicFile file)
    : file_(std::move(file)),
      buffer_(std::make_unique<std::string>()),
      json_(std::make_unique<json::Writer>(*buffer_, 1)) {}

Result<DumpWriter> DumpWriter::Create(const std::filesystem::path& path, const DumpHeader& header) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  DumpWriter writer(std::move(file));
  json::Writer& json = *writer.json_;
  json.BeginObject();
  const auto add_text = [&json](std::string_view key, const std::optional<std::string>& value) {
    if (value) {
      json.Member(key, *value);
    }
  };
  add_text("task", header.task);
  add_text("level", header.level);
  add_text("framework", header.framework);
  json.Key("dump_data_dir");
  if (header.dump_data_dir) {
    json.Text(*header.dump_data_dir);
  } else {
    json.Null();
  }
  for (const DumpHeader::Extra& extra : header.extras) {
    json.Key(extra.key);
    WriteTree(extra.value, json);
  }
  json.Key("data");
  json.BeginObject();
  return writer;
}

Status DumpWriter::FlushIfLarge() {
  if (buffer_->size() < kFlushBytes) {
    return {};
  }
  MSP_RETURN_IF_ERROR(file_.Write(*buffer_));
  buffer_->clear();
  return {};
}

Status DumpWriter::Add(std::string_view name, const EntryTree& entry) {
  json_->Key(name);
  WriteTree(entry, *json_);
  return FlushIfLarge();
}

Status DumpWriter::Commit() {
  json_->EndObject();
  json_->EndObject();
  MSP_RETURN_IF_ERROR(file_.Write(*buffer_));
  buffer_->clear();
  return file_.Commit();
}

}  // namespace msprobe::dump
