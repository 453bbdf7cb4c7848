#include "src/dump/dump_writer.h"

#include <utility>

#include "src/json/value_text.h"

namespace msprobe::dump {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20U;

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
    json::WriteTree(extra.value, 0, json);
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
  json::WriteTree(entry, 0, *json_);
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
