#include "arch/backend.h"
#include "ops/cpu/cpu_ops.h"

namespace kvcal {

std::unique_ptr<Ops> backend(Precision precision) { return make_cpu_ops({precision, 2, true}); }

}  // namespace kvcal
