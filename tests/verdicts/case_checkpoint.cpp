#include "verdicts/case_checkpoint.h"

#include <fstream>
#include <span>

#include "checkpoint/safetensors_writer.h"

namespace kvcal {
namespace {

constexpr int64_t kTokens = 256;

struct Weight {
  Shape shape;
  std::vector<uint16_t> codes;  // bfloat16
};

uint16_t code_of(double x) { return to_bf16(static_cast<float>(x)).bits; }

Weight one_hot(double size) {
  Weight w{{kTokens, kTokens}, std::vector<uint16_t>(static_cast<size_t>(kTokens * kTokens), 0)};
  for (int64_t i = 0; i < kTokens; ++i) w.codes[static_cast<size_t>(i * (kTokens + 1))] = code_of(size);
  return w;
}

Weight constant(const Json& recipe) {
  Weight w;
  int64_t n = 1;
  const auto sizes = recipe["shape"].get<std::vector<int64_t>>();
  for (const int64_t size : sizes) n *= size;
  w.shape = Shape(std::span(sizes));
  w.codes.assign(static_cast<size_t>(n), code_of(get_number(recipe, "constant")));
  return w;
}

Weight weight_of(const Json& recipe, const CaseTables& tables) {
  if (recipe.contains("one_hot")) return one_hot(get_number(recipe, "one_hot"));
  if (recipe.contains("constant")) return constant(recipe);
  const CaseTable& t = tables.at(get_string(recipe, "table"));
  if (get_bool_or(recipe, "flat", false)) return {{t.rows * t.columns}, t.codes};
  if (!get_bool_or(recipe, "transposed", false)) return {{t.rows, t.columns}, t.codes};
  Weight w{{t.columns, t.rows}, {}};
  for (int64_t c = 0; c < t.columns; ++c)
    for (int64_t r = 0; r < t.rows; ++r) w.codes.push_back(t.codes[static_cast<size_t>(r * t.columns + c)]);
  return w;
}

/// Words that begin with $ stand for the case's own members; what the case does not have is left out.
Json config_of(const Json& the_case, const Json& words) {
  Json config = Json::object();
  for (const auto& [key, value] : words.items()) {
    const std::string word = value.is_string() ? value.get<std::string>() : "";
    if (!word.starts_with('$'))
      config[key] = value;
    else if (const Json* own = find_member(the_case, word.substr(1)))
      config[key] = *own;
  }
  return config;
}

}  // namespace

void write_case_checkpoint(const std::filesystem::path& folder, const Json& the_case, const CaseTables& tables,
                           const Json& classes) {
  const Json& own = classes[get_string(the_case, "class")];
  std::ofstream(folder / "config.json") << config_of(the_case, own["config"]).dump(1);
  std::map<std::string, Weight> weights;
  for (const auto& [name, recipe] : own["tensors"].items()) weights[name] = weight_of(recipe, tables);
  SafetensorsWriter writer(folder / "model.safetensors", Existing::Refuse);
  for (const auto& [name, w] : weights) writer.declare(name, DType::BF16, w.shape);
  for (const auto& [name, w] : weights) writer.write(name, std::as_bytes(std::span(w.codes)));
  writer.commit();
}

}  // namespace kvcal
