// Runs a CUDA kernel on a processor: its source is compiled as C++ after this header.
//
// The threads of a block are fibers that take turns. A thread that waits for others, at a barrier or
// in a shuffle, passes the turn on; if all of them wait, some thread missed a barrier, and the program ends.
#pragma once

#define SCOREWISE_EMULATED

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct Index {
    unsigned x;
};
static Index threadIdx, blockIdx, blockDim, gridDim;
static char *emulated_memory;
#define SHARED_MEMORY(name) char *name = emulated_memory

namespace emulation {

constexpr size_t STACK = 256 << 10;
constexpr int WARP = 32;

struct Barrier {
    int arrived = 0, generation = 0;
};
struct Fiber {
    jmp_buf place;
    std::unique_ptr<char[]> stack;
    bool is_done = false, has_started = false;
};

static std::vector<Fiber> fibers;
static std::vector<Barrier> warp_barriers;
static std::vector<uint64_t> slots;
static Barrier block_barrier;
static int any_of_block;
static long turns_without_progress;
static jmp_buf scheduler;

static void yield() {
    const unsigned me = threadIdx.x;
    if (setjmp(fibers[me].place) == 0) longjmp(scheduler, 1);
    threadIdx.x = me;
}

static void wait(Barrier &barrier, int n_threads) {
    const int generation = barrier.generation;
    turns_without_progress = 0;
    if (++barrier.arrived == n_threads) {
        barrier.arrived = 0;
        barrier.generation++;
        return;
    }
    while (barrier.generation == generation) {
        if (++turns_without_progress > 100 * long(blockDim.x) + 1000) {
            std::fprintf(stderr, "threads of a block wait for each other without end\n");
            std::abort();
        }
        yield();
    }
}

static void wait_for_warp() { wait(warp_barriers[threadIdx.x / WARP], WARP); }

template <class T> T exchange(T value, unsigned from) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a slot is too small");
    std::memcpy(&slots[threadIdx.x], &value, sizeof value);
    wait_for_warp();
    T other;
    std::memcpy(&other, &slots[threadIdx.x / WARP * WARP + from], sizeof other);
    wait_for_warp();
    return other;
}

}  // namespace emulation

static inline void __syncthreads() { emulation::wait(emulation::block_barrier, int(blockDim.x)); }
static inline int __syncthreads_or(int value) {
    emulation::any_of_block |= value != 0;
    __syncthreads();
    const int any = emulation::any_of_block;
    __syncthreads();
    emulation::any_of_block = 0;
    __syncthreads();
    return any;
}
static inline void __syncwarp() { emulation::wait_for_warp(); }
template <class T> static inline T __shfl_sync(unsigned, T value, int from) { return emulation::exchange(value, unsigned(from)); }
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int step) {
    return emulation::exchange(value, (threadIdx.x % emulation::WARP) ^ unsigned(step));
}
static inline unsigned __ballot_sync(unsigned, int value) {
    unsigned bits = unsigned(value != 0) << threadIdx.x % emulation::WARP;
    for (int step = 1; step < emulation::WARP; step *= 2) bits |= __shfl_xor_sync(0, bits, step);
    return bits;
}
static inline int __any_sync(unsigned, int value) { return __ballot_sync(0, value) != 0; }
static inline int __ffs(unsigned bits) { return __builtin_ffs(int(bits)); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __int_as_float(int bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
static inline float from_half(unsigned short bits) {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent ? std::ldexp(1.f + fraction / 1024.f, int(exponent) - 15) : std::ldexp(float(fraction), -24);
    return sign ? -size : size;
}
static inline unsigned short to_half(float x) {
    _Float16 half = _Float16(x);
    unsigned short bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
}
template <int N, int OFFSET = 0> static inline void copy_in_background(void *to, const void *from) {
    to = static_cast<char *>(to) + OFFSET, from = static_cast<const char *>(from) + OFFSET;
    if (uintptr_t(to) % N || uintptr_t(from) % N) {
        std::fprintf(stderr, "a copy of %d bytes is not aligned\n", N);
        std::abort();
    }
    std::memcpy(to, from, N);
}
static inline void end_copies() {}
template <int BUT> static inline void wait_for_copies() {}

struct Job;
extern "C" void decompose(Job job);

namespace emulation {

static const Job *job;
static ucontext_t first_context, main_context;

static void start_fiber();

static void run_block(unsigned n_threads) {
    for (bool is_running = true; is_running;) {
        is_running = false;
        for (unsigned i = 0; i < n_threads; i++) {
            Fiber &fiber = fibers[i];
            if (fiber.is_done) continue;
            is_running = true;
            threadIdx.x = i;
            if (setjmp(scheduler) != 0) continue;
            if (fiber.has_started) longjmp(fiber.place, 1);
            fiber.has_started = true;
            getcontext(&first_context);
            first_context.uc_stack.ss_sp = fiber.stack.get();
            first_context.uc_stack.ss_size = STACK;
            first_context.uc_link = nullptr;
            makecontext(&first_context, start_fiber, 0);
            setcontext(&first_context);
        }
    }
}

}  // namespace emulation
