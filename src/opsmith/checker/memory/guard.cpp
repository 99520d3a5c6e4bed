// An allocator for PyTorch's tensors on the CPU: what it gives out is filled with a byte and lies between margins that
// nobody may write to.
//
// It stands in for the one allocator that everything asks in the end: torch::empty, the stable ABI's shims (which no
// TorchDispatchMode sees), Python. Memory that is freed is kept, filled as the margins are, until the guard stops, so
// that reading or writing it is found too. `opsmith.checker.memory.guard` calls the functions at the end.
//
// What lies below on the stack is filled as well: there the frames of the kernel will be that writes to the block.
//
// Fenced, blocks end at pages that nobody may touch, a megabyte of them on either side: what is written there ends the
// process, however far away it is from the block.
#include <alloca.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>

namespace {

// A multiple of the 64 bytes that PyTorch aligns memory to: a kernel gets no better and no worse alignment than there.
constexpr size_t kAlignment = 64;
// Wide where damage is looked for; to keep it from others, a page will do.
constexpr size_t kWideMargin = 16384;
constexpr size_t kMargin = 4096;
constexpr size_t kMostKept = size_t{64} << 20;
constexpr size_t kPage = 1 << 16;  // a multiple of the page's size, whatever that is
constexpr size_t kFence = size_t{1} << 20;
// A kernel's frames lie within so many bytes below those of what allocates its results.
constexpr size_t kPainted = size_t{64} << 10;

// What a guard is for: to find damage, to keep it from others, or to end the process where something writes far away.
enum class Kind { kWatch, kShelter, kFence };

struct Block {
  unsigned char* data = nullptr;
  size_t size = 0;
  size_t margin = 0;
  int64_t session = 0;
  bool is_free = false;
  bool is_told = false;
  unsigned char* mapping = nullptr;  // of a fenced block, which has no margins
  size_t mapped = 0;

  size_t held() const { return size + 2 * margin; }
};

struct Damage {
  int64_t address = 0;
  int64_t size = 0;
  int64_t offset = 0;  // of the first byte that was written; below 0 or not below size where the block is not freed
  int64_t is_free = 0;
};

int64_t first_changed(const unsigned char* bytes, size_t count, unsigned char expected) {
  // Most are as they were, and memcmp against oneself, one byte on, is the quickest way to say so.
  if (count == 0) return -1;
  if (bytes[0] == expected && std::memcmp(bytes, bytes + 1, count - 1) == 0) return -1;
  size_t n = 0;
  while (bytes[n] == expected) ++n;
  return static_cast<int64_t>(n);
}

class Guard final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }

  void start(unsigned char body, unsigned char margin, Kind kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    forget_kept();
    damage_ = {};
    ++session_;
    body_ = body;
    margin_ = margin;
    kind_ = kind;
    if (!is_on_) {
      before_ = c10::GetAllocator(c10::kCPU);
      c10::SetAllocator(c10::kCPU, this, kPriority);
      is_on_ = true;
    }
  }

  void stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_on_) c10::SetAllocator(c10::kCPU, before_, kPriority);
    is_on_ = false;
    forget_kept();
    ++session_;
  }

  bool damage(Damage* found) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [data, block] : live_) inspect(block);
    for (auto& block : kept_) inspect(block);
    *found = damage_;
    return damage_.address != 0;
  }

  void free_block(void* pointer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto place = live_.find(pointer);
    if (place == live_.end()) return;
    Block block = place->second;
    live_.erase(place);
    if (block.mapping != nullptr) {
      munmap(block.mapping, block.mapped);
      return;
    }
    if (block.session != session_) return std::free(block.data - block.margin);
    inspect(block);
    std::memset(block.data, margin_, block.size);
    block.is_free = true;
    kept_.push_back(block);
    kept_bytes_ += block.held();
    while (kept_bytes_ > kMostKept) forget_oldest();
  }

 private:
  // PyTorch takes the allocator with the highest priority, and of equal ones the last.
  static constexpr uint8_t kPriority = 255;

  // The first damage is the one that is told of: what follows may be its consequence.
  void inspect(Block& block) {
    if (block.session != session_ || block.is_told || block.mapping != nullptr) return;
    const auto size = static_cast<int64_t>(block.size);
    const auto margin = static_cast<int64_t>(block.margin);
    const unsigned char* base = block.data - margin;
    int64_t offset = 0;
    if (block.is_free) {
      const int64_t at = first_changed(base, block.held(), margin_);
      if (at < 0) return;
      offset = at - margin;
    } else if (const int64_t after = first_changed(block.data + size, block.margin, margin_); after >= 0) {
      offset = size + after;
    } else if (const int64_t before = first_changed(base, block.margin, margin_); before >= 0) {
      // The byte nearest to the block says more than the first one.
      int64_t last = margin - 1;
      while (base[last] == margin_) --last;
      offset = last - margin;
    } else {
      return;
    }
    block.is_told = true;
    if (damage_.address == 0) {
      damage_ = {static_cast<int64_t>(reinterpret_cast<intptr_t>(block.data)), size, offset, block.is_free ? 1 : 0};
    }
  }

  c10::DataPtr allocate_between_fences(size_t size);

  void forget_oldest() {
    Block block = kept_.front();
    kept_.pop_front();
    inspect(block);
    kept_bytes_ -= block.held();
    std::free(block.data - block.margin);
  }

  void forget_kept() {
    while (!kept_.empty()) forget_oldest();
  }

  std::mutex mutex_;
  std::unordered_map<void*, Block> live_;
  std::deque<Block> kept_;
  size_t kept_bytes_ = 0;
  Damage damage_;
  int64_t session_ = 0;
  unsigned char body_ = 0;
  unsigned char margin_ = 0;
  c10::Allocator* before_ = nullptr;
  bool is_on_ = false;
  Kind kind_ = Kind::kWatch;
};

// Never destroyed: tensors may be freed after static objects are.
Guard& guard() {
  static Guard* const only = new Guard;
  return *only;
}

// Fills what lies below on the stack.
__attribute__((noinline)) void paint_stack(int byte) {
  void* area = alloca(kPainted);
  std::memset(area, byte, kPainted);
  asm volatile("" : : "r"(area) : "memory");
}

void release(void* pointer) { guard().free_block(pointer); }

c10::DataPtr Guard::allocate(size_t size) {
  if (size == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
  if (kind_ == Kind::kFence) return allocate_between_fences(size);
  const bool is_watched = kind_ == Kind::kWatch;
  const size_t margin = is_watched ? kWideMargin : kMargin;
  void* base = nullptr;
  if (posix_memalign(&base, kAlignment, size + 2 * margin) != 0) throw std::bad_alloc();
  auto* data = static_cast<unsigned char*>(base) + margin;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::memset(base, margin_, margin);
  std::memset(data, body_, size);
  std::memset(data + size, margin_, margin);
  live_[data] = Block{data, size, margin, session_};
  if (is_watched) paint_stack(body_);
  return {data, data, &release, c10::Device(c10::kCPU)};
}

c10::DataPtr Guard::allocate_between_fences(size_t size) {
  const size_t pages = (size + kPage - 1) / kPage * kPage;
  const size_t mapped = pages + 2 * kFence;
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<unsigned char*>(base) + kFence;
  if (mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  auto* data = first + pages - (size + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(data, body_, size);
  const std::lock_guard<std::mutex> lock(mutex_);
  Block block{data, size, 0, session_};
  block.mapping = static_cast<unsigned char*>(base);
  block.mapped = mapped;
  live_[data] = block;
  return {data, data, &release, c10::Device(c10::kCPU)};
}

c10::DeleterFnPtr Guard::raw_deleter() const { return &release; }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void opsmith_guard_start(int body, int margin, int kind) {
  guard().start(static_cast<unsigned char>(body), static_cast<unsigned char>(margin), static_cast<Kind>(kind));
}

__attribute__((visibility("default"))) void opsmith_guard_stop() { guard().stop(); }

// Returns whether something was written where it must not be, and fills in where: address, size, offset, is_free.
__attribute__((visibility("default"))) int opsmith_guard_damage(int64_t* found) {
  Damage damage;
  const bool is_damaged = guard().damage(&damage);
  const int64_t all[] = {damage.address, damage.size, damage.offset, damage.is_free};
  std::memcpy(found, all, sizeof all);
  return is_damaged ? 1 : 0;
}
}
