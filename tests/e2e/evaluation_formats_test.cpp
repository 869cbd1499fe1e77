// The names of formats that evaluate takes, where recipes are read.
#include <gtest/gtest.h>

#include "artifact/saved_evaluation.h"
#include "capacity/cache_cost.h"
#include "evaluate/formats.h"

namespace kvcal {
namespace {

/// validate, plan and export read the names of evaluate's formats from files.
TEST(EvaluationFormats, AreKnownWhereverARecipeIsRead) {
  KvLayout layout;
  layout.n_heads = layout.n_kv_heads = 3, layout.head_dim_k = 64, layout.head_dim_v = 32;
  ModelSpec spec;
  spec.layers.resize(1);
  spec.caches = {layout};
  std::vector<std::string> names = stored_format_names();
  for (const std::string& key : stored_format_names())
    if (!stored_format(key).is_mixed()) names.insert(names.end(), {key + ":nvfp4", "bf16:" + key, key + ":bf16"});
  EXPECT_EQ(names.size(), 15U + 3 * 14);
  for (const std::string& name : names) {
    EXPECT_TRUE(is_recipe_format(name)) << name;
    EXPECT_EQ(cost_of_sequence(spec, std::vector{stored_layer(0, name)}, 1).bytes_per_token(),
              bytes_per_token(layout, stored_format(name)))
        << name;
  }
  for (const char* name : {"bf16:bf16", "turboquant_k8v4:bf16", "fp8_e4m3:", ":int8", "int8:int8:int8", "fp9"})
    EXPECT_FALSE(is_recipe_format(name)) << name;
}

}  // namespace
}  // namespace kvcal
