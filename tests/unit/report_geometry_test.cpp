// Where bars, cells and curves stand, worked out by hand from small tables.
#include <gtest/gtest.h>

#include <cmath>

#include "report/growth_geometry.h"
#include "report/heat_map_geometry.h"
#include "report/histogram_geometry.h"
#include "report/markup.h"

namespace kvcal {
namespace {

// bf16 codes: 0x3F80 is 1.0, 0x3FC0 is 1.5, 0x4000 is 2.0, 0x3F00 is 0.5, 0x0001 is 2^-133.
HeadStatistics head_of(std::vector<std::pair<uint16_t, uint64_t>> counts, uint64_t zeros) {
  HeadStatistics head;
  head.histogram.counts = std::move(counts);
  head.histogram.zeros = zeros;
  return head;
}

TEST(OctaveShares, are_of_all_values_of_all_heads) {
  // Of 20 values: one of 0.5, five in [1, 2), four of 2.0, ten zeros.
  const std::vector<HeadStatistics> heads = {head_of({{0x3F00, 1}, {0x3F80, 2}, {0x3FC0, 1}}, 6),
                                             head_of({{0x3FC0, 2}, {0x4000, 4}}, 4)};
  const std::vector<OctaveShare> shares = octave_shares(heads);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].octave, -1);
  EXPECT_DOUBLE_EQ(shares[0].share, 0.05);
  EXPECT_EQ(shares[1].octave, 0);
  EXPECT_DOUBLE_EQ(shares[1].share, 0.25);
  EXPECT_EQ(shares[2].octave, 1);
  EXPECT_DOUBLE_EQ(shares[2].share, 0.2);
}

TEST(OctaveShares, of_subnormals_and_of_nothing) {
  const std::vector<HeadStatistics> tiny = {head_of({{0x0001, 1}}, 0)};
  EXPECT_EQ(octave_shares(tiny)[0].octave, -133);
  EXPECT_TRUE(octave_shares({}).empty());
}

HistogramAxes axes() {
  HistogramAxes a;
  a.low = -4;
  a.high = 4;
  a.left = 30;
  a.top = 6;
  a.octave_width = 10;
  a.height = 100;
  a.top_share = 0.5;
  return a;
}

TEST(HistogramAxes, are_clamped_and_shares_grow_from_zero) {
  const HistogramAxes a = axes();
  EXPECT_DOUBLE_EQ(a.x(-4), 30);
  EXPECT_DOUBLE_EQ(a.x(0.5), 75);
  EXPECT_DOUBLE_EQ(a.x(99), 110);
  EXPECT_DOUBLE_EQ(a.y(0), 106);
  EXPECT_DOUBLE_EQ(a.y(0.1), 86);
  EXPECT_DOUBLE_EQ(a.y(0.5), 6);
  EXPECT_DOUBLE_EQ(a.y(1), 6);
}

TEST(Bars, compare_by_their_length) {
  const std::vector<OctaveShare> shares = {{-1, 0.1}, {0, 0.4}, {3, 1e-12}};
  const std::vector<Bar> bars = bars_of(shares, axes(), {-3, 3});
  ASSERT_EQ(bars.size(), 3U);
  EXPECT_DOUBLE_EQ(bars[0].x, 60);
  EXPECT_DOUBLE_EQ(bars[0].width, 9);
  EXPECT_DOUBLE_EQ(bars[0].y, 86);
  EXPECT_DOUBLE_EQ(bars[0].height, 20);
  EXPECT_DOUBLE_EQ(bars[1].height, 4 * bars[0].height);
  EXPECT_NEAR(bars[2].height, 0, 1e-9);
}

TEST(Bars, are_lost_where_the_whole_octave_is) {
  // Kept: 2^-2 to 2^1.5. The octave [2^-3, 2^-2) is lost, [2^-2, 2^-1) is not; [2, 4) is clipped in part, [4, 8) whole.
  const std::vector<OctaveShare> shares = {{-3, 0.1}, {-2, 0.1}, {1, 0.1}, {2, 0.1}};
  const std::vector<Bar> bars = bars_of(shares, axes(), {-2, 1.5});
  EXPECT_TRUE(bars[0].lost);
  EXPECT_FALSE(bars[1].lost);
  EXPECT_FALSE(bars[2].lost);
  EXPECT_TRUE(bars[3].lost);
  EXPECT_DOUBLE_EQ(lost_share(shares, {-2, 1.5}), 0.2);
}

TEST(Bars, outside_of_the_axes_are_gathered_at_their_ends) {
  const std::vector<OctaveShare> shares = {{-90, 0.02}, {-5, 0.03}, {-4, 0.05}, {70, 0.5}};
  const std::vector<Bar> bars = bars_of(shares, axes(), {-100, 100});
  ASSERT_EQ(bars.size(), 2U);
  EXPECT_DOUBLE_EQ(bars[0].x, 30);
  EXPECT_NEAR(bars[0].y, 86, 1e-9);  // 0.02 + 0.03 + 0.05 = 0.1
  EXPECT_DOUBLE_EQ(bars[1].x, 100);
}

TEST(LostRms, weighs_values_by_their_size) {
  // Squares 1/16 · 0.5 and 1 · 0.5: losing the small half is sqrt(1/17) of all, losing the large one sqrt(16/17).
  const std::vector<OctaveShare> shares = {{-2, 0.5}, {0, 0.5}};
  EXPECT_NEAR(lost_rms(shares, {-1, 3}), std::sqrt(1.0 / 17), 1e-12);
  EXPECT_NEAR(lost_rms(shares, {-9, 0}), std::sqrt(16.0 / 17), 1e-12);
  EXPECT_EQ(lost_rms(shares, {-9, 9}), 0);
  EXPECT_EQ(lost_rms({}, {-9, 9}), 0);
  EXPECT_LT(lost_rms(std::vector<OctaveShare>{{-30, 0.9}, {0, 0.1}}, {-9, 9}), 1e-8) << "however many are next to zero";
}

TEST(LinearAxis, ends_at_a_round_number) {
  EXPECT_DOUBLE_EQ(round_end(0.00446), 0.005);
  EXPECT_DOUBLE_EQ(round_end(0.29), 0.3);
  EXPECT_DOUBLE_EQ(round_end(0.3), 0.3);
  EXPECT_DOUBLE_EQ(round_end(6.5), 8);
  EXPECT_DOUBLE_EQ(round_end(85), 100);
  EXPECT_DOUBLE_EQ(round_end(1000), 1000);
  EXPECT_DOUBLE_EQ(round_end(0), 1);
}

TEST(HeatMap, groups_heads_beyond_32_columns) {
  EXPECT_EQ(heads_per_cell(0), 1U);
  EXPECT_EQ(heads_per_cell(32), 1U);
  EXPECT_EQ(heads_per_cell(33), 2U);
  EXPECT_EQ(heads_per_cell(128), 4U);
  const std::vector<float> heads = {1, 5, 2, 2, 9};
  EXPECT_EQ(cells_of(heads, 1), heads);
  EXPECT_EQ(cells_of(heads, 2), (std::vector<float>{5, 2, 9}));
}

TEST(HeatMap, shades_are_even_in_octaves) {
  // Nine shades from 2^0 to 2^9: one for each octave.
  EXPECT_EQ(shade_of(1, 1, 512), 0);
  EXPECT_EQ(shade_of(3, 1, 512), 1);
  EXPECT_EQ(shade_of(24, 1, 512), 4);
  EXPECT_EQ(shade_of(512, 1, 512), 8);
  EXPECT_EQ(shade_of(7, 7, 7), 4);
  EXPECT_EQ(shade_of(0, 1, 512), 0);
  EXPECT_EQ(shade_of(1, 0, 0), 4);
}

TEST(Growth, is_of_the_largest_so_far) {
  Field f;
  f.left = 0;
  f.top = 0;
  f.width = 100;
  f.height = 10;
  const std::vector<float> values = {2, 1, 8, 4, 3};
  const std::vector<Point> points = growth_curve(values, f, 40);
  ASSERT_EQ(points.size(), 5U);
  EXPECT_DOUBLE_EQ(points[0].x, 0);
  EXPECT_DOUBLE_EQ(points[0].y, 7.5);  // 2 of 8
  EXPECT_DOUBLE_EQ(points[1].y, 7.5);
  EXPECT_DOUBLE_EQ(points[2].x, 50);
  EXPECT_DOUBLE_EQ(points[2].y, 0);
  EXPECT_DOUBLE_EQ(points[4].x, 100);
  EXPECT_DOUBLE_EQ(points[4].y, 0);
}

TEST(Growth, of_many_values_keeps_the_ends_of_runs) {
  Field f;
  f.height = 100;
  f.top = 0;
  std::vector<float> values(100, 1);
  values[99] = 4;  // only the very last is larger
  const std::vector<Point> points = growth_curve(values, f, 10);
  ASSERT_EQ(points.size(), 10U);
  EXPECT_DOUBLE_EQ(points[8].y, 75);
  EXPECT_DOUBLE_EQ(points[9].y, 0);
  EXPECT_TRUE(growth_curve(std::vector<float>{0, 0}, f, 10).empty());
  EXPECT_TRUE(growth_curve({}, f, 10).empty());
}

TEST(Markup, escapes_what_strangers_write) {
  EXPECT_EQ(escaped("<script>alert('x')</script> & \"y\""),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;");
  EXPECT_EQ(escaped("h\u00E9, \u65E5\u672C, \U0001F600"), "h\u00E9, \u65E5\u672C, \U0001F600");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped(std::string("a\0b\x1b\x7f", 5)), "a" + bad + "b" + bad + bad);
  EXPECT_EQ(escaped("\xC0\xAF\xED\xA0\x80\xF5\xE2\x82"), bad + bad + bad + bad + bad + bad + bad + bad);
}

TEST(Markup, writes_short_coordinates) {
  EXPECT_EQ(coordinate(12.0), "12");
  EXPECT_EQ(coordinate(12.34), "12.3");
  EXPECT_EQ(coordinate(-0.01), "0");
}

}  // namespace
}  // namespace kvcal
