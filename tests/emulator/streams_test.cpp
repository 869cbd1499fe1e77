// The emulated streams: what a program that waits gets, and what one that forgot to wait sees.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "kernels/runtime/handle.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

class Streams : public testing::Test {
 protected:
  void TearDown() override {
    emulator::set_timing(emulator::Timing::Immediate);
    emulator::set_device_memory(emulator::kUsualDeviceMemory);
  }

  float* floats(size_t n) {
    kept_.push_back(allocate_bytes(n * sizeof(float)));
    return static_cast<float*>(kept_.back().get());
  }
  static void copy(float* to, const float* from, cudaStream_t stream, cudaMemcpyKind kind = cudaMemcpyDeviceToDevice) {
    check(cudaMemcpyAsync(to, from, sizeof(float), kind, stream), "copying");
  }

  /// Whether the second stream reads what the first clears before it is cleared. waits: it has been told to wait.
  bool overtakes(bool waits) {
    float* const a = floats(1);
    float* const b = floats(1);
    const Event ready = make_event();
    check(cudaMemsetAsync(a, 0, sizeof(float), one_.get()), "clearing");
    check(cudaEventRecord(ready.get(), one_.get()), "recording");
    if (waits) check(cudaStreamWaitEvent(two_.get(), ready.get()), "waiting");
    copy(b, a, two_.get());
    check(cudaStreamSynchronize(two_.get()), "waiting");
    return std::isnan(*b);
  }

  const Stream one_ = make_stream(), two_ = make_stream();
  std::vector<DeviceBytes> kept_;
};

TEST_F(Streams, LateWorkIsDoneWhenItIsWaitedFor) {
  emulator::set_timing(emulator::Timing::Late);
  float* const a = floats(1);
  check(cudaMemsetAsync(a, 0, sizeof(float), one_.get()), "clearing");
  EXPECT_TRUE(std::isnan(*a));
  check(cudaStreamSynchronize(two_.get()), "waiting");
  EXPECT_TRUE(std::isnan(*a));
  check(cudaStreamSynchronize(one_.get()), "waiting");
  EXPECT_EQ(*a, 0.0f);
}

TEST_F(Streams, AStreamThatForgotToWaitForAnotherReadsWhatWasThereBefore) {
  emulator::set_timing(emulator::Timing::Late);
  for (const bool waits : {false, true}) {
    EXPECT_EQ(overtakes(waits), !waits);
    check(cudaStreamSynchronize(one_.get()), "waiting");
  }
}

TEST_F(Streams, PinnedMemoryIsReadWhenTheCopyIsMadePageableWhenItIsAskedFor) {
  emulator::set_timing(emulator::Timing::Late);
  const PinnedBytes pinned = allocate_pinned(sizeof(float));
  std::array<float, 1> pageable = {1.0f};
  for (float* const from : {static_cast<float*>(pinned.get()), pageable.data()}) {
    float* const a = floats(1);
    *from = 1.0f;
    copy(a, from, one_.get(), cudaMemcpyHostToDevice);
    *from = 2.0f;  // too early where the memory is pinned
    check(cudaStreamSynchronize(one_.get()), "waiting");
    EXPECT_EQ(*a, from == pageable.data() ? 1.0f : 2.0f);
  }
}

TEST_F(Streams, AtRandomTimesStreamsOvertakeEachOtherButNoEvent) {
  emulator::set_timing(emulator::Timing::Random, 7);
  int overtaken = 0;
  for (const bool waits : {false, true}) {
    overtaken = 0;
    for (int i = 0; i < 64; ++i) overtaken += overtakes(waits);
    if (!waits) {
      EXPECT_GT(overtaken, 4);
      EXPECT_LT(overtaken, 60);
    }
  }
  EXPECT_EQ(overtaken, 0);
}

TEST_F(Streams, CopiesBeyondAnAllocationAndMemoryBeyondTheDeviceAreRefused) {
  float* const a = floats(4);
  EXPECT_EQ(cudaMemsetAsync(a, 0, 17, one_.get()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(a + 4, a, 4, cudaMemcpyDeviceToDevice, one_.get()), cudaErrorInvalidValue);
  std::array<float, 4> host;
  EXPECT_EQ(cudaMemcpyAsync(a, host.data(), 16, cudaMemcpyDeviceToDevice, one_.get()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(a, host.data(), 16, cudaMemcpyHostToDevice, one_.get()), cudaSuccess);

  emulator::set_device_memory(emulator::device_bytes_in_use() + 1000);
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 1000U);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1001), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&more, 1000), cudaSuccess);
  EXPECT_EQ(emulator::device_bytes_peak(), emulator::device_memory());
  EXPECT_EQ(cudaFree(more), cudaSuccess);
}

}  // namespace
}  // namespace kvcal::cuda
