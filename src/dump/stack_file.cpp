#include "src/dump/stack_file.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/json_source.h"
#include "src/dump/names.h"
#include "src/json/stream_reader.h"

namespace msprobe::dump {
namespace {

constexpr std::string_view kLastMicroStep = "megatron_micro_step_number";

Status ReadMembers(const std::filesystem::path& path, std::string_view text,
                   MemberStream::Visit visit) {
  if (text.empty()) {
    return BadFormatError(fmt::format("cannot read {}: the file is empty", path.string()));
  }
  MemberStream quick(visit);
  if (ReadQuickly(text, quick) || !quick.status().ok()) {
    return Status(quick.status()).AddContext("cannot read " + path.string());
  }
  MemberStream stream(std::move(visit));
  Status parsed = json::ParseStream(text, stream);
  MSP_RETURN_IF_ERROR(stream.status(), "cannot read ", path.string());
  return std::move(parsed).AddContext("cannot read " + path.string());
}

// Truth as Python defines it: the newer layout is recognised by it.
bool IsTruthy(const EntryTree& value) {
  const Node& top = value[0];
  switch (top.kind) {
    case NodeKind::kNull:
      return false;
    case NodeKind::kBool:
      return top.boolean;
    case NodeKind::kInt:
    case NodeKind::kFloat:
      return top.number != 0;
    case NodeKind::kText:
      return !top.text.empty();
    default:
      return top.child_count > 0;
  }
}

Result<std::vector<std::string>> Frames(const EntryTree& value, uint32_t list,
                                        std::string_view key) {
  if (value[list].kind != NodeKind::kList) {
    return BadFormatError(fmt::format("\"{}\": a stack must be a list of frames", key));
  }
  std::vector<std::string> frames;
  frames.reserve(value[list].child_count);
  value.ForEachChild(list, [&value, &frames](uint32_t child) {
    if (value[child].kind == NodeKind::kText) {
      frames.emplace_back(value[child].text);
    }
  });
  return frames;
}

}  // namespace

Result<StackFile> StackFile::Read(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const internal::JsonSource file, internal::JsonSource::Open(path));
  StackFile stacks;
  // In files of the newer layout "0" is the first key, so that this pass ends at once.
  MSP_RETURN_IF_ERROR(ReadMembers(
      path, file.text(), [&stacks](std::string_view key, const EntryTree& value) -> Result<bool> {
        stacks.grouped_layout_ = key == "0" && IsTruthy(value);
        return !stacks.grouped_layout_;
      }));
  MSP_RETURN_IF_ERROR(ReadMembers(
      path, file.text(), [&](std::string_view key, const EntryTree& value) -> Result<bool> {
        const auto index = static_cast<uint32_t>(stacks.stacks_.size());
        if (!stacks.grouped_layout_) {
          MSP_ASSIGN_OR_RETURN(std::vector<std::string> frames, Frames(value, 0, key));
          stacks.stacks_.push_back(std::move(frames));
          stacks.Add(key, index);
          return true;
        }
        if (value[0].kind != NodeKind::kList || value[0].child_count != 2 ||
            value[1].kind != NodeKind::kList) {
          return true;
        }
        MSP_ASSIGN_OR_RETURN(std::vector<std::string> frames, Frames(value, value[1].end, key));
        stacks.stacks_.push_back(std::move(frames));
        value.ForEachChild(1, [&](uint32_t child) {
          if (value[child].kind == NodeKind::kText) {
            stacks.Add(value[child].text, index);
          }
        });
        return true;
      }));
  return stacks;
}

void StackFile::Add(std::string_view name, uint32_t stack) {
  const auto next = static_cast<uint32_t>(calls_.size());
  const uint32_t call =
      call_of_name_.FindOrAdd(std::hash<std::string_view>()(name), next,
                              [&](uint32_t known) { return calls_[known].name == name; });
  if (call == next) {
    calls_.push_back({names_->Keep(name), stack});
  } else {
    calls_[call].stack = stack;
  }
}

void StackFile::AddCall(std::string_view name, std::vector<std::string> frames) {
  stacks_.push_back(std::move(frames));
  Add(name, static_cast<uint32_t>(stacks_.size() - 1));
}

const std::vector<std::string>* StackFile::Find(std::string_view name) const {
  const uint32_t call =
      call_of_name_.Find(std::hash<std::string_view>()(name),
                         [&](uint32_t known) { return calls_[known].name == name; });
  return call == base::HashIndex::kNone ? nullptr : &stacks_[calls_[call].stack];
}

Result<ConstructFile> ConstructFile::Read(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const internal::JsonSource file, internal::JsonSource::Open(path));
  ConstructFile construct;
  std::string_view last_parent;
  MSP_RETURN_IF_ERROR(ReadMembers(
      path, file.text(), [&](std::string_view key, const EntryTree& value) -> Result<bool> {
        const Node& top = value[0];
        if (key == kLastMicroStep && top.kind == NodeKind::kInt) {
          construct.last_micro_step_ = top.integer;
          return true;
        }
        const bool is_list = top.kind == NodeKind::kList && top.child_count > 0;
        const Node& parent = is_list ? value[1] : top;
        if (parent.kind != NodeKind::kText && parent.kind != NodeKind::kNull) {
          return true;
        }
        std::vector<Member>& members = construct.members_;
        const auto next = static_cast<uint32_t>(members.size());
        const uint32_t place = construct.place_of_name_.FindOrAdd(
            std::hash<std::string_view>()(key), next,
            [&](uint32_t known) { return members[known].name == key; });
        if (place == next) {
          members.emplace_back().name = construct.texts_->Keep(key);
        }
        Member& member = members[place];
        // Calls of one module follow each other.
        if (last_parent != parent.text) {
          last_parent = construct.texts_->Keep(parent.text);
        }
        member.parent = last_parent;
        member.micro_step.reset();
        if (is_list && top.child_count > 1 && value[parent.end].kind == NodeKind::kInt) {
          member.micro_step = value[parent.end].integer;
        }
        return true;
      }));
  return construct;
}

void ConstructFile::AddName(std::string_view name, std::string_view parent) {
  const auto next = static_cast<uint32_t>(members_.size());
  const uint32_t place =
      place_of_name_.FindOrAdd(std::hash<std::string_view>()(name), next,
                               [&](uint32_t known) { return members_[known].name == name; });
  if (place == next) {
    Member& member = members_.emplace_back();
    member.name = texts_->Keep(name);
    member.parent = texts_->Keep(parent);
  }
}

const ConstructFile::Member* ConstructFile::Find(std::string_view name) const {
  const uint32_t place =
      place_of_name_.Find(std::hash<std::string_view>()(name),
                          [&](uint32_t known) { return members_[known].name == name; });
  return place == base::HashIndex::kNone ? nullptr : &members_[place];
}

std::string_view ConstructFile::ParentOf(std::string_view name) const {
  const Member* member = Find(name);
  return member == nullptr ? std::string_view() : member->parent;
}

namespace {

constexpr std::array<std::string_view, 8> kForeignFiles = {
    "site-packages/", "dist-packages/", "/torch/",       "/torch_npu/",
    "/mindspore/",    "/msprobe/",      "/lib/python3.", "File <"};
constexpr std::array<std::string_view, 3> kCallers = {", in _call_impl", ", in __call__",
                                                      ", in _wrapped_call_impl"};

bool HoldsAny(std::string_view text, std::span<const std::string_view> marks) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
  });
}

}  // namespace

std::string FrameInOneLine(std::string_view frame) {
  const size_t line = frame.find(", line ");
  const size_t in = line == std::string_view::npos ? line : frame.find(", in ", line);
  if (!frame.starts_with("File ") || in == std::string_view::npos) {
    return base::ReplaceAll(frame, "\n", " ");
  }
  const std::string_view path = frame.substr(5, line - 5);
  const std::string_view number = frame.substr(line + 7, in - line - 7);
  std::string_view function = frame.substr(in + 5);
  std::string_view code;
  if (const size_t comma = function.find(','); comma != std::string_view::npos) {
    code = base::Trim(function.substr(comma + 1));
    function = function.substr(0, comma);
  }
  std::string text;
  text.append(path).append(":").append(number).append(" in ").append(base::Trim(function));
  if (!code.empty()) {
    text.append(": ").append(base::ReplaceAll(code, "\n", " "));
  }
  return text;
}

bool IsUserFrame(std::string_view frame) {
  return !HoldsAny(frame.substr(0, frame.find(", line")), kForeignFiles) &&
         !HoldsAny(frame, kCallers);
}

std::vector<std::string> UserFrames(const std::vector<std::string>& frames) {
  std::vector<std::string> own;
  std::copy_if(frames.begin(), frames.end(), std::back_inserter(own), IsUserFrame);
  return own.empty() ? frames : own;
}

std::string UserCodeLine(const std::vector<std::string>& frames) {
  if (frames.empty()) {
    return {};
  }
  const auto own = std::find_if(frames.begin(), frames.end(), IsUserFrame);
  return FrameInOneLine(own == frames.end() ? frames.front() : *own);
}

std::string LayerText(const EntryName& entry) {
  if (!entry.is_module && !entry.is_parameters_grad) {
    return {};
  }
  std::string layer(entry.subject);
  if (!entry.class_name.empty()) {
    layer.append(" (").append(entry.class_name).append(")");
  }
  return layer;
}

}  // namespace msprobe::dump
