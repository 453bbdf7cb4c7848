// A small "training" that captures what it does, as a framework's hooks would: two steps of float32
// values, equal ones among them, the rank known from the second start on. Prints its loss, which no
// fault in the capture may change, and ends with exit code 5.
//
//   fault_training DUMP_PATH [RANK]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "msprobe/capture.h"

namespace {

constexpr int kExitCode = 5;
constexpr int kSteps = 2;
constexpr int kCalls = 3;
constexpr int64_t kElements = 48;

msprobe_text Text(std::string_view text) { return {text.data(), text.size()}; }

void PutTensor(msprobe_entry* entry, const float* data) {
  static const int64_t shape[] = {6, kElements / 6};
  msprobe_tensor tensor{};
  tensor.type = Text("torch.Tensor");
  tensor.dtype = Text("torch.float32");
  tensor.shape = shape;
  tensor.dimensions = 2;
  tensor.data = data;
  tensor.dtype_code = MSPROBE_FLOAT32;
  msprobe_put_tensor(entry, &tensor);
}

void Record(msprobe_capture* capture, std::string_view name, const float* input,
            const float* output) {
  msprobe_entry* const entry = msprobe_entry_begin(capture, Text(name));
  for (const auto& [member, segment, data] :
       {std::tuple("input_args", "input", input), std::tuple("output", "output", output)}) {
    msprobe_put_member(entry, Text(member), Text(segment));
    msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
    PutTensor(entry, data);
    msprobe_close(entry);
  }
  (void)msprobe_entry_commit(entry);
  (void)msprobe_capture_construct(capture, Text(name), nullptr);
  const msprobe_frame frame = {Text("train.py"), Text("step"), 1};
  uint32_t id = 0;
  if (msprobe_capture_stack(capture, &frame, 1, &id) == MSPROBE_OK) {
    (void)msprobe_capture_set_stack(capture, Text(name), id);
  }
}

// As the shim does: what goes wrong is told, and the training goes on.
void Start(msprobe_capture* capture, int64_t rank) {
  int outcome = MSPROBE_START_OFF;
  if (msprobe_capture_start(capture, rank, &outcome) != MSPROBE_OK) {
    std::fprintf(stderr, "%s\n", msprobe_last_error());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    return 2;
  }
  const int64_t rank = argc > 2 ? std::atoll(argv[2]) : 0;
  std::array<char, 1000> overrides{};  // this program allocates nothing: where memory is short, the
                                       // engine is to notice
  std::snprintf(overrides.data(), overrides.size(),
                R"({"task": "tensor", "level": "L1", "dump_path": "%s"})", argv[1]);
  msprobe_capture* capture = nullptr;
  if (msprobe_capture_open(Text(""), Text(overrides.data()), Text("pytorch"), &capture) !=
      MSPROBE_OK) {
    std::fprintf(stderr, "%s\n", msprobe_last_error());
    capture = nullptr;
  }
  std::array<float, kElements> weights{};
  std::array<float, kElements> values{};
  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (capture != nullptr) {
      Start(capture, step == 0 ? -1 : rank);
      if (step == 0) {
        Start(capture, rank);
      }
    }
    for (int call = 0; call < kCalls; ++call) {
      for (size_t i = 0; i < kElements; ++i) {
        weights[i] += 0.125F * static_cast<float>(i % 7) + 0.5F * static_cast<float>(step);
        values[i] = weights[i] * static_cast<float>(call + 1);
        loss += values[i];
      }
      if (capture != nullptr) {
        std::array<char, 40> name{};
        std::snprintf(name.data(), name.size(), "Functional.linear.%d.forward", call);
        (void)msprobe_capture_enter(capture, Text(name.data()));
        Record(capture, name.data(), weights.data(), call == 0 ? weights.data() : values.data());
        (void)msprobe_capture_leave(capture, Text(name.data()));
      }
    }
    if (capture != nullptr) {
      (void)msprobe_capture_step(capture);
    }
  }
  if (capture != nullptr) {
    msprobe_capture_close(capture);
  }
  std::printf("loss %.9f\n", loss);
  return kExitCode;
}
