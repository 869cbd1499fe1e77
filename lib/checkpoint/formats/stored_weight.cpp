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

template <class Use>
void for_each_object(const Json* members, Use use) {
  if (!members || !members->is_object()) return;
  for (const auto& member : members->items())
    if (member.value().is_object()) use(member.value());
}

/// 0 when it is no integer.
int64_t int_at(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  return value && value->is_number_integer() ? value->get<int64_t>() : 0;
}

std::string word_at(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

/// Of integers a number, which may be -1 (one group); of AutoRound's FP8 the extents of a block.
void add_group_size(QuantizationFacts& facts, const Json& object) {
  add_block(facts, find_member(object, "group_size"));
  if (const int64_t size = int_at(object, "group_size"); size > 0 && size <= kMostBlock)
    facts.group_sizes.push_back(size);
}

bool is(const Json& object, const char* key, const Json& expected) {
  const Json* value = find_member(object, key);
  return value && *value == expected;
}

void add_config_groups(QuantizationFacts& facts, const Json& quantization) {
  int n = 0, n_with_zeros = 0, n_ordered = 0;
  for_each_object(find_member(quantization, "config_groups"), [&](const Json& group) {
    const Json* weights = find_member(group, "weights");
    if (!weights || !weights->is_object()) return;
    add_block(facts, find_member(*weights, "block_structure"));
    add_group_size(facts, *weights);
    if (const int64_t bits = int_at(*weights, "num_bits"); bits >= 1 && bits <= 8)
      facts.bits.push_back(static_cast<int>(bits));
    ++n;
    n_with_zeros += is(*weights, "symmetric", false);
    n_ordered += is(*weights, "actorder", "group");
  });
  facts.zero_points = n > 0 && n_with_zeros == n;
  facts.ordered = n > 0 && n_ordered == n;
}

bool stores_zeros_less_one(const Json& quantization) {
  const std::string packing = word_at(quantization, "packing_format");  // AutoRound's
  return word_at(quantization, "checkpoint_format") != "gptq_v2" && packing != "auto_round" &&
         packing != "auto_round:gptqmodel";
}

}  // namespace

QuantizationFacts read_quantization_facts(const Checkpoint& checkpoint) {
  QuantizationFacts facts;
  const Json quantization = find_quantization(checkpoint.config(), checkpoint.folder());
  facts.weights_quantized = !quantization.is_null();
  facts.unread = describe_quantization(checkpoint.config(), checkpoint.folder()).unread;
  if (quantization.is_object()) {
    add_block(facts, find_member(quantization, "weight_block_size"));
    add_config_groups(facts, quantization);
    add_group_size(facts, quantization);
    facts.ordered = facts.ordered || is(quantization, "desc_act", true);
    for (const char* overrides : {"dynamic", "extra_config"})
      for_each_object(find_member(quantization, overrides), [&](const Json& one) {
        add_group_size(facts, one);
        if (find_member(one, "desc_act")) facts.ordered = false;
      });
    facts.zeros_less_one = stores_zeros_less_one(quantization);
  }
  return facts;
}

std::string WeightRequest::beside(std::string_view suffix) const {
  const std::string modelopt = name + "_weight" + std::string(suffix);  // ModelOpt's, of all experts in one tensor
  return !name.ends_with(".weight") && checkpoint.has(modelopt) ? modelopt : name + std::string(suffix);
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

const TensorInfo* find_part(const WeightRequest& request, const std::string& name, std::initializer_list<DType> dtypes,
                            bool said, std::string_view format) {
  const TensorInfo* found = said ? &need_companion(request, name, format) : request.checkpoint.find(name);
  if (found && !find_typed(request, name, dtypes))
    fail("weight " + quoted(request.name) + " is stored as " + std::string(format) + ": " + quoted(name) + " is " +
         str(*found) + ", expected " + std::string(name_of(*dtypes.begin())));
  return found;
}

void check_group_size(const WeightRequest& request, const TensorInfo& scales, int64_t size, std::string_view format) {
  const std::vector<int64_t>& known = request.facts.group_sizes;
  if (known.empty() || size == request.in() || std::find(known.begin(), known.end(), size) != known.end()) return;
  fail("weight " + quoted(request.name) + " " + str(request.shape) + " is stored as " + std::string(format) +
       ", by its scales " + quoted(scales.name) + " " + str(scales) + " in groups of " + std::to_string(size) +
       " columns, but config.json says group_size " + std::to_string(known.front()) +
       "; is config.json from another checkpoint?");
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
  refuse_unread_format(request);
  refuse_modelopt_int4(request);
  for (const auto find : {find_one_byte, find_pack_quantized, find_nvfp4, find_mxfp4, find_awq, find_gptq})
    if (std::optional<StoredWeight> stored = find(request)) return stored;
  return std::nullopt;
}

}  // namespace kvcal
