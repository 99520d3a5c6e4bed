// What stand-ins for GPU runtimes share: the record of what a launcher asks for, and the failures that a test wants.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int Status;

static char records[1 << 16];
static char failing[64];
static int code, arguments, words = 1;
// A function's handle: its module, which is the address of the image, and its name.
static struct Function {
  void* module;
  char name[256];
} functions[256];
static int function_count;
static const char* log_end(void) { return records + sizeof records; }

#define RECORD(...) snprintf(records + strlen(records), (size_t)(log_end() - records) - strlen(records), __VA_ARGS__)

const char* fake_records(void) { return records; }
void fake_clear(int number_of_arguments) {
  records[0] = 0;
  arguments = number_of_arguments;
  failing[0] = 0;
}
void fake_fail(const char* function, int status) {
  snprintf(failing, sizeof failing, "%s", function);
  code = status;
}
// How many times 8 bytes of each argument are recorded.
void fake_words(int of_argument) { words = of_argument; }

static Status result(const char* function) { return strcmp(failing, function) == 0 ? code : 0; }

static void* record_load(const void* image) {
  RECORD("load %llu\n", (unsigned long long)(uintptr_t)image);
  return (void*)(uintptr_t)image;
}
static struct Function* function_of(void* module, const char* name) {
  int at = 0;
  while (at < function_count && (functions[at].module != module || strcmp(functions[at].name, name) != 0)) ++at;
  if (at == function_count) {
    functions[function_count].module = module;
    snprintf(functions[function_count++].name, sizeof functions[0].name, "%s", name);
  }
  return &functions[at];
}
static void record_launch(struct Function* function, const unsigned* grid, const unsigned* block, unsigned shared,
                          void* stream, void** values) {
  RECORD("launch %llu grid %u %u %u block %u %u %u shared %u stream %llu arguments",
         (unsigned long long)(uintptr_t)function->module, grid[0], grid[1], grid[2], block[0], block[1], block[2],
         shared, (unsigned long long)(uintptr_t)stream);
  for (int index = 0; index < arguments * words; ++index) {
    uint64_t value;
    memcpy(&value, (const char*)values[index / words] + index % words * 8, sizeof value);
    RECORD(" %llu", (unsigned long long)value);
  }
  RECORD("\nlaunched %s\n", function->name);
}
