// cuDNN's attention, where it was built in and the library is found.
#pragma once

#include <memory>
#include <string>

#include "kernels/attention_library.h"

namespace kvcal::cuda {

/// Null in a build without cuDNN's headers. Opens nothing yet.
std::unique_ptr<AttentionLibrary> make_cudnn_attention();

/// Has cuDNN check the graph of a plan for a device of this kind (90: Hopper), which need not be there. Empty: it is
/// accepted; else why not. Throws Error when the library is not found.
std::string check_cudnn_graph(const AttentionPlan& plan, int sm_version);

}  // namespace kvcal::cuda
