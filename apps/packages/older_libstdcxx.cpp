// GCC 12 binds std::condition_variable::wait() to a version of the symbol that libstdc++ has had since 2022. It was
// there before, the same function under an older version: portable programs are linked with this one in its place
// (portable.cmake). All else that they take from libstdc++ and glibc is older by itself, which auditwheel checks.
#include <condition_variable>

#define WAIT "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"

extern "C" {
void older_wait(std::condition_variable*, std::unique_lock<std::mutex>*);
__asm__(".symver older_wait, " WAIT "@GLIBCXX_3.4.11");

// What --wrap gives every caller in the program.
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* self,
                                                                      std::unique_lock<std::mutex>* lock) {
  older_wait(self, lock);
}
}
