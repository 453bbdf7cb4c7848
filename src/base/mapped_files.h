// Files that shrink while they are mapped: the system answers a look behind their new end with
// SIGBUS. Here it becomes zeros and an error of that file.
#pragma once

#include <cstddef>
#include <span>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::base {

// For programs of ours only: signals of a training belong to the training. Without it the functions
// below know of no file.
void GuardMappedFiles();

// FileBytes tells of its mappings. Thread-safe, as all here.
void AddMappedFile(std::span<const std::byte> bytes, const Path& path);
void RemoveMappedFile(std::span<const std::byte> bytes);

// Whether the file that `part` is mapped from still has all its bytes: asked behind a computation
// whose result counts for one file. The file is then told.
Status CheckMappedFile(std::span<const std::byte> part);

// The same for all files mapped so far, but those that CheckMappedFile told. Asked before a result
// gets its final name, and before the program ends.
Status CheckMappedFiles();

}  // namespace msprobe::base
