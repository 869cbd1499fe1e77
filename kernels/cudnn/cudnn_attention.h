// cuDNN's attention, where it was built in and the library is found.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "kernels/attention_library.h"

namespace kvcal::cuda {

/// Null in a build without cuDNN's headers. Opens nothing yet. folders: where to look for what the system's loader does
/// not find.
std::unique_ptr<AttentionLibrary> make_cudnn_attention(std::span<const std::filesystem::path> folders = {});

/// Has cuDNN check the graph of a plan for a device of this kind (90: Hopper), which need not be there. Empty: it is
/// accepted; else why not. Throws Error when the library is not found.
std::string check_cudnn_graph(const AttentionPlan& plan, int sm_version);

}  // namespace kvcal::cuda
