#include "src/capture/device_tensor.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/threads.h"
#include "src/capture/step_recording.h"
#include "src/dump/record_log.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

void Deliver(DeviceTensor& tensor, std::span<const std::byte> bytes) {
  TensorView view = tensor.view;
  view.data = bytes.data();
  if (!tensor.job) {
    tensor.values = ExamineTensor(view, tensor.request);
  } else {
    TensorWriters& writers = *tensor.step->engine().writers;
    const size_t size_bytes = view.size_bytes();
    TensorJob& job = *tensor.job;
    if (!job.memory) {
      job.memory =
          tensor.is_held ? writers.TryTake(size_bytes) : writers.Take(size_bytes, kPatience);
    }
    tensor.request.copy_to = job.memory.data();
    tensor.values = ExamineTensor(view, tensor.request);
    job.data_crc32 = tensor.values.copy_crc32;
    if (!job.memory) {
      WriteWithoutCopy(job, view, !tensor.is_held && !writers.fits(size_bytes), writers);
      tensor.job.reset();
    }
  }
  if (!tensor.is_held) {
    PublishDeviceTensor(tensor);
  }
}

}  // namespace

void DeliverDeviceTensor(DeviceTensor& tensor, const Result<std::span<const std::byte>>& bytes) {
  if (tensor.is_dropped.load()) {
    return;
  }
  const base::NoFileSizeSignal guard;
  const char* trouble = nullptr;
  try {
    if (bytes.ok()) {
      Deliver(tensor, *bytes);
      return;
    }
  } catch (const std::bad_alloc&) {
    trouble = "no memory";
  } catch (const std::exception&) {
    trouble = "a defect in msprobe";
  }
  tensor.job.reset();
  tensor.step->CountLostRecord();
  try {
    tensor.step->ReportError(tensor.entry_name,
                             "a tensor could not be copied: " +
                                 (trouble != nullptr ? trouble : bytes.status().message()));
  } catch (const std::bad_alloc&) {  // it is counted
  }
}

void PublishDeviceTensor(DeviceTensor& tensor) {
  StepRecording& step = *tensor.step;
  std::string records;
  const auto append = [&](uint64_t ticket, auto put) {
    std::string text;
    json::Writer json(text, 1, step.non_finite(), tensor.depth);
    put(json);
    dump::AppendPending(ticket, text, records);
  };
  if (tensor.statistics_ticket != 0) {
    for (size_t i = 0; i < tensor.values.statistics.size(); ++i) {
      append(tensor.statistics_ticket + i,
             [&](json::Writer& json) { PutStatistic(tensor.values.statistics[i], json); });
    }
  }
  if (tensor.checksum_ticket != 0) {
    append(tensor.checksum_ticket, [&](json::Writer& json) { PutChecksum(tensor.values, json); });
  }
  if (tensor.extended_ticket != 0) {
    append(tensor.extended_ticket, [&](json::Writer& json) { PutExtended(tensor.values, json); });
  }
  if (!records.empty() && !step.Append(records)) {
    step.ReportError(tensor.entry_name, step.LostError().message());
  }
  if (tensor.job) {
    tensor.job->Submit(*step.engine().writers);
    tensor.job.reset();
  }
}

void PutChecksum(const TensorValues& values, json::Writer& json) {
  if (values.scalar) {
    PutStatistic(*values.scalar, json);
  } else if (values.xor64) {
    json.Text(fmt::format("0x{:016x}", static_cast<uint64_t>(*values.xor64)));
  } else if (values.crc32) {
    json.Text(fmt::format("{:08x}", *values.crc32));
  } else {
    json.Null();
  }
}

void PutExtended(const TensorValues& values, json::Writer& json) {
  json.BeginObject();
  json.Member("nan_count", values.counts.nan_count);
  json.Member("positive_infinity_count", values.counts.positive_inf_count);
  json.Member("negative_infinity_count", values.counts.negative_inf_count);
  json.Member("zero_count", values.counts.zero_count);
  json.Member("finite_max", values.finite_max);
  json.Member("finite_min", values.finite_min);
  json.EndObject();
}

}  // namespace msprobe::capture
