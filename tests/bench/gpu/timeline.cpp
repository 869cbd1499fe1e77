// What a GPU did and when, of any program: CUDA loads this library into it where CUDA_INJECTION64_PATH names the file.
// At its end the program leaves lines "kind begin end bytes stream name", times in ns, in the file that KVCAL_TIMELINE
// names; timeline.py reads them. Unlike Nsight Compute it lets kernels run one behind another, as they always do.
#include <cupti.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kBytes = size_t{8} << 20;
std::FILE* file = nullptr;

void CUPTIAPI give(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBytes));
  *size = kBytes;
  *most_records = 0;
}

void write(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* k = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    std::fprintf(file, "kernel %llu %llu 0 %u %s\n", static_cast<unsigned long long>(k->start),
                 static_cast<unsigned long long>(k->end), k->streamId, k->name);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* c = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
    std::fprintf(file, "copy%u %llu %llu %llu %u copy\n", static_cast<unsigned>(c->copyKind),
                 static_cast<unsigned long long>(c->start), static_cast<unsigned long long>(c->end),
                 static_cast<unsigned long long>(c->bytes), c->streamId);
  }
}

void CUPTIAPI take(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  CUpti_Activity* record = nullptr;
  while (used > 0 && cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) write(record);
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(1);
  std::fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* name = std::getenv("KVCAL_TIMELINE");
  file = name ? std::fopen(name, "w") : nullptr;
  if (!file) return 0;
  cuptiActivityRegisterCallbacks(give, take);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  std::atexit(finish);
  return 1;
}
