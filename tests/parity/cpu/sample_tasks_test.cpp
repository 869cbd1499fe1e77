// Thorough rows in shapes that would take an emulated device long, and in tasks of the CPU backend.
#include "parity/sample_thorough.h"

namespace kvcal::test {
namespace {

constexpr SampleCase kTaskCases[] = {
    {1, 2, 1, 24, 16},
    {64, 6, 2, 33, 7},
    {130, 8, 1, 40, 24},
    {150, 4, 4, 64, 64},
    {90, 2, 1, 128, 128, Content::Growing},
    {200, 4, 2, 64, 64, Content::Offset},
    {150, 2, 1, 32, 24, Content::Offset, 0, 0, 0.0f, true},
    {200, 4, 2, 16, 16, Content::Normal, 40},
    {140, 2, 1, 16, 16, Content::Normal, 0, 33},
    {100, 4, 2, 32, 32, Content::Normal, 0, 0, 1.5f},
    {130, 4, 2, 64, 64, Content::Normal, 40, 0, 0.0f, true},
    {80, 2, 1, 40, 24, Content::SinkToken, 0, 0, 20.0f, true},
    {130, 40, 1, 40, 32, Content::Normal, 0, 0, 0.0f, false, true},
    {150, 4, 2, 64, 64, Content::TinyChannel},
    {150, 2, 1, 80, 80, Content::FewLarge},
    {70, 2, 1, 1, 1},
    {64, 3, 3, 17, 33},
    {128, 2, 1, 31, 15, Content::Growing, 1, 0, 0.0f, true},
    {140, 2, 1, 16, 16, Content::Normal, 0, 64, 0.0f, true},
    {70, 130, 1, 18, 9, Content::Normal, 0, 0, 0.0f, true, true},
    {6, 520, 1, 9, 8, Content::Normal, 0, 0, 0.0f, false, true},
    {160, 2, 1, 16, 16, Content::Normal, 30, 0, 0.0f, true, false, 60, 150},
};

using ThoroughTasks = testing::TestWithParam<std::tuple<Precision, SampleCase>>;

TEST_P(ThoroughTasks, EqualDenseAttentionWithEveryRungTried) {
  expect_thorough(std::get<0>(GetParam()), std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Cases, ThoroughTasks,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kTaskCases)));

constexpr SampleCase kSharedTasks[] = {
    {300, 4, 2, 24, 16, Content::Growing, 100},
    {300, 4, 1, 33, 40, Content::SinkToken, 0, 0, 0.0f, true},
    {300, 2, 2, 16, 16, Content::TinyChannel, 0, 70, 3.0f},
    {300, 4, 1, 24, 16, Content::FewLarge, 0, 0, 0.0f, false, true},
};

TEST(ThoroughTasks, ChangeNothingOfOtherRows) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const SampleFormat format : {SampleFormat::E4m3, SampleFormat::Int8})
      for (SampleCase c : kSharedTasks) {
        c.format = format;
        c.below = 3;
        expect_independent_rows(p, c);
      }
}

}  // namespace
}  // namespace kvcal::test
