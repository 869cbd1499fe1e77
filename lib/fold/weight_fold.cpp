#include "fold/weight_fold.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

std::optional<ActivationScheme> scheme_of(const Checkpoint& checkpoint) {
  try {
    return read_activation_scheme(checkpoint);
  } catch (const Error&) {  // weights alone are quantized, or in a way that is not known
    return std::nullopt;
  }
}

/// One exponent for each of `n` groups, of which groups[i] has line i; 0 for one without lines, none where lines of a
/// group differ.
std::optional<std::vector<int>> by_group(const std::vector<int>& exponents, const std::vector<int64_t>& groups,
                                         int64_t n) {
  std::vector<std::optional<int>> found(static_cast<size_t>(n));
  for (size_t i = 0; i < exponents.size(); ++i) {
    std::optional<int>& group = found[static_cast<size_t>(groups[i])];
    if (group.value_or(exponents[i]) != exponents[i]) return std::nullopt;
    group = exponents[i];
  }
  std::vector<int> all;
  for (const std::optional<int>& e : found) all.push_back(e.value_or(0));
  return all;
}

/// Which of the rectangles along the axis each line is in.
std::vector<int64_t> groups_of(const Checkpoint& checkpoint, const RectangleScales& s, const WeightFactors& f) {
  if (f.axis == Axis::Rows) return read_groups(checkpoint, "", f.rows, s.rows, s.n_rows);
  return read_groups(checkpoint, s.order, f.columns, s.columns, s.n_columns);
}

/// Lines of one scale that need different factors.
std::string differing_lines(const RectangleScales& s, const WeightFactors& f) {
  const bool rows = f.axis == Axis::Rows;
  if (!rows && !s.order.empty())
    return "factors of " + quoted(f.module) + " change inside of a group of columns that " + quoted(s.order) +
           " puts together";
  return "factors of " + quoted(f.module) + " change inside of a block of " +
         std::to_string(rows ? s.rows : s.columns) + (rows ? " rows" : " columns") + " that has one scale";
}

/// Formats whose servers multiply activations as they are.
bool keeps_inputs(std::string_view format) { return format == "AWQ" || format == "GPTQ" || format == "pack-quantized"; }

}  // namespace

WeightFolder::WeightFolder(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint), facts_(read_quantization_facts(checkpoint)), scheme_(scheme_of(checkpoint)) {}

int64_t WeightFolder::elements(const std::string& name) const {
  const TensorInfo* info = checkpoint_.find(name);
  return info && is_plain(*info) ? info->shape.elements() : 0;
}

Folded WeightFolder::fold_gain(const std::string& name, const std::vector<int>& exponents) const {
  if (elements(name) != static_cast<int64_t>(exponents.size()))
    return Folded::impossible(quoted(name) + " is not a plain tensor of " + std::to_string(exponents.size()) +
                              " elements");
  return {{{name, Axis::Rows, exponents, false}}, {}, ""};
}

/// Columns are what activations meet: servers that round those by a common scale would round them differently.
std::string WeightFolder::inputs_obstacle(const WeightFactors& f) const {
  const std::string name = f.module + ".weight";
  if (!input_scale_name(checkpoint_, name).empty())
    return "the inputs of " + quoted(f.module) + " are rounded with a scale of the checkpoint";
  const int64_t whole = scheme_ && scheme_->rounding.group > 0 ? scheme_->rounding.group : f.columns;
  const std::vector<int64_t> together = read_groups(checkpoint_, "", f.columns, whole, f.columns);
  if (by_group(f.exponents, together, f.columns)) return "";
  return "the inputs of " + quoted(f.module) + " are rounded together, and their factors differ";
}

Folded WeightFolder::fold_stored(const WeightFactors& f, const StoredWeight& stored) const {
  const RectangleScales& s = stored.scales;
  if (f.axis == Axis::Columns && !keeps_inputs(stored.format))
    if (std::string why = inputs_obstacle(f); !why.empty()) return Folded::impossible(why);
  if (s.n_rows * s.n_columns == 1)
    return Folded::impossible(quoted(f.module) +
                              " has one scale for all of it, which servers replace when they join projections");
  const bool rows = f.axis == Axis::Rows;
  const auto lines = by_group(f.exponents, groups_of(checkpoint_, s, f), rows ? s.n_rows : s.n_columns);
  if (!lines) return Folded::impossible(differing_lines(s, f));
  // Of one row of scales (or one column), every element gets it.
  const bool stored_rows = rows != s.inputs_first;
  return {{{s.name, stored_rows ? Axis::Rows : Axis::Columns, *lines}}, {}, ""};
}

Folded WeightFolder::fold(const WeightFactors& f) const {
  const std::string name = f.module + ".weight";
  const TensorInfo* plain = checkpoint_.find(name);
  Folded folded;
  if (plain && is_plain(*plain)) {
    if (!(plain->shape == Shape{f.rows, f.columns}))
      return Folded::impossible(quoted(name) + " is " + str(*plain) + ", expected the shape " +
                                str(Shape{f.rows, f.columns}));
    folded.tensors.push_back({name, f.axis, f.exponents});
  } else {
    const WeightRequest request{checkpoint_, facts_, name, {f.rows, f.columns}};
    const std::optional<StoredWeight> stored = find_stored_weight(request);
    if (!stored) return Folded::impossible(quoted(name) + " is not there");
    folded = fold_stored(f, *stored);
  }
  if (f.axis == Axis::Rows && folded.obstacle.empty() && checkpoint_.has(f.module + ".bias")) {
    Folded bias = fold_gain(f.module + ".bias", f.exponents);
    if (!bias.obstacle.empty()) return bias;
    folded.tensors.push_back(bias.tensors[0]);
  }
  if (folded.obstacle.empty()) folded.layers.push_back(f);
  return folded;
}

}  // namespace kvcal
