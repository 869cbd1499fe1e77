// Which device is used, and whether it can be.
#pragma once

namespace kvcal::cuda {

/// Makes it the current one of this thread. Throws Error, in words for the user, when there is no driver or one too old
/// for this library, no such device, or one too old for the kernels.
void use_device(int device);

/// Whether the current device computes in the host's memory: GB10, Jetson.
bool is_integrated();

}  // namespace kvcal::cuda
