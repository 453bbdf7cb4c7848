// Walks the values of a pickle and lists the tensors and plain values in it under the path that
// leads to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "msprobe/status.h"

#include "src/io/contents.h"
#include "src/io/pickle_value.h"
#include "src/io/torch_rebuild.h"

namespace msprobe::io {

// Pickle values in words, for people.

struct PickleDescription {
  std::string type;  // "int", "torch.Size", the name of a class
  std::string text;  // at most about 200 characters
};

// None, bool, numbers, text, bytes, globals.
bool IsPlainPickleValue(const Pickle& pickle, PickleId id);
// Objects that say everything in one line: torch.Size, torch.device, enum members, complex and
// numpy scalars, BytesIO.
bool IsSmallPickleObject(const Pickle& pickle, PickleId id);
// Any value; containers show their first items, objects their class.
PickleDescription DescribePickleValue(const Pickle& pickle, PickleId id);
// `key` as an element of a tensor's path: text as it is (made valid UTF-8, shortened beyond 1000
// bytes), others described.
std::string PickleKeyText(const Pickle& pickle, PickleId key);

// Warns once about every suspicious global that the pickle names.
void WarnAboutGlobals(const Pickle& pickle, std::vector<std::string>& warnings);

// For TorchScript: the names of the parameters and buffers of every class of modules, by the dotted
// name of the class.
using ModuleMembers = std::unordered_map<std::string, std::unordered_set<std::string>>;

class PickleLister {
 public:
  // Appends to `contents`; the views borrow from `pickle` and from what `storages` finds. With
  // `members` other tensors of objects of these classes are marked as attributes.
  PickleLister(const Pickle& pickle, StorageSource& storages, TensorFileContents& contents,
               const ModuleMembers* members = nullptr);

  // Shared values are listed under each of their names as long as that stays in proportion; cycles
  // and values deeper than 1000 levels are skipped with a warning. Fails only when the list of
  // names would grow out of all proportion.
  Status Run();

 private:
  struct Child {
    PickleId value;
    PickleId key;  // kNoPickleValue: named by `name`, or by `index` when that is empty
    uint32_t index;
    uint32_t depth;
    std::string_view name;
    bool in_dicts = false;      // it, and all containers around it, are values of dicts
    bool is_attribute = false;  // it, or what it lies in, is not a parameter, buffer or module
  };

  void EnterPath(const Child& child);
  Status Visit(const Child& child);
  bool MayDescend(PickleId id, uint32_t depth);
  // How many values are looked at to list this one, about.
  uint64_t ListedValues(PickleId id) const;
  void PushItems(PickleId container, uint32_t depth);
  void PushDict(PickleId dict, uint32_t depth);
  void PushObject(PickleId id, uint32_t depth);
  void PushState(PickleId state, uint32_t depth);
  void MarkAttributes(PickleId object, size_t first);
  Status AddTensor(NamedTensor tensor);
  void AddScalar(PickleId id);
  void AddQuantization(const Quantization& quantization);
  Status ChargePath();
  void WarnOnce(std::string_view text);

  const Pickle& pickle_;
  TensorRebuilder rebuilder_;
  TensorFileContents& contents_;
  const ModuleMembers* const members_;
  std::vector<Child> pending_;        // depth first; the next one is last
  std::vector<std::string> path_;     // of the value being visited
  std::vector<PickleId> containers_;  // the containers around it, one per level
  std::vector<uint8_t> marks_;        // per value: seen before, on the current path
  std::unordered_map<const Quantization*, std::string> quantization_texts_;
  uint64_t path_bytes_left_;
  uint64_t repeats_left_;
  size_t scalars_left_;
};

}  // namespace msprobe::io
