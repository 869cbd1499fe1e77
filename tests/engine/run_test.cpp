// Whole runs of tiny models by a memory plan: within the reserved bytes and near them, the same bytes wherever the
// residual stream is, whatever the readers, the times of the device and, where that is promised, the size of batches.
#include "engine/planned_run.h"

namespace kvcal::test {
namespace {

TEST(Run, BytesDependOnNeitherPlaceNorReadersNorTimes) {
  for (const char* name : {"qwen3", "qwen3_5"}) {
    const Ran reference = run(name, {});
    ASSERT_FALSE(reference.seen.empty());
    for (const ResidualPlace place : {ResidualPlace::Device, ResidualPlace::Host})
      for (const Timing timing : {Timing::Late, Timing::Random})
        for (const int readers : {timing == Timing::Late ? 1 : 5}) {
          const Ran other = run(name, {256, Precision::BF16, place, readers, timing, nullptr});
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
      StandInLog log{StandInLog::Fault::None, {}};  // what it does is compared: a second result of attention
      Asked asked{256, precision};
      asked.library = &log;
      const Ran ran = run(name, asked, {60, 90, 100, 300});
      const auto most = static_cast<double>(ran.plan.activations);
      EXPECT_LE(static_cast<double>(ran.memory.temporaries_peak), most);
      EXPECT_LE(ran.memory.persistent_peak, ran.plan.reserve().persistent);
      if (ran.last_counted_layer == 0) continue;  // it ends with its cache: no feed-forward runs
      constexpr double kLeast = 0.38;             // where queries share one head of keys
      constexpr double kSmall = 256 << 10;  // set aside for small arrays: more than the smallest models take at all
      EXPECT_GE(static_cast<double>(ran.memory.temporaries_peak), kLeast * (most - kSmall))
          << "of " << most << " bytes " << ran.memory.temporaries_peak << " were used";
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
}  // namespace kvcal::test
