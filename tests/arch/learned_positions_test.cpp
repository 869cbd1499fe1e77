// Models that have learned a row for each position know no further ones.
#include <gtest/gtest.h>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/message_of.h"
#include "harness/whole_run.h"

namespace kvcal {
namespace {

class LearnedPositions : public ::testing::TestWithParam<std::string> {};

TEST_P(LearnedPositions, EndWithTheirTable) {
  const Golden golden(GetParam());
  LoadedModel m(golden.folder, backend(Precision::F32));
  const auto embedding = m.model->load_embedding(*m.ops, m.weights.text);
  const auto n = static_cast<int32_t>(m.model->spec().max_positions);
  const auto embedded = [&](int32_t position) {
    Batch batch;
    batch.ids = {3};
    batch.positions = {position};
    return embedding->forward(*m.ops, batch);
  };
  EXPECT_EQ(embedded(n - 1).dim(0), 1);
  EXPECT_NE(message_of([&] { embedded(n); }).find("beyond the " + std::to_string(n) + " positions"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Cases, LearnedPositions, ::testing::Values("gpt2", "opt"));

}  // namespace
}  // namespace kvcal
