// How the rest of the program gets the CPU backend.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace kvcal {

struct CpuOptions {
  Precision precision = Precision::BF16;
  int threads = 0;                  // 0 = all processors this process may use
  bool poison_temporaries = false;  // end_batch() fills the arena with NaN (tests)
};

/// Throws when the processor is too old (below AVX2 on x86-64).
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

}  // namespace kvcal
