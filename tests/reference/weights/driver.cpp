// Answers tests/reference/weights/differential.py: for every folder named on standard input the weights that
// expected.safetensors lists, decoded from the checkpoint beside it into actual.safetensors; one JSON answer a line.
#include <iostream>

#include "checkpoint/safetensors_writer.h"
#include "checkpoint/weight_binder.h"

using namespace kvcal;

namespace {

Json answer(const std::filesystem::path& folder) try {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const SafetensorsFile expected(folder / "expected.safetensors");
  const WeightBinder weights(checkpoint);
  SafetensorsWriter writer(folder / "actual.safetensors", Existing::Replace);
  for (const TensorInfo& info : expected.tensors()) writer.declare(info.name, DType::BF16, info.shape);
  for (const TensorInfo& info : expected.tensors()) {
    const Tensor t = weights(info.name, info.shape);
    writer.write(info.name, {static_cast<const std::byte*>(t.data), t.bytes()});
  }
  writer.commit();
  return {{"unclaimed", weights.report(SkipRules("model.layers.", 1)).unclaimed}};
} catch (const Error& e) {
  return {{"error", e.what()}};
}

}  // namespace

int main() try {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line).dump() << '\n';
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 2;
}
