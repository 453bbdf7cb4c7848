#include "src/grad_probe/file_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "src/base/threads.h"
#include "src/io/tensor_output.h"
#include "src/io/zip_writer.h"

namespace msprobe::grad_probe {
namespace {

Status Write(const NewFile& file) {
  const base::NoFileSizeSignal no_signal;
  MSP_ASSIGN_OR_RETURN(base::AtomicFile out,
                       base::AtomicFile::Create(file.path, base::Existing::kReplace));
  if (file.shape_member.empty()) {
    MSP_RETURN_IF_ERROR(io::WriteParts(out, file.head, file.data, {}));
    return out.Commit();
  }
  io::ZipWriter zip(out);
  std::string bits = file.head;
  bits.append(reinterpret_cast<const char*>(file.data.data()), file.data.size());
  MSP_RETURN_IF_ERROR(zip.AddStored("bits.npy", bits));
  MSP_RETURN_IF_ERROR(zip.AddStored("shape.npy", file.shape_member));
  MSP_RETURN_IF_ERROR(zip.Finish());
  return out.Commit();
}

// Memory that runs out is an error like a full disk.
Status TryWrite(const NewFile& file) {
  try {
    return Write(file);
  } catch (const std::bad_alloc&) {
    return IoError("no memory to write " + file.path.string());
  }
}

}  // namespace

struct FileQueue::State {
  explicit State(uint64_t most) : most_waiting_bytes(most) {}

  const uint64_t most_waiting_bytes;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<NewFile> files;
  uint64_t waiting_bytes = 0;  // with the file that is being written
  bool ends = false;
  bool writes = false;
  Status error;
  std::thread thread;

  void Note(Status status) {
    if (!status.ok() && error.ok()) {
      error = std::move(status);
    }
  }

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ends || !files.empty(); });
      if (files.empty()) {
        return;
      }
      const NewFile file = std::move(files.front());
      files.pop_front();
      writes = true;
      lock.unlock();
      Status status = TryWrite(file);
      lock.lock();
      writes = false;
      waiting_bytes -= file.bytes();
      Note(std::move(status));
      changed.notify_all();
    }
  }
};

FileQueue::FileQueue(uint64_t most_waiting_bytes)
    : state_(std::make_unique<State>(most_waiting_bytes)) {}

FileQueue::~FileQueue() {
  if (state_ == nullptr) {
    return;
  }
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

void FileQueue::Add(NewFile file) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.thread.joinable()) {
    Result<std::thread> started = base::StartBackgroundThread([&state] { state.Run(); });
    if (!started.ok()) {
      state.Note(TryWrite(file));
      return;
    }
    state.thread = *std::move(started);
  }
  state.changed.wait(lock, [&] {
    return state.waiting_bytes == 0 ||
           state.waiting_bytes + file.bytes() <= state.most_waiting_bytes;
  });
  state.waiting_bytes += file.bytes();
  state.files.push_back(std::move(file));
  state.changed.notify_all();
}

Status FileQueue::Flush() {
  {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->files.empty() && !state_->writes; });
  }
  return TakeError();
}

Status FileQueue::TakeError() {
  const std::scoped_lock lock(state_->mutex);
  return std::exchange(state_->error, Status());
}

void FileQueue::Abandon() {
  static_cast<void>(state_.release());  // its mutex and thread are not ours to touch
  state_ = std::make_unique<State>(0);
}

}  // namespace msprobe::grad_probe
