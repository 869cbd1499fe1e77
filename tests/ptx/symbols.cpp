#include "ptx/symbols.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "ptx/types.h"

namespace ptx {
namespace {

std::vector<char> own_file() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    throw Error("/proc/self/exe is no ELF file: kernels cannot be found by their addresses");
  return bytes;
}

/// Where the program lies in memory, less where its file says.
size_t own_base() {
  size_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        *static_cast<size_t*>(to) = info->dlpi_addr;
        return 1;  // the program comes first
      },
      &base);
  return base;
}

template <class T>
const T* at(const std::vector<char>& bytes, size_t offset) {
  return reinterpret_cast<const T*>(bytes.data() + offset);
}

}  // namespace

std::map<const void*, FunctionName> own_functions() {
  const std::vector<char> bytes = own_file();
  const auto* const header = at<Elf64_Ehdr>(bytes, 0);
  const auto* const sections = at<Elf64_Shdr>(bytes, header->e_shoff);
  const auto* const end = sections + header->e_shnum;
  const auto* const table = std::find_if(sections, end, [](const Elf64_Shdr& s) { return s.sh_type == SHT_SYMTAB; });
  if (table == end) throw Error("this program has no symbol table: kernels cannot be found by their addresses");
  const size_t strings = sections[table->sh_link].sh_offset, base = own_base();
  std::map<const void*, FunctionName> functions;
  std::string file;
  const auto* const symbols = at<Elf64_Sym>(bytes, table->sh_offset);
  for (const auto* s = symbols; s != symbols + table->sh_size / sizeof(Elf64_Sym); ++s) {
    const char* const name = at<char>(bytes, strings + s->st_name);
    if (ELF64_ST_TYPE(s->st_info) == STT_FILE) file = name;
    if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_value != 0)
      functions[reinterpret_cast<const void*>(base + s->st_value)] = {file, name};
  }
  return functions;
}

std::string as_the_host_mangles(const std::string& name) {
  static const std::string kMark = "_GLOBAL__N__", kHost = "12_GLOBAL__N_1";
  std::string result;
  size_t done = 0;
  for (size_t mark = name.find(kMark); mark != std::string::npos; mark = name.find(kMark, done)) {
    size_t length = mark;  // of the name, which stands before it
    while (length > done && std::isdigit(static_cast<unsigned char>(name[length - 1]))) --length;
    result += name.substr(done, length - done) + kHost;
    done = mark + std::stoul(name.substr(length, mark - length));
  }
  return result + name.substr(done);
}

}  // namespace ptx
