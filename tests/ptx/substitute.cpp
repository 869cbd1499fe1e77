#include "ptx/substitute.h"

#include <map>
#include <memory>
#include <string>

#include "ptx/compile.h"
#include "ptx/launch.h"
#include "ptx/symbols.h"

namespace ptx {
namespace {

namespace fs = std::filesystem;

class Kernels {
 public:
  explicit Kernels(fs::path folder) : folder_(std::move(folder)), names_(own_functions()) {}

  void run(const emulator::KernelCall& call) {
    try {
      const Kernel& k = kernel(call.function);
      uses_[call.name.substr(0, call.name.find('<'))] += ptx::run(
          {*k.module, k.program, call.grid, call.block, call.shared_bytes, parameters_of(k.program, call.arguments)});
    } catch (const Error& e) {
      throw Error("running nvcc's " + call.name + ": " + e.what());
    }
  }

  const BankUses& uses() const { return uses_; }

 private:
  struct File {
    std::unique_ptr<Module> module;
    std::map<std::string, const Function*> entries;  // by the host's mangled name
  };
  struct Kernel {
    const Module* module;
    Program program;
  };

  const Kernel& kernel(const void* function) {
    const auto known = kernels_.find(function);
    if (known != kernels_.end()) return known->second;
    const auto name = names_.find(function);
    if (name == names_.end()) throw Error("its address is no function's");
    const File& file = file_of(name->second.file);
    const auto entry = file.entries.find(name->second.mangled);
    if (entry == file.entries.end())
      throw Error("the PTX of " + name->second.file + " has no entry " + name->second.mangled);
    return kernels_.emplace(function, Kernel{file.module.get(), compile(*file.module, *entry->second)}).first->second;
  }

  const File& file_of(const std::string& source) {
    File& file = files_[source];
    if (file.module) return file;
    file.module = Module::read(folder_ / fs::path(source).replace_extension(".ptx"));
    for (const auto& [name, entry] : file.module->entries) file.entries[as_the_host_mangles(name)] = &entry;
    return file;
  }

  fs::path folder_;
  std::map<const void*, FunctionName> names_;
  std::map<std::string, File> files_;
  std::map<const void*, Kernel> kernels_;
  BankUses uses_;
};

}  // namespace

std::shared_ptr<const BankUses> take_launches(const fs::path& folder) {
  const auto kernels = std::make_shared<Kernels>(folder);
  emulator::set_kernel_runner([kernels](const emulator::KernelCall& call) { kernels->run(call); });
  return {kernels, &kernels->uses()};
}

}  // namespace ptx
