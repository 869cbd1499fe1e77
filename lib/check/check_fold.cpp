// The record of a fold beside the weights that it tells of.
#include "check/folder_checks.h"

namespace kvcal {
namespace {

void check_tensor(const Checkpoint& checkpoint, const TensorFold& fold, const std::string& file, Report& report) {
  const std::string lines = std::to_string(fold.exponents.size()) + (fold.axis == Axis::Rows ? " rows" : " columns");
  const std::string name = printable(fold.name, 160);
  const TensorInfo* info = checkpoint.find(fold.name);
  if (!info) return report.add({"X02", name, "the tensor", lines, "none of this name", 0, file});
  const auto elements = static_cast<size_t>(info->shape.elements());
  if (fold.exponents.empty() || elements % fold.exponents.size() != 0)
    report.add({"X02", name, "the tensor", lines, str(*info), 0, file});
}

}  // namespace

std::optional<FoldMark> check_fold(const Checkpoint& checkpoint, Report& report) {
  report.evaluated({"X01", "X02", "X03"});
  const std::string file = (checkpoint.folder() / kFoldRecord).string();
  try {
    const std::optional<Json> record = read_fold_record(checkpoint.folder());
    if (!record) return std::nullopt;
    const FoldMark mark = fold_mark(*record);
    for (const TensorFold& fold : folded_tensors(*record)) check_tensor(checkpoint, fold, file, report);
    report.add(
        {"X03", "",
         std::to_string(mark.n_sites) + " sites, " + std::to_string(mark.n_left) + " of them left to a scale file", "",
         "", 0, file});
    return mark;
  } catch (const Error& e) {
    report.add({"X01", "", e.what(), "", "", 0, file});
    return std::nullopt;
  }
}

}  // namespace kvcal
