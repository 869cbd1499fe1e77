// A page of a stranger: an Error, or files that links to them carry again.
#include "fuzz/fuzzing.h"
#include "report/carried_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  std::vector<CarriedFile> files;
  if (!fuzzing::accepts([&] { files = carried_files(page); })) return 0;
  std::string links;
  for (const CarriedFile& file : files) links += link_to(file);
  const std::vector<CarriedFile> again = carried_files(links);
  fuzzing::require(again.size() == files.size(), "as many files come back");
  for (size_t i = 0; i < files.size(); ++i)
    fuzzing::require(again[i].name == files[i].name && again[i].text == files[i].text, "a file comes back as it was");
  return 0;
}
