// Several devices that read their weights together get what each would alone, and the file is read for one of them.
#include "kernels/runtime/reader_group.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "emulator/devices.h"
#include "engine/some_file.h"
#include "harness/message_of.h"
#include "kernels/runtime/background_reader.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

using emulator::Timing;

constexpr int64_t kElements = 60'000;  // several slots

/// What one device has: a stream that computes, a reader, and memory for a weight.
struct OneDevice {
  OneDevice(int index, const ReaderOptions& options)
      : number(index), compute((cudaSetDevice(index), make_stream())), reader(index, compute.get(), options) {
    memory = allocate_bytes(to().bytes());
    wide = allocate_bytes(to_wide().bytes());
  }
  Tensor to() const { return {memory.get(), {kElements}, DType::BF16, Device::Cuda}; }
  Tensor to_wide() const { return {wide.get(), {kElements}, DType::F32, Device::Cuda}; }

  void collect(const SomeFile& file, uint64_t from) {
    check(cudaSetDevice(number), "choosing");
    reader.collect(file);
    reader.add(file.at(from, kElements, DType::BF16), to(), 0);
    reader.add(file.at(from, kElements, DType::F16), to_wide(), 1);
  }
  void load(const SomeFile& file, uint64_t from) {
    collect(file, from);
    reader.start();
    reader.finish();
    check(cudaStreamSynchronize(compute.get()), "waiting");
  }

  int number;
  Stream compute;
  DeviceBytes memory{}, wide{};
  BackgroundReader reader;
};

class ReaderGroupTest : public testing::TestWithParam<Timing> {
 protected:
  ReaderGroupTest() {
    emulator::set_devices(3);
    emulator::set_timing(GetParam(), 3);
    options_.group = std::make_shared<ReaderGroup>();
    for (int i = 0; i < 3; ++i) devices_.push_back(std::make_unique<OneDevice>(i, options_));
    for (const auto& d : devices_) d->reader.join();
  }
  ~ReaderGroupTest() override {
    devices_.clear();
    static_cast<void>(cudaSetDevice(0));
    emulator::set_devices(1);
    emulator::set_timing(Timing::Immediate);
  }

  template <class Work>
  void in_threads(const Work& work) {
    std::vector<std::thread> threads;
    for (const auto& d : devices_) threads.emplace_back([&, device = d.get()] { work(*device); });
    for (std::thread& t : threads) t.join();
  }

  void expect_loaded(const OneDevice& d, uint64_t from) const {
    EXPECT_EQ(std::memcmp(d.memory.get(), file_.at(from, kElements, DType::BF16).data, d.to().bytes()), 0) << d.number;
    std::vector<float> wide(static_cast<size_t>(kElements));
    convert_to_float(DType::F16, file_.at(from, kElements, DType::F16).data, wide.data(), wide.size());
    for (float& x : wide) x += 1;
    EXPECT_EQ(std::memcmp(d.wide.get(), wide.data(), d.to_wide().bytes()), 0) << d.number;
  }

  uint64_t bytes_read() const {
    uint64_t bytes = 0;
    for (const auto& d : devices_) bytes += d->reader.bytes_read();
    return bytes;
  }

  ReaderOptions options_{2, 3, 16384, true, nullptr};
  SomeFile file_;
  std::vector<std::unique_ptr<OneDevice>> devices_;
};

TEST_P(ReaderGroupTest, EveryDeviceGetsWhatIsReadOnce) {
  for (int layer = 0; layer < 4; ++layer) {
    const auto from = static_cast<uint64_t>(layer) * 30'000 + 2;
    in_threads([&](OneDevice& d) { d.load(file_, from); });
    for (const auto& d : devices_) expect_loaded(*d, from);
  }
  const uint64_t together = bytes_read();
  OneDevice alone(0, {2, 3, 16384, true, nullptr});
  for (int layer = 0; layer < 4; ++layer) alone.load(file_, static_cast<uint64_t>(layer) * 30'000 + 2);
  EXPECT_EQ(together, alone.reader.bytes_read());
}

TEST_P(ReaderGroupTest, WhoLeavesIsNotWaitedFor) {
  in_threads([&](OneDevice& d) {
    d.load(file_, 2);
    if (d.number == 1) return d.reader.leave();
    d.load(file_, 30'002);
    if (d.number == 0) return d.reader.leave();  // who reads for the others
    d.load(file_, 60'002);
  });
  expect_loaded(*devices_[2], 60'002);
  devices_[0]->load(file_, 90'002);  // for itself again
  expect_loaded(*devices_[0], 90'002);
}

TEST_P(ReaderGroupTest, WhoGivesUpInTheMiddleLeavesTheOthersWhole) {
  in_threads([&](OneDevice& d) {
    if (d.number < 2) return d.load(file_, 2);
    d.collect(file_, 2);
    d.reader.leave();
  });
  for (int i = 0; i < 2; ++i) expect_loaded(*devices_[static_cast<size_t>(i)], 2);
}

TEST_P(ReaderGroupTest, AnErrorIsOneOfAllAndTheNextLayerComes) {
  const SomeFile cut;
  for (const auto& d : devices_) d->collect(cut, 90'002);
  fs::resize_file(cut.path(), 100'000);
  std::array<std::string, 3> messages;
  in_threads([&](OneDevice& d) {
    check(cudaSetDevice(d.number), "choosing");
    messages[static_cast<size_t>(d.number)] = message_of([&] { d.reader.finish(); });
    d.load(file_, 2);
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("has become shorter"), std::string::npos) << message;
  for (const auto& d : devices_) expect_loaded(*d, 2);
}

TEST_P(ReaderGroupTest, WhoWantsSomethingElseIsABug) {
  in_threads([&](OneDevice& d) {
    EXPECT_NE(message_of([&] { d.load(file_, d.number == 1 ? 4 : 2); }).find("want different ones"), std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Timings, ReaderGroupTest, testing::Values(Timing::Immediate, Timing::Late, Timing::Random));

}  // namespace
}  // namespace kvcal::cuda
