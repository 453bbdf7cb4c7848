/* A program in C that uses the whole of the capture library: captures tensors of every dtype, watches them
 * with the monitor, and asks for the statistics of single ones. What it writes and prints depends on nothing
 * but its arguments: capture_files_test.py compares that of two machines.
 *
 *   capture_program SETTINGS_JSON [kill]     `kill`: ends by SIGKILL in the middle of the second step
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "msprobe/capture.h"
#include "msprobe/monitor.h"

enum { kRows = 30, kColumns = 40, kElements = kRows * kColumns, kDtypes = 19 };

static const struct {
  const char* name;
  size_t bytes;
} kDtype[kDtypes] = {{"torch.float64", 8},       {"torch.float32", 4},
                     {"torch.float16", 2},       {"torch.bfloat16", 2},
                     {"torch.float8_e4m3fn", 1}, {"torch.float8_e5m2", 1},
                     {"torch.float8_e4m3fnuz", 1}, {"torch.float8_e5m2fnuz", 1},
                     {"torch.int64", 8},         {"torch.int32", 4},
                     {"torch.int16", 2},         {"torch.int8", 1},
                     {"torch.uint64", 8},        {"torch.uint32", 4},
                     {"torch.uint16", 2},        {"torch.uint8", 1},
                     {"torch.bool", 1},          {"torch.complex64", 8},
                     {"torch.complex128", 16}};

static msprobe_text Text(const char* text) {
  const msprobe_text result = {text, strlen(text)};
  return result;
}

static void Check(int code, const char* what) {
  if (code != MSPROBE_OK) {
    fprintf(stderr, "%s: %s\n", what, msprobe_last_error());
    exit(1);
  }
}

static uint64_t random_state = 1;
static uint64_t Random(void) {
  random_state = random_state * 6364136223846793005U + 1442695040888963407U;
  return random_state >> 16;
}

/* Numbers around 0, or (`wild`) any bits: NaN, infinities, subnormal and huge numbers. */
static void Fill(int dtype, int wild, unsigned char* data) {
  for (size_t i = 0; i < kElements; ++i) {
    unsigned char* const at = data + i * kDtype[dtype].bytes;
    const double number = (double)(int32_t)Random() * 0x1p-28;
    if (!wild && dtype == MSPROBE_FLOAT64) {
      memcpy(at, &number, sizeof(number));
    } else if (!wild && dtype == MSPROBE_FLOAT32) {
      const float rounded = (float)number;
      memcpy(at, &rounded, sizeof(rounded));
    } else {
      for (size_t k = 0; k < kDtype[dtype].bytes; ++k) {
        at[k] = (unsigned char)Random();
      }
      if (dtype == MSPROBE_BOOL) {
        at[0] &= 1U;
      } else if (!wild && dtype <= MSPROBE_FLOAT8_E5M2FNUZ) {
        at[kDtype[dtype].bytes - 1] &= 0xB3U; /* small exponents: finite */
      } else if (!wild && dtype >= MSPROBE_COMPLEX64) {
        at[kDtype[dtype].bytes - 1] &= 0xBFU;
        at[kDtype[dtype].bytes / 2 - 1] &= 0xBFU;
      }
    }
  }
}

enum { kPlain, kTransposed, kOneNumber, kNothing, kLayouts };

static msprobe_tensor Tensor(int dtype, int layout, const unsigned char* data) {
  static const int64_t plain[] = {kRows, kColumns};
  static const int64_t turned[] = {kColumns, kRows};
  static const int64_t turned_strides[] = {1, kColumns};
  static const int64_t nothing[] = {0, kColumns};
  msprobe_tensor tensor;
  memset(&tensor, 0, sizeof(tensor));
  tensor.type = Text("torch.Tensor");
  tensor.dtype = Text(kDtype[dtype].name);
  tensor.dtype_code = dtype;
  tensor.requires_grad = dtype <= MSPROBE_BFLOAT16;
  tensor.dimensions = layout == kOneNumber ? 0 : 2;
  tensor.shape = layout == kTransposed ? turned : layout == kNothing ? nothing : plain;
  tensor.strides = layout == kTransposed ? turned_strides : NULL;
  tensor.data = layout == kNothing ? NULL : data;
  return tensor;
}

static void Record(msprobe_capture* capture, const char* name, int dtype,
                   const unsigned char* first, const unsigned char* second) {
  msprobe_entry* const entry = msprobe_entry_begin(capture, Text(name));
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  for (int layout = 0; layout < kLayouts; ++layout) {
    const msprobe_tensor tensor = Tensor(dtype, layout, first);
    msprobe_put_tensor(entry, &tensor);
  }
  msprobe_put_null(entry);
  msprobe_put_digits(entry, Text("-123456789012345678901234567890"));
  msprobe_close(entry);
  msprobe_put_member(entry, Text("input_kwargs"), Text("input"));
  msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_key(entry, Text("scale"));
  msprobe_put_float(entry, (double)(int32_t)Random() * 0x1p-40);
  msprobe_put_key(entry, Text("n\xc3\xa4me"));
  msprobe_put_text(entry, Text("\xe4\xb8\xad\xe6\x96\x87 \"quoted\""));
  msprobe_put_key(entry, Text("count"));
  msprobe_put_int(entry, INT64_MIN);
  msprobe_close(entry);
  msprobe_put_member(entry, Text("output"), Text("output"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  const msprobe_tensor tensor = Tensor(dtype, kPlain, second);
  msprobe_put_tensor(entry, &tensor);
  msprobe_close(entry);
  Check(msprobe_entry_commit(entry), name);
}

static void Capture(const char* settings, int kill) {
  static unsigned char first[kElements * 16];
  static unsigned char second[kElements * 16];
  msprobe_capture* capture = NULL;
  Check(msprobe_capture_open(Text(""), Text(settings), Text("pytorch"), &capture), "open");
  for (int step = 0; step < 2; ++step) {
    int outcome = MSPROBE_START_OFF;
    Check(msprobe_capture_start(capture, 0, &outcome), "start");
    for (int dtype = 0; dtype < kDtypes; ++dtype) {
      for (int wild = 0; wild < 2; ++wild) {
        char name[80];
        snprintf(name, sizeof(name), "Functional.%s.%d.forward", strchr(kDtype[dtype].name, '.') + 1,
                 wild);
        Fill(dtype, wild, first);
        Fill(dtype, wild, second);
        (void)msprobe_capture_enter(capture, Text(name));
        Record(capture, name, dtype, first, second);
        Check(msprobe_capture_construct(capture, Text(name), NULL), "construct");
        const msprobe_frame frame = {Text("train.py"), Text("step"), 1 + dtype};
        uint32_t id = 0;
        Check(msprobe_capture_stack(capture, &frame, 1, &id), "stack");
        Check(msprobe_capture_set_stack(capture, Text(name), id), "set_stack");
        (void)msprobe_capture_leave(capture, Text(name));
      }
    }
    if (kill && step == 1) {
      const struct timespec until_all_is_written = {2, 0};
      nanosleep(&until_all_is_written, NULL);
      raise(SIGKILL);
    }
    Check(msprobe_capture_step(capture), "step");
  }
  msprobe_capture_close(capture);
}

static void Watch(void) {
  static unsigned char data[kElements * 16];
  static const char settings[] =
      "{\"ops\": [\"norm\", \"mean\", \"min\", \"max\", \"zeros\", \"nans\", \"infs\", \"id\", "
      "\"std\", \"rms\", \"amax\", \"subnormals\", \"dynamic_range\"], \"format\": \"csv\", "
      "\"ndigits\": 17, \"wg_distribution\": true}";
  msprobe_monitor* monitor = NULL;
  Check(msprobe_monitor_open(Text(""), Text(settings), Text("pytorch"), &monitor), "monitor");
  msprobe_monitor_place place;
  memset(&place, 0, sizeof(place));
  place.world_size = 1;
  Check(msprobe_monitor_set_place(monitor, &place), "place");
  for (int step = 0; step < 3; ++step) {
    int32_t state = 0;
    Check(msprobe_monitor_begin(monitor, step, &state), "begin");
    for (int dtype = 0; dtype < kDtypes; ++dtype) {
      for (int layout = 0; layout < kLayouts; ++layout) {
        char name[80];
        snprintf(name, sizeof(name), "0:%s.%d", kDtype[dtype].name, layout);
        Fill(dtype, step == 2, data);
        const msprobe_tensor tensor = Tensor(dtype, layout, data);
        const uint32_t slot = msprobe_monitor_slot(monitor, MSPROBE_MONITOR_GRAD_REDUCED,
                                                   Text(name), Text("post_grad"));
        Check(msprobe_monitor_measure(monitor, slot, MSPROBE_MONITOR_NO_INDEX,
                                      MSPROBE_MONITOR_NO_MICRO_STEP, &tensor),
              name);
      }
    }
    Check(msprobe_monitor_end_step(monitor, &state), "end_step");
  }
  msprobe_monitor_close(monitor);
}

static void Describe(void) {
  static unsigned char data[kElements * 16];
  for (int dtype = 0; dtype < kDtypes; ++dtype) {
    for (int wild = 0; wild < 2; ++wild) {
      for (int layout = 0; layout < kNothing; ++layout) {
        Fill(dtype, wild, data);
        const msprobe_tensor tensor = Tensor(dtype, layout, data);
        double numbers[4] = {0, 0, 0, 0};
        for (int rounding = 0; rounding < 2; ++rounding) {
          if (msprobe_tensor_statistics(&tensor, rounding, numbers) == MSPROBE_OK) {
            printf("%s %d %d %d: %a %a %a %a\n", kDtype[dtype].name, wild, layout, rounding,
                   numbers[0], numbers[1], numbers[2], numbers[3]);
          }
        }
      }
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 2) {
    return 2;
  }
  Describe();
  Watch();
  Capture(argv[1], argc > 2);
  return 0;
}
