// In place of cudnn_attention.cpp where cuDNN's headers are not at hand.
#include "base/error.h"
#include "kernels/cudnn/cudnn_attention.h"

namespace kvcal::cuda {

std::unique_ptr<AttentionLibrary> make_cudnn_attention(std::span<const std::filesystem::path>) { return nullptr; }

std::string check_cudnn_graph(const AttentionPlan&, int) { fail("this program was built without cuDNN"); }

}  // namespace kvcal::cuda
