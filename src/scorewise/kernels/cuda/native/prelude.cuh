// What differs between a GPU and its emulation on a processor (tests/kernels/cuda_emulation.hpp).
#pragma once

#ifndef SCOREWISE_EMULATED

#define SHARED_MEMORY(name) extern __shared__ __align__(16) char name[]

// Start copying N bytes, 4, 8 or 16, from global to shared memory, both some bytes further on.
template <int N, int OFFSET = 0> __device__ __forceinline__ void copy_in_background(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    const unsigned place = unsigned(__cvta_generic_to_shared(to));
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" ::"r"(place), "l"(from), "n"(OFFSET) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0 + %3], [%1 + %3], %2;" ::"r"(place), "l"(from), "n"(N), "n"(OFFSET) : "memory");
#else
    for (int i = OFFSET / 4; i < (OFFSET + N) / 4; i++) static_cast<int *>(to)[i] = static_cast<const int *>(from)[i];
#endif
}
// End a group of copies; wait for all groups of this thread but the last ones.
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int BUT> __device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(BUT) : "memory");
#endif
}

__device__ __forceinline__ float from_half(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ __forceinline__ unsigned short to_half(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

#endif

// Numbers of members in half precision; the headers of CUDA that have them may not be installed.
struct alignas(2) Float16 {
    unsigned short bits;
    Float16() = default;
    __device__ __forceinline__ explicit Float16(float x) : bits(to_half(x)) {}
    __device__ __forceinline__ explicit operator float() const { return from_half(bits); }
};
struct alignas(2) BFloat16 {
    unsigned short bits;
    BFloat16() = default;
    __device__ __forceinline__ explicit BFloat16(float x) {  // to the nearest, of two the even one; finite x
        const unsigned all = __float_as_uint(x);
        bits = (unsigned short)((all + 0x7fff + (all >> 16 & 1)) >> 16);
    }
    __device__ __forceinline__ explicit operator float() const { return __int_as_float(int(bits) << 16); }
};

// What follows what in memory: all members of an instance, and then those of the next; all instances of a member; or
// neither.
enum Order { BY_INSTANCE, BY_MEMBER, APART };

// Whether members have weights, and whether those of each instance are its own.
enum Weights { NO_WEIGHTS, SHARED_WEIGHTS, APART_WEIGHTS };

// What the numbers of members are.
enum Kind { PROBABILITIES, LOGITS, MASSES };
