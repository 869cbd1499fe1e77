#include "checkpoint/fold_mark.h"

#include <algorithm>

namespace kvcal {
namespace {

constexpr int64_t kMostLines = int64_t{1}
                               << 25;  // of all tensors together: a hundred times those of the largest models
constexpr int kMostExponent = 4096;

int64_t count_in(const Json& json, int64_t most, const std::string& what) {
  if (!json.is_number_integer() || json.get<int64_t>() < 0 || json.get<int64_t>() > most)
    fail(what + " is no whole number from 0 to " + std::to_string(most));
  return json.get<int64_t>();
}

int exponent_in(const Json& json) {
  const bool small =
      json.is_number_integer() && json.get<int64_t>() >= -kMostExponent && json.get<int64_t>() <= kMostExponent;
  if (!small)
    fail("an exponent is no whole number from -" + std::to_string(kMostExponent) + " to " +
         std::to_string(kMostExponent));
  return static_cast<int>(json.get<int64_t>());
}

const Json& list_in(const Json& object, const char* key) {
  const Json* list = find_member(object, key);
  if (!list || !list->is_array()) fail("has no list '" + std::string(key) + "'");
  return *list;
}

/// Runs are [first, count], in ascending order.
void fill_runs(const Json& runs, const Json& exponents, std::vector<int>& lines) {
  const auto n = static_cast<int64_t>(lines.size());
  int64_t done = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Json& run = runs[i];
    if (!run.is_array() || run.size() != 2) fail("a run is not [first, count]");
    const int64_t first = count_in(run[0], n, "the first line of a run");
    const int64_t count = count_in(run[1], n - first, "the length of a run");
    if (first < done) fail("runs overlap or are not in order");
    done = first + count;
    std::fill_n(lines.begin() + first, count, exponent_in(exponents[i]));
  }
}

TensorFold tensor_from(const Json& json, int64_t most_lines) {
  TensorFold fold{get_string(json, "name"), find_member(json, "rows") ? Axis::Rows : Axis::Columns, {}, false};
  while_doing(quoted(fold.name), [&] {
    const Json& runs = list_in(json, fold.axis == Axis::Rows ? "rows" : "columns");
    const Json& exponents = list_in(json, "exponents");
    if (exponents.size() != runs.size())
      fail("has " + std::to_string(runs.size()) + " runs and " + std::to_string(exponents.size()) + " exponents");
    if (const Json* one_plus = find_member(json, "one_plus")) {
      if (!one_plus->is_boolean()) fail("'one_plus' is neither true nor false");
      fold.one_plus = one_plus->get<bool>();
    }
    const Json* lines = find_member(json, "lines");
    if (!lines) fail("has no 'lines'");
    fold.exponents.assign(static_cast<size_t>(count_in(*lines, most_lines, "'lines'")), 0);
    fill_runs(runs, exponents, fold.exponents);
  });
  return fold;
}

}  // namespace

std::optional<Json> read_fold_record(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFoldRecord;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  Json record = read_json_file(path, kFoldRecordLimits);
  if (!record.is_object() || get_string_or(record, "format", "") != kFoldFormat)
    fail(quoted(path.string()) + " is no record of a fold ('format' is not " + quoted(std::string(kFoldFormat)) + ")");
  if (const std::string version = get_string(record, "version"); !version.starts_with("1."))
    fail(quoted(path.string()) + " has version " + quoted(version) +
         ", expected 1.x; was it written by a newer kvcal?");
  return record;
}

FoldMark fold_mark(const Json& record) {
  const Json* model = find_member(record, "model");
  if (!model || !model->is_object()) fail("has no object 'model'");
  FoldMark mark{get_string(*model, "weights_fingerprint", "model."), 0, 0};
  for (const Json& site : list_in(record, "sites")) {
    const Json* left = site.is_object() ? find_member(site, "left_to_scales") : nullptr;
    if (!left || !left->is_boolean()) fail("an entry of 'sites' has no 'left_to_scales', true or false");
    ++mark.n_sites;
    mark.n_left += left->get<bool>();
  }
  return mark;
}

std::vector<TensorFold> folded_tensors(const Json& record) {
  const Json& tensors = list_in(record, "tensors");
  if (tensors.empty()) fail("its list 'tensors' is empty");
  std::vector<TensorFold> folds;
  int64_t rest = kMostLines;
  for (const Json& tensor : tensors) {
    if (!tensor.is_object()) fail("an entry of 'tensors' is not an object");
    folds.push_back(tensor_from(tensor, rest));
    rest -= static_cast<int64_t>(folds.back().exponents.size());
  }
  return folds;
}

}  // namespace kvcal
