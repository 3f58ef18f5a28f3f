#include "gpu/rnn/device/fibre.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <exception>
#include <new>
#include <utility>
#include <vector>

// A build may say MILLRACE_THREAD_SANITIZER itself: this file compiled without instrumentation, linked into a program with it.
#if defined(__SANITIZE_THREAD__) && !defined(MILLRACE_THREAD_SANITIZER)
#define MILLRACE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(MILLRACE_THREAD_SANITIZER)
#define MILLRACE_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MILLRACE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MILLRACE_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef MILLRACE_THREAD_SANITIZER
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_end(void);
}
#endif
#ifdef MILLRACE_ADDRESS_SANITIZER
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
}
#endif

// On x86-64 a switch saves the registers that a call preserves and exchanges stacks: tens of times cheaper than
// swapcontext, which asks the kernel for the signal mask each time.
#if defined(__x86_64__)
#define MILLRACE_OWN_SWITCH 1
extern "C" void millrace_switch_stacks(void** save_here, void* go_there);
asm(R"(
.text
.globl millrace_switch_stacks
.type millrace_switch_stacks, @function
millrace_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size millrace_switch_stacks, .-millrace_switch_stacks
)");
#endif

namespace millrace::rnn::emulator {

struct Fibre::State {
  std::function<void()> function;
  std::exception_ptr thrown;
  bool finished = true;
  void* stack = nullptr;
  std::size_t stack_bytes = 0;
#ifdef MILLRACE_OWN_SWITCH
  void* outside = nullptr;
  void* inside = nullptr;
#else
  ucontext_t outside{};
  ucontext_t inside{};
#endif
#ifdef MILLRACE_THREAD_SANITIZER
  void* outer_fiber = nullptr;
  void* inner_fiber = nullptr;
#endif
#ifdef MILLRACE_ADDRESS_SANITIZER
  void* outer_fake = nullptr;
  void* inner_fake = nullptr;
  const void* outer_bottom = nullptr;
  std::size_t outer_size = 0;
#endif

  void body() {
#ifdef MILLRACE_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(nullptr, &outer_bottom, &outer_size);
#endif
    try {
      function();
    } catch (...) {
      thrown = std::current_exception();
    }
    finished = true;
    go_out(true);
  }

  void go_in() {
#ifdef MILLRACE_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&outer_fake, stack, stack_bytes);
#endif
#ifdef MILLRACE_THREAD_SANITIZER
    outer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(inner_fiber, 1);  // 1: the switch itself orders nothing
#endif
#ifdef MILLRACE_OWN_SWITCH
    millrace_switch_stacks(&outside, inside);
#else
    swapcontext(&outside, &inside);
#endif
#ifdef MILLRACE_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(outer_fake, nullptr, nullptr);
#endif
  }

  void go_out(bool for_good) {
#ifdef MILLRACE_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(for_good ? nullptr : &inner_fake, outer_bottom, outer_size);
#else
    static_cast<void>(for_good);
#endif
#ifdef MILLRACE_THREAD_SANITIZER
    __tsan_switch_to_fiber(outer_fiber, 1);
#endif
#ifdef MILLRACE_OWN_SWITCH
    millrace_switch_stacks(&inside, outside);
#else
    swapcontext(&inside, &outside);
#endif
#ifdef MILLRACE_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(inner_fake, &outer_bottom, &outer_size);
#endif
  }
};

namespace {

thread_local Fibre::State* starting = nullptr;

void enter_body() { starting->body(); }

// Stacks of fibres that ended, for the next ones: mapping fresh memory for thousands of threads per launch costs more than
// the launch. All of one size; the operating system takes them back when the thread ends.
struct Stacks {
  std::vector<void*> free;
  std::size_t bytes = 0;
  ~Stacks() {
    for (void* stack : free) munmap(stack, bytes);
  }
};
thread_local Stacks stacks;

void* take_stack(std::size_t bytes) {
  if (stacks.bytes == bytes && !stacks.free.empty()) {
    void* const stack = stacks.free.back();
    stacks.free.pop_back();
    return stack;
  }
  // Mapped rather than allocated: pages of a stack that are never touched take no memory.
  void* const stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  return stack;
}

void give_stack(void* stack, std::size_t bytes) {
  if (stacks.free.empty()) stacks.bytes = bytes;
  if (stacks.bytes == bytes)
    stacks.free.push_back(stack);
  else
    munmap(stack, bytes);
}

#ifdef MILLRACE_THREAD_SANITIZER
// What ThreadSanitizer knows a fibre by takes long to make and serves again: a later fibre comes after the earlier one.
thread_local std::vector<void*> identities;

void* take_identity() {
  if (identities.empty()) return __tsan_create_fiber(0);
  void* const identity = identities.back();
  identities.pop_back();
  return identity;
}

void give_identity(void* identity) { identities.push_back(identity); }
#endif

}  // namespace

Fibre::Fibre() : state_(std::make_unique<State>()) {}

Fibre::~Fibre() {
  if (state_->stack == nullptr) return;
#ifdef MILLRACE_THREAD_SANITIZER
  give_identity(state_->inner_fiber);
#endif
  if (state_->finished)
    give_stack(state_->stack, state_->stack_bytes);
  else
    munmap(state_->stack, state_->stack_bytes);
}

void Fibre::start(std::size_t stack_bytes, std::function<void()> function) {
  State& state = *state_;
  state.function = std::move(function);
  state.finished = false;
  void* const stack = take_stack(stack_bytes);
  state.stack = stack;
  state.stack_bytes = stack_bytes;
#ifdef MILLRACE_OWN_SWITCH
  auto top = reinterpret_cast<std::uintptr_t>(stack) + stack_bytes;
  auto* words = reinterpret_cast<void**>(top & ~std::uintptr_t{15});
  *--words = nullptr;                               // keeps the stack aligned as after a call
  *--words = reinterpret_cast<void*>(&enter_body);  // where the first switch returns to
  for (int i = 0; i < 6; ++i) *--words = nullptr;   // the registers it restores
  state.inside = words;
#else
  getcontext(&state.inside);
  state.inside.uc_stack.ss_sp = stack;
  state.inside.uc_stack.ss_size = stack_bytes;
  state.inside.uc_link = nullptr;
  makecontext(&state.inside, &enter_body, 0);
#endif
#ifdef MILLRACE_THREAD_SANITIZER
  state.inner_fiber = take_identity();
#endif
}

void Fibre::enter() {
  starting = state_.get();
  state_->go_in();
  if (state_->thrown) std::rethrow_exception(std::exchange(state_->thrown, nullptr));
}

void Fibre::leave() { state_->go_out(false); }

bool Fibre::finished() const { return state_->finished; }

#ifdef MILLRACE_THREAD_SANITIZER
void told(void* mark) { __tsan_release(mark); }
void heard(void* mark) { __tsan_acquire(mark); }
Unjudged::Unjudged() { __tsan_ignore_thread_begin(); }
Unjudged::~Unjudged() { __tsan_ignore_thread_end(); }
#else
void told(void*) {}
void heard(void*) {}
Unjudged::Unjudged() = default;
Unjudged::~Unjudged() = default;
#endif

}  // namespace millrace::rnn::emulator
