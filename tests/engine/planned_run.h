// A run of a golden model on the emulated device, by a memory plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "arch/golden.h"
#include "harness/downloading_tap.h"
#include "harness/emulated_ops.h"
#include "harness/forwarding_ops.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"
#include "harness/stand_in_attention.h"
#include "ops/residual_rows.h"
#include "prefill/memory_plan.h"

namespace kvcal::test {

using emulator::Timing;

inline std::vector<PromptTokens> some_prompts(const ModelSpec& spec, const std::vector<int64_t>& lengths) {
  std::vector<PromptTokens> prompts;
  uint32_t x = 7;
  for (const int64_t length : lengths) {
    prompts.push_back({std::to_string(prompts.size()), {}, 1});
    for (int64_t i = 0; i < length; ++i) {
      x = x * 1664525u + 1013904223u;
      prompts.back().ids.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(spec.vocab)));
    }
  }
  return prompts;
}

/// A device whose weights are decoded by the processor and copied at once: no reader.
class AtOnce final : public ForwardingOps {
 public:
  explicit AtOnce(std::unique_ptr<Ops> inner) : ForwardingOps(*inner), owned_(std::move(inner)) {}
  DeviceMemory device_memory() const override { return inner_.device_memory(); }
  void reserve(const MemoryReserve& bytes) override { inner_.reserve(bytes); }
  std::unique_ptr<ResidualRows> residual_rows(const ResidualShape& shape, ResidualPlace place) override {
    return inner_.residual_rows(shape, place);
  }

 private:
  std::unique_ptr<Ops> owned_;
};

/// Has every sequence of a batch keep its recurrent state, as calibrate does.
class ShownStates final : public StateCounter {
 public:
  void count_states(int, std::span<const PassedState> states) override { n += states.size(); }
  size_t n = 0;
};

struct Asked {
  int64_t chunk_tokens = 256;
  Precision precision = Precision::BF16;
  ResidualPlace place = ResidualPlace::Device;
  int readers = 2;
  Timing timing = Timing::Immediate;
  StandInLog* library = nullptr;  // of attention; null: there is none
  bool reader = true;             // else AtOnce
  uint64_t slot_bytes = uint64_t{1} << 16;
};

struct Ran {
  std::map<RecordingTap::Key, std::vector<std::byte>> seen;
  MemoryPlan plan;
  int last_counted_layer = 0;
  DeviceMemory memory;
  std::vector<std::string> notes;
  uint64_t bytes_copied = 0;  // by the reader
};

inline Ran run(const std::string& name, const Asked& asked,
               const std::vector<int64_t>& lengths = {60, 90, 300, 20, 200, 100}) {
  emulator::set_timing(asked.timing, 3);
  const int64_t spun = emulator::spinning_waits();
  Ran ran;
  {
    CudaOptions options{asked.precision, 0, true};
    options.reader = {asked.readers, 3, asked.slot_bytes, true};
    std::unique_ptr<Ops> device =
        make_cuda_ops(options, asked.library ? std::make_unique<StandInAttention>(*asked.library) : nullptr);
    if (!asked.reader) device = std::make_unique<AtOnce>(std::move(device));
    LoadedModel m(Golden(name).folder, std::move(device));
    const auto prompts = some_prompts(m.model->spec(), lengths);
    SequencePlan sequences;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto n = static_cast<int64_t>(prompts[i].ids.size()), index = static_cast<int64_t>(i);
      sequences.measured.push_back({index, 1, {{index, 0, n}}, n});
    }
    sequences.prompts = prompts;
    MemoryOptions memory;
    memory.chunk_tokens = asked.chunk_tokens;
    memory.precision = asked.precision;
    memory.device = m.ops->device_memory();
    memory.keeps_states = std::ranges::any_of(m.model->spec().layers, &LayerSpec::has_long_state);
    ran.plan = plan_memory(m.model->spec(), m.weights, sequences, memory);
    ran.last_counted_layer = m.model->spec().last_counted_layer();
    if (asked.place == ResidualPlace::Host) {
      memory.budget = ran.plan.total() - 1;  // one byte too few for the residual stream on the device
      ran.plan = plan_memory(m.model->spec(), m.weights, sequences, memory);
    }
    EXPECT_EQ(ran.plan.residual_place, asked.place);
    RecordingTap seen;
    ShownStates states;
    DownloadingTap tap(*m.ops, seen, &states);
    Runner(*m.model, *m.ops, m.weights, ran.plan).run({{&sequences.measured, &tap}}, prompts);
    EXPECT_EQ(states.n > 0, memory.keeps_states);
    for (auto& [key, recorded] : seen.seen) ran.seen[key] = recorded.bytes;
    ran.memory = m.ops->device_memory();
    ran.notes = m.ops->notes();
    if (WeightReader* const reader = m.ops->reader()) ran.bytes_copied = reader->bytes_copied();
  }
  emulator::set_timing(Timing::Immediate);
  EXPECT_EQ(emulator::spinning_waits(), spun) << "threads of the host were busy while they waited";
  return ran;
}

}  // namespace kvcal::test
