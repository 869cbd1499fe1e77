#include "checkpoint/formats/stored_weight.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

constexpr int64_t kMostBlock = 1 << 20;

void add_block(QuantizationFacts& facts, const Json* size) {
  if (!size || !size->is_array() || size->size() != 2) return;
  std::array<int64_t, 2> block{};
  for (size_t i = 0; i < 2; ++i) {
    if (!(*size)[i].is_number_integer()) return;
    block[i] = (*size)[i].get<int64_t>();
    if (block[i] < 1 || block[i] > kMostBlock) return;
  }
  facts.blocks.push_back(block);
}

}  // namespace

QuantizationFacts read_quantization_facts(const Checkpoint& checkpoint) {
  QuantizationFacts facts;
  const Json quantization = find_quantization(checkpoint.config(), checkpoint.folder());
  facts.weights_quantized = !quantization.is_null();
  if (quantization.is_object()) {
    add_block(facts, find_member(quantization, "weight_block_size"));
    if (const Json* groups = find_member(quantization, "config_groups"); groups && groups->is_object())
      for (const auto& group : groups->items())
        if (group.value().is_object())
          if (const Json* weights = find_member(group.value(), "weights"); weights && weights->is_object())
            add_block(facts, find_member(*weights, "block_structure"));
    if (const Json* format = find_member(quantization, "checkpoint_format"))
      facts.zeros_less_one = *format != "gptq_v2";
  }
  facts.blocks.push_back({128, 128});
  return facts;
}

std::string WeightRequest::module(std::string_view tensor) const {
  constexpr std::string_view kWeight = "weight";
  const bool named = name.ends_with(".weight");
  return (named ? name.substr(0, name.size() - kWeight.size()) : name + ".") + std::string(tensor);
}

const TensorInfo* find_typed(const WeightRequest& request, const std::string& name,
                             std::initializer_list<DType> dtypes) {
  const TensorInfo* found = request.checkpoint.find(name);
  return found && std::find(dtypes.begin(), dtypes.end(), found->dtype) != dtypes.end() ? found : nullptr;
}

const TensorInfo& need_companion(const WeightRequest& request, const std::string& name, std::string_view format) {
  const TensorInfo* found = request.checkpoint.find(name);
  if (!found)
    fail("weight " + quoted(request.name) + " is stored as " + std::string(format) + ", but " + quoted(name) +
         " is missing; is the checkpoint complete?");
  return *found;
}

void check_shape(const WeightRequest& request, const TensorInfo& found, const Shape& expected,
                 std::string_view format) {
  if (!(found.shape == expected))
    fail("weight " + quoted(request.name) + " " + str(request.shape) + " is stored as " + std::string(format) + ": " +
         quoted(found.name) + " is " + str(found) + ", expected the shape " + str(expected) +
         "; is config.json from another checkpoint?");
}

std::optional<StoredWeight> find_stored_weight(const WeightRequest& request) {
  if (request.shape.rank() != 2 && request.shape.rank() != 3) return std::nullopt;
  refuse_modelopt_int4(request);
  for (const auto find : {find_one_byte, find_pack_quantized, find_nvfp4, find_mxfp4, find_awq, find_gptq})
    if (std::optional<StoredWeight> stored = find(request)) return stored;
  return std::nullopt;
}

}  // namespace kvcal
