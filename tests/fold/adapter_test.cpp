// LoRA adapters that go with a folded model: which of their tensors get which factors, and which adapters are refused.
#include <cmath>

#include "checkpoint/fold_mark.h"
#include "checkpoint/safetensors_writer.h"
#include "fold/runs.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

constexpr const char* kLora = R"({"peft_type": "LORA"})";

struct Part {
  std::string name;
  int64_t rows, columns;
};

/// An adapter of ones.
fs::path written(const ScratchFolder& scratch, const std::vector<Part>& parts, const std::string& config = kLora,
                 float value = 1) {
  const fs::path folder = scratch / "adapter";
  fs::remove_all(folder);
  fs::create_directory(folder);
  write_file_atomically(folder / "adapter_config.json", config, Existing::Refuse);
  SafetensorsWriter writer(folder / "adapter_model.safetensors", Existing::Refuse);
  std::map<std::string, int64_t> elements;
  for (const Part& p : parts) {
    writer.declare(p.name, DType::F32, p.columns > 0 ? Shape{p.rows, p.columns} : Shape{p.rows});
    elements[p.name] = p.rows * std::max<int64_t>(p.columns, 1);
  }
  for (const auto& [name, n] : elements) {
    const std::vector<float> values(static_cast<size_t>(n), value);
    writer.write(name, std::as_bytes(std::span(values)));
  }
  writer.commit();
  return folder;
}

class AdapterFold {
 public:
  explicit AdapterFold(const std::string& model) : model_(Golden(model).folder) {
    request_ = request_for(model_, scratch, Balance::Channel);
    request_.check = false;
  }

  FoldResult fold_with_all(const std::vector<fs::path>& adapters) {
    request_.adapters = adapters;
    result_ = folded(request_);
    return result_;
  }
  FoldResult fold_with(const fs::path& adapter) { return fold_with_all({adapter}); }

  const fs::path& out() const { return request_.out; }

  std::string refusal(const std::vector<Part>& parts, const std::string& config = kLora, float value = 1) {
    const fs::path adapter = written(scratch, parts, config, value);
    const std::string message = message_of([&] { fold_with(adapter); });
    EXPECT_FALSE(fs::exists(request_.out));
    return message;
  }

  std::vector<float> tensor(const std::string& name) const {
    return golden_tensor(SafetensorsFile(request_.out.string() + "-adapter/adapter_model.safetensors"), name);
  }

  /// 2^e for each line of a module's axis.
  std::vector<float> factors(const std::string& module, Axis axis) const {
    std::vector<float> all;
    for (const WeightFactors& layer : result_.record.plan.layers)
      if (layer.module == module && layer.axis == axis)
        for (const int e : layer.exponents) all.push_back(std::ldexp(1.0F, e));
    return all;
  }

  ScratchFolder scratch;

 private:
  fs::path model_;
  FoldRequest request_;
  FoldResult result_;
};

const std::string kTransformers = "base_model.model.model.language_model.layers.0.self_attn.";
const std::string kLlava = "language_model.model.layers.0.self_attn.";

TEST(AdapterFold, FindsModulesThatTheCheckpointNamesOtherwise) {
  AdapterFold folding("llava");
  const std::string tower = "base_model.model.model.vision_tower.encoder.layers.0.self_attn.v_proj.lora_B.weight";
  const FoldResult plan = folding.fold_with(written(folding.scratch, {{kTransformers + "v_proj.lora_A.weight", 1, 48},
                                                                      {kTransformers + "v_proj.lora_B.weight", 24, 1},
                                                                      {kTransformers + "o_proj.lora_A.weight", 1, 48},
                                                                      {kTransformers + "o_proj.lora_B.weight", 48, 1},
                                                                      {tower, 24, 1}}));
  ASSERT_TRUE(plan.folds());
  const std::vector<float> values = folding.factors(kLlava + "v_proj", Axis::Rows);
  EXPECT_NE(values, std::vector<float>(24, 1));
  EXPECT_EQ(folding.tensor(kTransformers + "v_proj.lora_B.weight"), values);
  EXPECT_EQ(folding.tensor(kTransformers + "o_proj.lora_A.weight"), folding.factors(kLlava + "o_proj", Axis::Columns));
  EXPECT_EQ(folding.tensor(kTransformers + "v_proj.lora_A.weight"), std::vector<float>(48, 1));
  EXPECT_EQ(folding.tensor(kTransformers + "o_proj.lora_B.weight"), std::vector<float>(48, 1));
  EXPECT_EQ(folding.tensor(tower), std::vector<float>(24, 1));
}

TEST(AdapterFold, ReachesTheBiasesOfTheBase) {
  AdapterFold folding("qwen2");
  const std::string module = "model.layers.1.self_attn.v_proj",
                    bias = "base_model.model." + module + ".base_layer.bias";
  const auto rows = static_cast<int64_t>(
      SafetensorsFile(Golden("qwen2").folder / "model.safetensors").find(module + ".bias")->shape.elements());
  folding.fold_with(written(folding.scratch, {{bias, rows, 0}}));
  EXPECT_EQ(folding.tensor(bias), folding.factors(module, Axis::Rows));
}

TEST(AdapterFold, RefusesWhatFactorsCannotFollow) {
  AdapterFold folding("llama");
  const std::string module = "base_model.model.model.layers.0.self_attn.";
  const std::vector<Part> plain = {{module + "v_proj.lora_B.weight", 24, 1}};
  EXPECT_NE(folding.refusal(plain, R"({"peft_type": "LOHA"})").find("of the kind 'LOHA'"), std::string::npos);
  EXPECT_NE(folding.refusal(plain, R"({"peft_type": "LORA", "init_lora_weights": "pissa"})").find("begins by 'pissa'"),
            std::string::npos);
  EXPECT_NE(folding.refusal(plain, R"({"peft_type": "LORA", "layer_replication": [[0, 2]]})").find("repeats layers"),
            std::string::npos);
  EXPECT_NE(folding.refusal({{module + "o_proj.lora_magnitude_vector", 48, 0}}).find("(DoRA)"), std::string::npos);
  EXPECT_NE(folding.refusal({plain[0], {module + "w_proj.lora_B.weight", 24, 1}}).find("is of no module"),
            std::string::npos);
  EXPECT_NE(folding.refusal({{module + "v_proj.lora_B.weight", 12, 4}}).find("the model's layer has 24 rows"),
            std::string::npos);
  EXPECT_NE(folding.refusal({{"base_model.model.h.0.attn.lora_B.weight", 24, 1}}).find("adapter of another model"),
            std::string::npos);
}

TEST(AdapterFold, LeavesARecordAndIsNotFoldedTwice) {
  AdapterFold folding("llama");
  const std::string part = "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight";
  const FoldResult result = folding.fold_with(written(folding.scratch, {{part, 24, 1}}));
  const fs::path folded = folding.out().string() + "-adapter";
  const Json record = read_json_file(folded / kFoldRecord);
  EXPECT_EQ(get_string(record, "format"), kAdapterFoldFormat);
  EXPECT_EQ(record.at("model"), to_json(result.record).at("model"));
  EXPECT_EQ(folded_tensors(record), result.adapters.at(0).tensors);
  fs::remove_all(folding.out());
  EXPECT_NE(message_of([&] { folding.fold_with(folded); }).find("is folded already (kvcal-fold.json)"),
            std::string::npos);
}

TEST(AdapterFold, FailsWithTheModelAndTheOtherAdapters) {
  AdapterFold folding("llama");
  const std::string part = "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight";
  const fs::path first = written(folding.scratch, {{part, 24, 1}}), second = folding.scratch / "second";
  fs::copy(first, second, fs::copy_options::recursive);
  // What only shows when the second is written: there is a folder of finished shards of something else.
  const fs::path other = folding.out().string() + "-second.kvcal-partial";
  fs::create_directory(other);
  write_file_atomically(other / "change.txt", "other", Existing::Refuse);
  EXPECT_NE(message_of([&] {
              folding.fold_with_all({first, second});
            }).find("another fold that was interrupted"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folding.out()));
  EXPECT_FALSE(fs::exists(folding.out().string() + "-adapter"));
}

TEST(AdapterFold, WritesNothingWhereTheAdapterDoesNotTakeItsFactors) {
  AdapterFold folding("llama");
  const std::string part = "base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight";
  EXPECT_NE(folding.refusal({{part, 1, 48}}, kLora, 1.5e-38F).find("leave the normal range of F32"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
