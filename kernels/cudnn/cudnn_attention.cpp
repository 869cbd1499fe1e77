// cuDNN's attention through the graph interface of its C++ headers. libcudnn.so.9 is opened when it is first asked for.
//
// A graph has packed rows (ragged offsets), the sequences' own lengths (padding mask), and a causal band whose diagonal
// ends bottom right: the last query sees the last key, also of a sequence that begins here. There top left would say
// the same, but cuDNN 9.14 takes other kernels for it up to dimension 64, and rows of a cut sequence would have other
// bits than those of a whole one (tests/bench/probes/attention_bits.cpp).
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "kernels/cudnn/cudnn_attention.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "kernels/runtime/memory.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the headers look functions up in it
}

namespace kvcal::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

constexpr int kOldest = 91000;  // before it, windows and the bottom right diagonal have holes

enum Name : int64_t { kQ = 1, kK, kV, kY, kQueryCounts, kKeyCounts, kQOffsets, kKOffsets, kVOffsets, kYOffsets };

std::string version_text(size_t version) {
  return "cudnn-" + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Empty: no error.
std::string text(fe::error_t error) { return error.is_bad() ? error.get_message() : ""; }

using Folders = std::vector<std::filesystem::path>;

/// As the system's loader finds it, else from one of the folders; null with what to say of it.
void* open_one(const std::string& name, const Folders& folders, const std::string& package, std::string& why_not) {
  Folders places = {""};  // by name alone
  places.insert(places.end(), folders.begin(), folders.end());
  why_not.clear();
  for (const std::filesystem::path& folder : places) {
    if (void* const library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    // "NAME: cannot open shared object file" names what is missing: this one, or one that it needs.
    const std::string error = dlerror();
    const bool missing = error.starts_with((folder / name).string() + ": cannot open shared object file");
    if (!missing && why_not.empty()) why_not = name + " is there and cannot be opened: " + error;
  }
  if (why_not.empty()) why_not = name + " is not found: install " + package + " by pip";
  return nullptr;
}

/// Why cuDNN cannot be used; empty when it can.
std::string open_library(const Folders& folders) {
  if (!fe::cudnn_dlhandle) {
    // The headers would take whichever runtime they find first, and warn of two.
    const std::string major = std::to_string(CUDART_VERSION / 1000), runtime = "libcudart.so." + major;
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), 0);
    // The headers open the one by name, cuDNN the other: by that they find what is open already.
    std::string why_not;
    if (!open_one(runtime, folders, "nvidia-cuda-runtime", why_not)) return why_not;
    open_one("libnvrtc.so." + major, folders, "nvidia-cuda-nvrtc", why_not);  // cuDNN says what it misses without
    fe::cudnn_dlhandle = open_one("libcudnn.so.9", folders, "nvidia-cudnn-cu" + major, why_not);
    if (!fe::cudnn_dlhandle) return why_not;
  }
  const auto version = static_cast<int>(fe::detail::get_backend_version());
  return version >= kOldest ? "" : version_text(version) + " is older than " + version_text(kOldest);
}

std::shared_ptr<Tensor_attributes> table(fe::graph::Graph& graph, Name name, int64_t n, fe::DataType_t type) {
  return graph.tensor(
      Tensor_attributes().set_uid(name).set_dim({n, 1, 1, 1}).set_stride({1, 1, 1, 1}).set_data_type(type));
}

/// Rows of [heads, dim] one after the other; sequence i begins at offset i.
Tensor_attributes packed(Name name, const AttentionPlan& p, int64_t rows, int64_t heads, int64_t dim) {
  Tensor_attributes t;
  t.set_uid(name).set_dim({p.n_sequences, heads, rows, dim}).set_stride({rows * heads * dim, dim, heads * dim, 1});
  return t;
}

/// sm_version: of the device; 0: of the one in use.
std::unique_ptr<fe::graph::Graph> make_graph(const AttentionPlan& p, int sm_version = 0) {
  auto graph = std::make_unique<fe::graph::Graph>();
  if (sm_version > 0) graph->set_sm_version(sm_version);
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto offsets = [&](Name name) { return table(*graph, name, p.n_sequences + 1, fe::DataType_t::INT64); };
  const auto counts = [&](Name name) { return table(*graph, name, p.n_sequences, fe::DataType_t::INT32); };
  const auto rows = [&](Name name, int64_t n, int64_t heads, int64_t dim, Name offset) {
    return graph->tensor(packed(name, p, n, heads, dim).set_ragged_offset(offsets(offset)));
  };
  const auto q = rows(kQ, p.most_queries, p.n_heads, p.key_dim, kQOffsets);
  const auto k = rows(kK, p.most_keys, p.n_kv_heads, p.key_dim, kKOffsets);
  const auto v = rows(kV, p.most_keys, p.n_kv_heads, p.value_dim, kVOffsets);
  fe::graph::SDPA_attributes options;
  options.set_name("attention")
      .set_generate_stats(false)
      .set_attn_scale(p.scale)
      .set_padding_mask(true)
      .set_seq_len_q(counts(kQueryCounts))
      .set_seq_len_kv(counts(kKeyCounts))
      .set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT)
      .set_diagonal_band_right_bound(0);
  // Key j stays visible to query i while j + window > i, as in AttentionSpec.
  if (p.window > 0) options.set_diagonal_band_left_bound(p.window);
  const auto y = graph->sdpa(q, k, v, options)[0];
  const Tensor_attributes layout = packed(kY, p, p.most_queries, p.n_heads, p.value_dim);
  y->set_output(true).set_uid(kY).set_dim(layout.get_dim()).set_stride(layout.get_stride());
  y->set_ragged_offset(offsets(kYOffsets));
  return graph;
}

class CudnnAttention final : public AttentionLibrary {
 public:
  explicit CudnnAttention(Folders folders) : folders_(std::move(folders)) {}

  ~CudnnAttention() override {
    plans_.clear();
    if (handle_) static_cast<void>(fe::detail::destroy_handle(handle_));
  }

  std::string identity() override {
    if (!opened_) open();
    return identity_;
  }

  bool attend(const AttentionPlan& plan, const AttentionCall& call, cudaStream_t stream) override {
    if (identity().empty()) return false;
    fe::graph::Graph* graph = plan_for(plan);
    if (!graph) return false;
    require(fe::detail::set_stream(handle_, stream) == CUDNN_STATUS_SUCCESS, plan, "setting the stream");
    std::unordered_map<int64_t, void*> memory = {{kQ, const_cast<void*>(call.q)},
                                                 {kK, const_cast<void*>(call.k)},
                                                 {kV, const_cast<void*>(call.v)},
                                                 {kY, call.y},
                                                 {kQueryCounts, const_cast<int32_t*>(call.n_queries)},
                                                 {kKeyCounts, const_cast<int32_t*>(call.n_keys)},
                                                 {kQOffsets, const_cast<int64_t*>(call.q_offset)},
                                                 {kKOffsets, const_cast<int64_t*>(call.k_offset)},
                                                 {kVOffsets, const_cast<int64_t*>(call.v_offset)},
                                                 {kYOffsets, const_cast<int64_t*>(call.y_offset)}};
    const std::string error = text(graph->execute(handle_, memory, workspace_.get()));
    require(error.empty(), plan, error);
    return true;
  }

  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  static void require(bool ok, const AttentionPlan& plan, const std::string& what) {
    if (!ok) fail("attention by cuDNN, " + str(plan) + ": " + what);
  }

  void open() {
    opened_ = true;
    std::string why_not = open_library(folders_);
    if (why_not.empty()) {
      const cudnnStatus_t status = fe::detail::create_handle(&handle_);
      if (status != CUDNN_STATUS_SUCCESS) why_not = "cudnnCreate: " + std::to_string(static_cast<int>(status));
    }
    if (why_not.empty())
      identity_ = version_text(fe::detail::get_backend_version());
    else
      notes_.push_back("attention: own kernels, cuDNN is not used: " + why_not);
  }

  /// Null when cuDNN has none.
  fe::graph::Graph* plan_for(const AttentionPlan& plan) {
    const auto [at, is_new] = plans_.try_emplace(plan);
    if (is_new) {
      const std::string why_not = build(plan, at->second);
      if (!why_not.empty()) {
        at->second = nullptr;
        notes_.push_back("attention: own kernels for " + str(plan) + ": cuDNN: " + why_not);
      }
    }
    return at->second.get();
  }

  std::string build(const AttentionPlan& plan, std::unique_ptr<fe::graph::Graph>& graph) {
    try {
      graph = make_graph(plan);
      std::string error = text(graph->validate());
      if (error.empty()) error = text(graph->build_operation_graph(handle_));
      if (error.empty()) error = text(graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
      if (error.empty()) graph->deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
      if (error.empty()) error = text(graph->check_support());
      if (error.empty()) error = text(graph->build_plans());
      int64_t bytes = 0;
      if (error.empty()) error = text(graph->get_workspace_size(bytes));
      if (!error.empty()) return error;
      if (bytes > workspace_bytes_) {  // freeing waits for the device, so that nobody uses the old one any more
        workspace_ = allocate_bytes(static_cast<size_t>(bytes));
        workspace_bytes_ = bytes;
      }
      return "";
    } catch (const std::runtime_error& e) {  // of the headers, where a library or a function is missing
      return e.what();
    }
  }

  Folders folders_;
  cudnnHandle_t handle_ = nullptr;
  bool opened_ = false;
  std::string identity_;
  std::vector<std::string> notes_;
  std::map<AttentionPlan, std::unique_ptr<fe::graph::Graph>> plans_;
  DeviceBytes workspace_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<AttentionLibrary> make_cudnn_attention(std::span<const std::filesystem::path> folders) {
  return std::make_unique<CudnnAttention>(Folders(folders.begin(), folders.end()));
}

std::string check_cudnn_graph(const AttentionPlan& plan, int sm_version) {
  if (const std::string why_not = open_library({}); !why_not.empty()) fail("opening cuDNN: " + why_not);
  const auto graph = make_graph(plan, sm_version);
  const std::string error = text(graph->validate());
  return error.empty() ? text(graph->build_operation_graph(nullptr)) : error;
}

}  // namespace kvcal::cuda
