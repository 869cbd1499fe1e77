// The CUDA backend, its kernels running in the emulator, as what the parity tests test.
//
// A whole run must have launched every kernel of kernels/ that the device has.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "emulator/emulator.h"
#include "harness/emulated_ops.h"
#include "harness/emulation.h"
#include "harness/owning_ops.h"
#include "harness/uploading_ops.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

namespace fs = std::filesystem;

/// Names of the __global__ functions in the sources of kernels/.
std::set<std::string> kernels_of_the_tree() {
  static const std::regex definition(R"(__global__[^;{]*?(\w+_kernel)\s*\()");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(KVCAL_SOURCE_DIR "/kernels")) {
    if (entry.path().extension() != ".cu" && entry.path().extension() != ".cuh") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    int64_t found = 0, marked = 0;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), definition); it != std::sregex_iterator(); ++it) {
      names.insert((*it)[1]);
      ++found;
    }
    for (size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) ++marked;
    EXPECT_EQ(found, marked) << entry.path() << " has kernels whose names do not end in _kernel";
  }
  return names;
}

class LaunchCount final : public Emulation {
 public:
  void TearDown() override {
    const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() < tests.total_test_count()) return;
    std::set<std::string> launched;
    for (const auto& [name, n] : emulator::launches()) launched.insert(name.substr(0, name.find('<')));
    const std::set<std::string> defined = kernels_of_the_tree();
    EXPECT_GE(defined.size(), 10U);
    for (const std::string& name : defined)
      EXPECT_EQ(launched.contains(name), emulator::has_body(name)) << name << ": whether it was launched";
  }
};

const testing::Environment* const kLaunchCount = testing::AddGlobalTestEnvironment(new LaunchCount);

}  // namespace

std::unique_ptr<Ops> backend(Precision precision) {
  return std::make_unique<Owning<UploadingOps>>(emulated_cuda_ops(precision));
}

Storage on_host(const Tensor& t) {
  emulator::synchronize_all();
  Storage copy(t.shape, t.dtype);  // device memory of the emulator is host memory
  if (t.bytes() > 0) std::memcpy(copy.tensor().data, t.data, t.bytes());
  return copy;
}

}  // namespace kvcal::test
