// Curves of a largest magnitude that only grows, relative to where it ended.
#pragma once

#include <span>
#include <vector>

namespace kvcal {

struct Point {
  double x = 0, y = 0;
};

/// The field of a chart, in units of the drawing: values 0 to 1 from bottom to top.
struct Field {
  double left = 30, top = 8, width = 280, height = 110;
};

/// Point i of n at the i-th of n evenly spaced places (a single one at the right end), each as high as the largest of
/// the values so far, relative to the largest of all. At most `most` points: of values that are left out, the last of
/// each run counts, and the last of all always. None where nothing is above zero.
std::vector<Point> growth_curve(std::span<const float> values, const Field& field, size_t most);

}  // namespace kvcal
