// kvcal-fold.json of a folder from a stranger: an Error, or powers of two that --undo may multiply by.
#include "checkpoint/fold_mark.h"
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  fuzzing::accepts([&] {
    const Json record = parse_json({reinterpret_cast<const char*>(data), size}, kFoldRecordLimits);
    fuzzing::accepts([&] {
      const FoldMark mark = fold_mark(record);
      fuzzing::require(mark.n_left <= mark.n_sites, "what is left is of the sites");
    });
    size_t n_lines = 0;
    for (const TensorFold& fold : folded_tensors(record)) {
      n_lines += fold.exponents.size();
      for (const int e : fold.exponents) fuzzing::require(e >= -4096 && e <= 4096, "exponents are small");
    }
    fuzzing::require(n_lines <= size_t{1} << 25, "lines are counted before there is memory for them");
  });
  return 0;
}
