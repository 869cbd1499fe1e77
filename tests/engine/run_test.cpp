// Whole runs of tiny models by a memory plan: within the reserved bytes and near them, the same bytes wherever the
// residual stream is, whatever the readers, the times of the device and, where that is promised, the size of batches.
#include <gtest/gtest.h>

#include <cstring>

#include "arch/golden.h"
#include "harness/emulated_ops.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"
#include "prefill/memory_plan.h"

namespace kvcal {
namespace {

using emulator::Timing;

/// Keeps what an inner tap sees of tensors of a device.
class DownloadingTap final : public KvTap {
 public:
  explicit DownloadingTap(Ops& op) : op_(op) {}
  Tensor query(int cache, const Tensor& q, const Batch& b) override { return record(cache, q, b, &KvTap::query); }
  Tensor key(int cache, const Tensor& k, const Batch& b) override { return record(cache, k, b, &KvTap::key); }
  Tensor value(int cache, const Tensor& v, const Batch& b) override { return record(cache, v, b, &KvTap::value); }
  Tensor latent(int cache, const Tensor& x, const Batch& b) override { return record(cache, x, b, &KvTap::latent); }
  void layer_done(int) override {}

  RecordingTap inner;

 private:
  Tensor record(int cache, const Tensor& t, const Batch& batch,
                Tensor (KvTap::*site)(int, const Tensor&, const Batch&)) {
    const Storage host(t.shape, t.dtype);
    op_.download(t, host.tensor());
    (inner.*site)(cache, host.tensor(), batch);
    return t;
  }
  Ops& op_;
};

std::vector<PromptTokens> some_prompts(int64_t vocab, const std::vector<int64_t>& lengths) {
  std::vector<PromptTokens> prompts;
  uint32_t x = 7;
  for (const int64_t n : lengths) {
    prompts.push_back({std::to_string(prompts.size()), {}, 1});
    for (int64_t i = 0; i < n; ++i) {
      x = x * 1664525u + 1013904223u;
      prompts.back().ids.push_back(static_cast<int32_t>((x >> 8) % static_cast<uint32_t>(vocab)));
    }
  }
  return prompts;
}

struct Asked {
  int64_t chunk_tokens = 256;
  Precision precision = Precision::BF16;
  ResidualPlace place = ResidualPlace::Device;
  int readers = 2;
  Timing timing = Timing::Immediate;
};

struct Ran {
  std::map<RecordingTap::Key, std::vector<std::byte>> seen;
  MemoryPlan plan;
  DeviceMemory memory;
};

Ran run(const std::string& name, const Asked& asked,
        const std::vector<int64_t>& lengths = {60, 90, 300, 20, 200, 100}) {
  emulator::set_timing(asked.timing, 3);
  Ran ran;
  {
    CudaOptions options{asked.precision, 0, true};
    options.reader = {asked.readers, 3, uint64_t{1} << 16, true};
    LoadedModel m(Golden(name).folder, make_cuda_ops(options));
    const auto prompts = some_prompts(m.model->spec().vocab, lengths);
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
    ran.plan = plan_memory(m.model->spec(), m.weights, sequences, memory);
    if (asked.place == ResidualPlace::Host) {
      memory.budget = ran.plan.total() - 1;  // one byte too few for the residual stream on the device
      ran.plan = plan_memory(m.model->spec(), m.weights, sequences, memory);
    }
    EXPECT_EQ(ran.plan.residual_place, asked.place);
    DownloadingTap tap(*m.ops);
    Runner(*m.model, *m.ops, m.weights, ran.plan).run({{&sequences.measured, &tap}}, prompts);
    for (auto& [key, recorded] : tap.inner.seen) ran.seen[key] = recorded.bytes;
    ran.memory = m.ops->device_memory();
  }
  emulator::set_timing(Timing::Immediate);
  return ran;
}

TEST(Run, BytesDependOnNeitherPlaceNorReadersNorTimes) {
  for (const char* name : {"qwen3", "qwen3_5"}) {
    const Ran reference = run(name, {});
    ASSERT_FALSE(reference.seen.empty());
    for (const ResidualPlace place : {ResidualPlace::Device, ResidualPlace::Host})
      for (const Timing timing : {Timing::Late, Timing::Random})
        for (const int readers : {timing == Timing::Late ? 1 : 5}) {
          const Ran other = run(name, {256, Precision::BF16, place, readers, timing});
          EXPECT_TRUE(other.seen == reference.seen) << name << ", residual " << static_cast<int>(place) << ", timing "
                                                    << static_cast<int>(timing) << ", " << readers << " readers";
        }
    EXPECT_TRUE(run(name, {512}).seen == reference.seen) << name << ", other batches";
  }
}

TEST(Run, TakesWhatThePlanSaysAndUsesMostOfIt) {
  for (const std::string& name : golden_cases())
    for (const Precision precision : {Precision::BF16, Precision::F32}) {
      if (precision == Precision::F32 && name != "qwen3" && name != "qwen3_next") continue;  // slow here
      SCOPED_TRACE(name + (precision == Precision::BF16 ? " bf16" : " f32"));
      const Ran ran = run(name, {256, precision}, {60, 90, 100, 300});
      const auto most = static_cast<double>(ran.plan.activations);
      EXPECT_LE(static_cast<double>(ran.memory.temporaries_peak), most);
      EXPECT_GE(static_cast<double>(ran.memory.temporaries_peak), 0.4 * most)
          << "of " << most << " bytes " << ran.memory.temporaries_peak << " were used";
      EXPECT_LE(ran.memory.persistent_peak, ran.plan.reserve().persistent);
    }
}

TEST(Run, ADeviceThatIsTooSmallIsRefusedWithTheNumbersBeforeAnythingRuns) {
  emulator::set_device_memory(emulator::device_bytes_in_use() + (size_t{384} << 20));
  std::string message;
  try {
    run("qwen3", {});
  } catch (const Error& e) {
    message = e.what();
  }
  emulator::set_device_memory(emulator::kUsualDeviceMemory);
  EXPECT_NE(message.find("the run needs 38"), std::string::npos) << message;
  EXPECT_NE(message.find("of the device's memory, the budget is 3"), std::string::npos) << message;
}

}  // namespace
}  // namespace kvcal
