#include "src/capture/tensor_files.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/layout.h"
#include "src/io/tensor_output.h"
#include "src/kernels/crc32.h"

namespace msprobe::capture {
namespace {

bool IsAccepted(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

// Made when the library is loaded: where memory has run out, none is left for a message.
const Status kNoMemoryForFile = InternalError("no memory to write it");

}  // namespace

base::Patience PatienceForBytes(std::chrono::seconds patience) {
  constexpr uint64_t kSlowestBytesPerSecond = 4'000'000;
  return [patience](uint64_t bytes) {
    return patience + std::chrono::seconds(bytes / kSlowestBytesPerSecond);
  };
}

std::string TensorFileName(std::string_view path, TensorFileKind kind) {
  const std::string_view suffix = kind == TensorFileKind::kPt ? ".pt" : ".npy";
  const bool accepted = !path.empty() && path.front() != '.' &&
                        path.size() + suffix.size() <= base::kLongestNameBytes &&
                        std::all_of(path.begin(), path.end(), IsAccepted);
  std::string name;
  if (accepted) {
    name.reserve(path.size() + suffix.size());
    name += path;
  } else {
    const std::string mark = fmt::format("-{:08x}", kernels::Crc32(path));
    name = path.substr(0, base::kLongestNameBytes - suffix.size() - mark.size());
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !IsAccepted(c); }, '_');
    if (name.empty() || name.front() == '.') {
      name.insert(0, "_");
      name.resize(std::min(name.size(), base::kLongestNameBytes - suffix.size() - mark.size()));
    }
    name += mark;
  }
  name += suffix;
  return name;
}

ContentKey KeyOf(const TensorView& plain_view) {
  const auto bytes = plain_view.bytes();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {{hash.low64, hash.high64}, plain_view.dtype, plain_view.shape};
}

DuplicateTable::Answer DuplicateTable::Find(const ContentKey& key, const std::string& name,
                                            uint64_t ticket, Original& original) {
  Original own = {name, ticket};  // before the table: an entry without its name is of no use
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = states_.try_emplace(key);
  State& state = found->second;
  if (is_new) {
    state.original = std::move(own);
    return Answer::kFirst;
  }
  if (!state.is_written) {
    state.waiting.push_back({name, ticket});
    return Answer::kLeft;
  }
  original = state.original;
  return Answer::kKnown;
}

std::vector<DuplicateTable::Waiting> DuplicateTable::Written(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(key);
  if (found == states_.end()) {
    return {};
  }
  found->second.is_written = true;
  return std::exchange(found->second.waiting, {});
}

std::vector<DuplicateTable::Waiting> DuplicateTable::Forget(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(key);
  if (found == states_.end()) {
    return {};
  }
  std::vector<Waiting> waiting = std::move(found->second.waiting);
  states_.erase(found);
  return waiting;
}

TensorFiles::TensorFiles(Options options, std::shared_ptr<Totals> totals, OnLost on_lost)
    : options_(std::move(options)), totals_(std::move(totals)), on_lost_(std::move(on_lost)) {}

uint64_t TensorFiles::Announce(const std::string& name, size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  NameState& state = names_[name];  // nothing has changed where this throws
  state.latest_ticket = ++last_ticket_;
  outstanding_.TryTake(size_bytes + 1);
  return last_ticket_;
}

void TensorFiles::Lose(const std::string& name, size_t size_bytes, const Status& why) noexcept {
  Finish(name, size_bytes, why);
}

void TensorFiles::LoseForMemory(const std::string& name, size_t size_bytes) noexcept {
  Finish(name, size_bytes, kNoMemoryForFile);
}

void TensorFiles::LoseUnannounced() noexcept {
  ++totals_->lost_files;
  const std::lock_guard lock(mutex_);
  ++counts_.lost;
}

void TensorFiles::Write(const std::string& name, uint64_t ticket, const TensorView& view,
                        std::optional<uint32_t> data_crc32) noexcept {
  if (!options_.deduplicate || view.size_bytes() < options_.deduplicate_from_bytes ||
      !view.is_plain()) {
    WriteAndFinish(name, ticket, view, data_crc32);
    return;
  }
  try {
    Status status;
    if (WriteDeduplicated(name, ticket, view, data_crc32, status) == End::kOwn) {
      Finish(name, view.size_bytes(), status);
    }
  } catch (const std::bad_alloc&) {
    LoseForMemory(name, view.size_bytes());
  }
}

TensorFiles::End TensorFiles::WriteDeduplicated(const std::string& name, uint64_t ticket,
                                                const TensorView& view,
                                                std::optional<uint32_t> data_crc32,
                                                Status& status) {
  const ContentKey key = KeyOf(view);
  // An original that cannot be linked is forgotten, and this one takes its place.
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    DuplicateTable::Original original;
    switch (duplicates_.Find(key, name, ticket, original)) {
      case DuplicateTable::Answer::kLeft:
        return End::kLeft;
      case DuplicateTable::Answer::kKnown: {
        if (LinkFile(original, name, ticket, view.size_bytes())) {
          return End::kOwn;
        }
        for (const DuplicateTable::Waiting& waiting : duplicates_.Forget(key)) {
          WriteAndFinish(waiting.name, waiting.ticket, view, data_crc32);
        }
        break;
      }
      case DuplicateTable::Answer::kFirst: {
        const DuplicateTable::Original own = {name, ticket};
        bool written = false;
        try {
          status = WriteFile(name, ticket, view, data_crc32);
          written = status.ok();
        } catch (const std::bad_alloc&) {
          // No other thread completes the names that were left with this one.
          for (const DuplicateTable::Waiting& waiting : duplicates_.Forget(key)) {
            WriteAndFinish(waiting.name, waiting.ticket, view, data_crc32);
          }
          throw;
        }
        for (const DuplicateTable::Waiting& waiting :
             written ? duplicates_.Written(key) : duplicates_.Forget(key)) {
          if (LinkFile(own, waiting.name, waiting.ticket, view.size_bytes())) {
            Finish(waiting.name, view.size_bytes(), {});
          } else {
            WriteAndFinish(waiting.name, waiting.ticket, view, data_crc32);
          }
        }
        return End::kOwn;
      }
    }
  }
  status = WriteFile(name, ticket, view, data_crc32);
  return End::kOwn;
}

void TensorFiles::WriteAndFinish(const std::string& name, uint64_t ticket, const TensorView& view,
                                 std::optional<uint32_t> data_crc32) noexcept {
  try {
    Finish(name, view.size_bytes(), WriteFile(name, ticket, view, data_crc32));
  } catch (const std::bad_alloc&) {  // of WriteFile
    LoseForMemory(name, view.size_bytes());
  }
}

Status TensorFiles::WriteFile(const std::string& name, uint64_t ticket, const TensorView& view,
                              std::optional<uint32_t> data_crc32) {
  base::Path path;
  {
    const std::lock_guard lock(mutex_);
    if (!IsLatest(name, ticket)) {
      return {};
    }
    MSP_ASSIGN_OR_RETURN(path, PlaceOf(name));
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(options_.kind == TensorFileKind::kPt ? io::WritePtTo(file, view, data_crc32)
                                                           : io::WriteNpyTo(file, view));
  MSP_RETURN_IF_ERROR(file.Close());
  // Under the lock, so that an earlier tensor cannot arrive after a later one.
  const std::lock_guard lock(mutex_);
  if (!IsLatest(name, ticket)) {
    return {};
  }
  MSP_RETURN_IF_ERROR(file.Commit());
  CountFile(name, view.size_bytes());
  counts_.written_bytes += file.size_bytes();
  totals_->written_bytes += file.size_bytes();
  return {};
}

bool TensorFiles::LinkFile(const DuplicateTable::Original& original, const std::string& name,
                           uint64_t ticket, size_t size_bytes) noexcept {
  try {
    return TryToLinkFile(original, name, ticket, size_bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool TensorFiles::TryToLinkFile(const DuplicateTable::Original& original, const std::string& name,
                                uint64_t ticket, size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (!IsLatest(name, ticket)) {
    return true;
  }
  if (!IsLatest(original.name, original.ticket)) {
    return false;
  }
  const Result<base::Path> from = PlaceOf(original.name);
  const Result<base::Path> to = PlaceOf(name);
  if (!from.ok() || !to.ok()) {
    return false;
  }
  if (names_[name].exists) {
    // A link cannot replace a file; a renamed one can.
    const base::Path temporary =
        to->parent_path() / fmt::format(".msprobe-{}-link-{}.tmp", ::getpid(), ticket);
    if (::link(from->c_str(), temporary.c_str()) != 0) {
      return false;
    }
    if (::rename(temporary.c_str(), to->c_str()) != 0) {
      ::unlink(temporary.c_str());
      return false;
    }
  } else if (::link(from->c_str(), to->c_str()) != 0) {
    return false;
  }
  CountFile(name, size_bytes);
  ++counts_.deduplicated;
  ++totals_->deduplicated_files;
  return true;
}

Result<base::Path> TensorFiles::PlaceOf(const std::string& name) const {
  const std::string_view folder_name = dump::TensorFolderOf(name);
  const base::Path folder = options_.rank_folder / folder_name;
  // dump_tensor_data was made with the rank's folder; the other one exists where it holds files.
  if (folder_name != dump::kTensorFolderName) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  }
  return folder / name;
}

bool TensorFiles::IsLatest(const std::string& name, uint64_t ticket) const {
  const auto found = names_.find(name);
  return found != names_.end() && found->second.latest_ticket == ticket;
}

void TensorFiles::CountFile(const std::string& name, size_t size_bytes) {
  if (std::exchange(names_[name].exists, true)) {
    return;
  }
  ++counts_.files;
  counts_.bytes += size_bytes;
  ++totals_->tensor_files;
  totals_->tensor_bytes += size_bytes;
}

void TensorFiles::Finish(const std::string& name, size_t size_bytes,
                         const Status& status) noexcept {
  if (!status.ok()) {
    ++totals_->lost_files;
    try {
      on_lost_(name, status);
    } catch (const std::bad_alloc&) {  // it is counted; there is no memory to tell it
    }
  }
  {
    const std::lock_guard lock(mutex_);
    counts_.lost += status.ok() ? 0 : 1;
  }
  outstanding_.GiveBack(size_bytes + 1);
}

bool TensorFiles::WaitIdle(std::chrono::seconds patience) {
  return outstanding_.WaitUntilUnused(PatienceForBytes(patience));
}

TensorFileCounts TensorFiles::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void TensorFiles::SetFolder(base::Path rank_folder) {
  const std::lock_guard lock(mutex_);
  options_.rank_folder = std::move(rank_folder);
}

namespace {

// Smaller tensors live on the heap, which keeps its pages; page-aligned buffers would waste memory.
constexpr size_t kLargeFromBytes = size_t{64} << 10U;

TensorView ViewOfJob(TensorJob& job) {
  TensorView view;
  view.dtype = job.dtype;
  view.strides = ContiguousStrides(job.shape);
  view.shape = std::move(job.shape);
  view.data = job.memory.bytes().data();
  view.extent_bytes = job.memory.bytes().size();
  return view;
}

void WriteOrLose(TensorJob& job) noexcept {
  const base::NoFileSizeSignal guard;
  TensorView view;
  try {
    view = ViewOfJob(job);
  } catch (const std::bad_alloc&) {
    job.files->LoseForMemory(job.name, job.memory.bytes().size());
    return;
  }
  job.files->Write(job.name, job.ticket, view, job.data_crc32);
}

}  // namespace

TensorMemory& TensorMemory::operator=(TensorMemory&& other) noexcept {
  if (this != &other) {
    Release();
    owner_ = std::move(other.owner_);
    small_ = std::move(other.small_);
    large_ = std::move(other.large_);
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void TensorMemory::Release() {
  if (owner_ != nullptr) {
    small_.reset();
    large_ = {};
    owner_->memory_.GiveBack(size_bytes_);
    owner_.reset();
  }
  data_ = nullptr;
}

void TensorJob::Submit(TensorWriters& writers) noexcept {
  try {
    ticket = files->Announce(name, memory.bytes().size());
  } catch (const std::bad_alloc&) {
    files->LoseUnannounced();
    return;
  }
  writers.Submit(std::move(*this));
}

void WriteWithoutCopy(const TensorJob& job, const TensorView& view, bool may_write,
                      const TensorWriters& writers) {
  const size_t size_bytes = view.size_bytes();
  const Status why =
      may_write ? Status()
                : IoError(fmt::format("no room for a copy of {} (writer_memory_bytes is {})",
                                      base::FormatBytes(size_bytes), writers.memory_bytes()));
  const uint64_t ticket = job.files->Announce(job.name, size_bytes);  // from here on: no exception
  if (may_write) {
    job.files->Write(job.name, ticket, view, std::nullopt);
    return;
  }
  job.files->Lose(job.name, size_bytes, why);
}

TensorWriters::TensorWriters(size_t threads, uint64_t memory_bytes)
    : memory_(memory_bytes),
      pool_(static_cast<size_t>(memory_bytes / 2)),
      queue_({.threads = threads}, WriteOrLose) {}

TensorMemory TensorWriters::MakeMemory(size_t size_bytes) {
  TensorMemory memory;
  memory.size_bytes_ = size_bytes;
  if (size_bytes < kLargeFromBytes) {
    memory.small_.reset(new (std::nothrow) std::byte[std::max<size_t>(size_bytes, 1)]);
    memory.data_ = memory.small_.get();
  } else {
    memory.large_ = pool_.Take(size_bytes);
    memory.data_ = memory.large_.data();
  }
  if (memory.data_ == nullptr) {
    memory_.GiveBack(size_bytes);
    return {};
  }
  memory.owner_ = shared_from_this();
  return memory;
}

TensorMemory TensorWriters::Take(size_t size_bytes, std::chrono::seconds patience) {
  return memory_.Take(size_bytes, PatienceForBytes(patience)) ? MakeMemory(size_bytes)
                                                              : TensorMemory();
}

TensorMemory TensorWriters::TakeWithin(size_t size_bytes, std::chrono::milliseconds patience) {
  return memory_.TakeUntil(size_bytes, std::chrono::steady_clock::now() + patience)
             ? MakeMemory(size_bytes)
             : TensorMemory();
}

void TensorWriters::Submit(TensorJob job) noexcept {
  if (queue_.TryAdd(job, job.memory.bytes().size()) == decltype(queue_)::Added::kRefused) {
    WriteOrLose(job);
  }
}

void TensorWriters::Shutdown(std::chrono::seconds patience) {
  queue_.StopWithin(PatienceForBytes(patience));
}

}  // namespace msprobe::capture
