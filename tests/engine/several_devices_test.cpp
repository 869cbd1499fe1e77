// A calibration on several emulated devices: the bytes of one device, its files read for one, and no device that fails
// or waits unnoticed.
#include <gtest/gtest.h>

#include "arch/golden.h"
#include "base/read_file.h"
#include "e2e/runs.h"
#include "emulator/devices.h"
#include "emulator/emulator.h"
#include "harness/message_of.h"
#include "kernels/cuda_ops.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

// Tensors come in pieces; not past the page cache, where whole sectors count.
constexpr uint64_t kSmallSlot = uint64_t{16} << 10;

Devices open_emulated(int n, std::vector<const cuda::BackgroundReader*>* readers = nullptr) {
  CudaOptions options{Precision::BF16, 0, true, {2, 3, kSmallSlot, false, std::make_shared<cuda::ReaderGroup>()}};
  std::vector<Devices::Named> devices;
  for (int i = 0; i < n; ++i) {
    options.device = i;
    devices.push_back({"cuda:" + std::to_string(i), make_cuda_ops(options)});
    if (readers) readers->push_back(dynamic_cast<const cuda::BackgroundReader*>(devices.back().op->reader()));
  }
  return Devices(std::move(devices));
}

struct Ran {
  std::string artifact, statistics;  // bytes
  MemoryPlan memory;
  uint64_t bytes_read = 0;
  int64_t n_tokens = 0, n_tokens_run = 0, heard = 0;  // heard: tokens of steps
};

class RunOnSeveral : public testing::Test {
 protected:
  RunOnSeveral() { emulator::set_devices(3); }
  ~RunOnSeveral() override {
    for (int i = 0; i < 3; ++i) {
      emulator::use_device(2 - i);
      emulator::set_device_memory(emulator::kUsualDeviceMemory);
    }
    emulator::set_devices(1);
    emulator::set_timing(emulator::Timing::Immediate);
  }

  static Ran run(const std::string& golden, int n_devices, RunOptions options = {}) {
    Ran ran;
    std::vector<const cuda::BackgroundReader*> readers;
    OpenedModel model(Golden(golden).folder);
    const CalibrationPlan plan = plan_calibration(model, prompts_of({1, 40, 65, 130, 33}, 90), options.sources, options,
                                                  [&] { return open_emulated(n_devices, &readers); });
    Recorder listener([&](const RunStep& step) {
      ran.heard += step.tokens;
      if (options.on_step) options.on_step(step);
    });
    const Measurement m = measure(model, plan, options, listener);
    const Scratch scratch;
    write_statistics(scratch.path() / "s", m.statistics, Existing::Refuse);
    ran.statistics = read_file(scratch.path() / "s", size_t{1} << 30);
    if (!m.statistics.run.shard) ran.artifact = artifact_text(solved_artifact(m.statistics));
    ran.memory = plan.memory;
    for (const auto* reader : readers) ran.bytes_read += reader->bytes_read();
    ran.n_tokens = m.n_tokens;
    ran.n_tokens_run = m.n_tokens_run;
    return ran;
  }

  static void expect_equal(const Ran& several, const Ran& one) {
    EXPECT_TRUE(several.artifact == one.artifact);
    EXPECT_TRUE(several.statistics == one.statistics);
    EXPECT_EQ(several.n_tokens, one.n_tokens);
    EXPECT_EQ(several.n_tokens_run, one.n_tokens_run);
    EXPECT_EQ(several.heard, one.heard);
    EXPECT_EQ(several.bytes_read, one.bytes_read);
  }
};

class RunOfGoldens : public RunOnSeveral, public testing::WithParamInterface<const char*> {};

TEST_P(RunOfGoldens, GivesTheBytesOfOneDeviceAndReadsWhatOneReads) {
  const Ran one = run(GetParam(), 1);
  EXPECT_GT(one.bytes_read, 0U);
  expect_equal(run(GetParam(), 2), one);
  emulator::set_timing(emulator::Timing::Random, 7);
  expect_equal(run(GetParam(), 3), one);
}

// Dense, experts, hybrid, and weights that the devices decode.
INSTANTIATE_TEST_SUITE_P(Run, RunOfGoldens,
                         testing::Values("qwen3", "qwen3_moe", "qwen3_5", "gpt_oss_mxfp4", "deepseek_v3_fp8",
                                         "deepseek_v3_nvfp4"));

TEST_F(RunOnSeveral, DrawsThePromptsThatOneDraws) {
  RunOptions options;
  options.until_stable = 5;
  expect_equal(run("qwen3", 3, options), run("qwen3", 1, options));
}

TEST_F(RunOnSeveral, AShardIsDealtOnceMore) {
  RunOptions options;
  options.sequences.n_shards = 2;
  options.sequences.shard = 1;
  expect_equal(run("qwen3", 2, options), run("qwen3", 1, options));
}

TEST_F(RunOnSeveral, TheSmallestDecidesAndEachHasItsShare) {
  const Ran one = run("qwen3", 1), equal = run("qwen3", 2);
  EXPECT_LT(equal.memory.residual, one.memory.residual);
  emulator::use_device(1);
  const uint64_t small = equal.memory.total() - equal.memory.residual / 2;  // what is used before a run is little
  emulator::set_device_memory(emulator::device_bytes_in_use() + small + (uint64_t{80} << 20));
  emulator::use_device(0);
  const Ran ran = run("qwen3", 2);
  EXPECT_LT(ran.memory.budget, equal.memory.budget);
  expect_equal(ran, one);
}

TEST_F(RunOnSeveral, ADeviceThatIsTooSmallIsRefused) {
  emulator::use_device(1);
  emulator::set_device_memory(emulator::device_bytes_in_use() + (size_t{384} << 20));
  emulator::use_device(0);
  EXPECT_NE(message_of([] { run("qwen3", 2); }).find("of the device's memory"), std::string::npos);
}

TEST_F(RunOnSeveral, WhoStopsARunStopsAllDevices) {
  for (const int64_t at : {1, 5, 9}) {
    RunOptions options;
    options.on_step = [n = int64_t{0}, at](const RunStep&) mutable {
      if (++n == at) throw std::logic_error("stopped");
    };
    EXPECT_THROW(run("qwen3_5", 3, options), std::logic_error);
  }
}

TEST_F(RunOnSeveral, AResumableRunIsRefused) {
  RunOptions options;
  options.resume = "anywhere";
  EXPECT_NE(message_of([&] { run("qwen3", 2, options); }).find("--resume cannot be used with several GPUs"),
            std::string::npos);
}

}  // namespace
}  // namespace kvcal
