// A pack of a stranger: its manifest, a NUL, its SHA256SUMS, in a folder with a scale file, a link to a device and a
// folder. An Error, or a pack whose sums name what is read of it.
#include <cstdlib>
#include <filesystem>

#include "base/atomic_file.h"
#include "export/pack.h"
#include "fuzz/fuzzing.h"

namespace {

namespace fs = std::filesystem;

class PackFolder {
 public:
  PackFolder() {
    std::string name = (fs::temp_directory_path() / "kvcal_fuzz_pack_XXXXXX").string();
    kvcal::fuzzing::require(::mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
    path_ = name;
    write(kvcal::kPackScales, "{}");
    fs::create_symlink("/dev/zero", path_ / "zero");
    fs::create_directory(path_ / "folder");
  }
  ~PackFolder() { fs::remove_all(path_); }
  PackFolder(const PackFolder&) = delete;
  PackFolder& operator=(const PackFolder&) = delete;

  void write(const char* name, std::string_view text) const {
    kvcal::write_file_atomically(path_ / name, text, kvcal::Existing::Replace);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  static const PackFolder folder;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\0'), size);
  folder.write(kPackManifest, text.substr(0, end));
  const std::string_view sums = text.substr(std::min(end + 1, size));
  folder.write(kPackSums, sums);
  fuzzing::accepts([&] {
    read_pack(folder.path());
    for (const char* name : {kPackManifest, kPackScales})
      fuzzing::require(sums.find(name) != sums.npos, "sums name what is read");
    fuzzing::require(sums.find("  zero") == sums.npos, "no file is outside");
  });
  return 0;
}
