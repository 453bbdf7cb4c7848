// Linked into released programs, beside functions.cpp: how a program begins. Since 2.34 the C library runs the constructors of a
// program itself, before that the program had to bring a function for it; given one, every version calls it.
#if defined(__x86_64__)
asm(".symver older_libc_start_main, __libc_start_main@GLIBC_2.2.5");
#elif defined(__aarch64__)
asm(".symver older_libc_start_main, __libc_start_main@GLIBC_2.17");
#endif

using Main = int (*)(int, char**, char**);
using Constructor = void (*)(int, char**, char**);

extern "C" {

int older_libc_start_main(Main main, int count, char** arguments, Constructor initialize, void (*finish)(), void (*loader_finish)(),
                          void* stack_end);

// Symbols of the C compiler's start-up files and the linker.
void _init();
[[gnu::visibility("hidden")]] extern const Constructor __init_array_start[];
[[gnu::visibility("hidden")]] extern const Constructor __init_array_end[];

static void RunConstructors(int count, char** arguments, char** variables) {
  _init();
  for (const Constructor* constructor = __init_array_start; constructor != __init_array_end; ++constructor) {
    (*constructor)(count, arguments, variables);
  }
}

[[gnu::visibility("hidden")]] int __libc_start_main(Main main, int count, char** arguments, Constructor initialize,
                                                    void (*finish)(), void (*loader_finish)(), void* stack_end) {
  return older_libc_start_main(main, count, arguments, initialize != nullptr ? initialize : &RunConstructors, finish,
                               loader_finish, stack_end);
}

}  // extern "C"
