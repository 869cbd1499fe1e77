// What is tried of thorough rows alone, against the formula: the rounded query, and what rounded keys do to the output.
#include "parity/sample_thorough.h"

namespace kvcal::test {
namespace {

constexpr SampleCase kThoroughCases[] = {
    {1, 2, 1, 24, 16},
    {64, 6, 2, 33, 7},
    {66, 4, 4, 64, 64, Content::Offset},
    {70, 2, 1, 16, 136, Content::Growing, 30},
    {70, 2, 1, 33, 16, Content::Normal, 0, 33, 1.5f},
    {66, 12, 1, 40, 24, Content::TinyChannel, 0, 0, 0.0f, true, true},
    {140, 4, 2, 24, 16, Content::Normal, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::E4m3, 0, 2},
    {100, 12, 1, 40, 24, Content::Normal, 0, 0, 2.0f, true, true, 0, 0, SampleFormat::E4m3, 0, 1},
    {40, 2, 1, 256, 256, Content::SinkToken, 0, 0, 20.0f, true},
    {70, 2, 1, 16, 16, Content::FewLarge, 30, 0, 0.0f, true, false, 20, 60},
    {20, 2, 1, 16, 16, Content::Zeros},
    {70, 4, 2, 24, 16, Content::Normal, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::Int8},
    {40, 2, 1, 33, 7, Content::SinkToken, 0, 0, 0.0f, true, false, 0, 0, SampleFormat::Int8, 3},
    {40, 2, 1, 20, 9, Content::FewLarge, 0, 0, 0.0f, false, false, 0, 0, SampleFormat::E4m3, 8},
};

using Thorough = testing::TestWithParam<std::tuple<Precision, SampleCase>>;

TEST_P(Thorough, EqualsDenseAttentionWithEveryRungTried) {
  expect_thorough(std::get<0>(GetParam()), std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Cases, Thorough,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kThoroughCases)));

constexpr SampleCase kCompanyCases[] = {
    {70, 4, 2, 17, 16, Content::Growing, 40, 0, 0.0f, false, false, 0, 0, SampleFormat::Int8, 3},
    {70, 4, 1, 24, 16, Content::SinkToken, 0, 33, 3.0f, true, true},
};

TEST(Thorough, ChangeNothingOfOtherRows) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const SampleCase& c : kCompanyCases) expect_independent_rows(p, c);
}

}  // namespace
}  // namespace kvcal::test
