// Vectors of numbers, by the compilers' vector extensions.
//
// `Floats` and `Doubles` fill one register of the instruction set that this file is compiled for.
// The operators of C++ work lane by lane; a comparison gives a mask (all bits set, or none), and
// `mask ? a : b` selects. This file adds what has no operator. Code that serves both precisions is
// written for a number type T and uses V<T>, its vectors.
//
// Everything lives in a namespace per instruction set, and no template of the standard library is
// used here: the linker would keep one copy, which might need instructions that a processor lacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE inline __attribute__((always_inline))

namespace scorewise {
namespace SCOREWISE_ISA {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX2__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

typedef float Floats __attribute__((vector_size(BYTES)));
typedef double Doubles __attribute__((vector_size(BYTES)));
typedef int32_t Ints __attribute__((vector_size(BYTES)));
typedef int64_t Longs __attribute__((vector_size(BYTES)));
typedef uint32_t UnsignedInts __attribute__((vector_size(BYTES)));
typedef uint64_t UnsignedLongs __attribute__((vector_size(BYTES)));

// A vector of floats in double precision, as two vectors.
struct WideFloats {
    Doubles low, high;
};

template <class T> struct Types;
template <> struct Types<float> {
    using Vector = Floats;
    using Bits = Ints;
    using Unsigned = UnsignedInts;
    using Integer = int32_t;
    using Wide = WideFloats;
};
template <> struct Types<double> {
    using Vector = Doubles;
    using Bits = Longs;
    using Unsigned = UnsignedLongs;
    using Integer = int64_t;
    using Wide = Doubles;
};
template <class T> using V = typename Types<T>::Vector;
template <class T> using Bits = typename Types<T>::Bits;
template <class T> using Unsigned = typename Types<T>::Unsigned;  // bits that may overflow
template <class T> using Wide = typename Types<T>::Wide;
template <class T> constexpr int LANES = BYTES / int(sizeof(T));

template <class A, class B> INLINE A bits_as(B value) {
    static_assert(sizeof(A) == sizeof(B), "same size");
    A result;
    memcpy(&result, &value, sizeof(A));
    return result;
}

template <class T> INLINE V<T> fill(double number) { return V<T>{} + T(number); }

template <class T> INLINE V<T> load(const void *place) {
    V<T> v;
    memcpy(&v, place, BYTES);
    return v;
}

template <class Vector> INLINE void store(void *place, Vector v) { memcpy(place, &v, sizeof v); }

// 0, 1, 2, …
template <class T> INLINE Bits<T> lane_numbers() {
    Bits<T> numbers;
    for (int i = 0; i < LANES<T>; i++) numbers[i] = i;
    return numbers;
}

INLINE Ints to_bits(Floats v) { return bits_as<Ints>(v); }
INLINE Longs to_bits(Doubles v) { return bits_as<Longs>(v); }
INLINE Floats from_bits(Ints v) { return bits_as<Floats>(v); }
INLINE Doubles from_bits(Longs v) { return bits_as<Doubles>(v); }
INLINE Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }
INLINE Doubles to_floats(Longs v) { return __builtin_convertvector(v, Doubles); }

// -- what has no operator --------------------------------------------------------------------------

// a·b + c, rounded once where the instruction set can. No other product and sum are fused: the
// compiler is not allowed to, as it would turn differences of equal numbers into rounding errors.
#if defined(__AVX512F__)
INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
INLINE Floats sqrt(Floats v) { return _mm512_maskz_sqrt_ps(0xFFFF, v); }  // GCC 12 warns of the plain form
INLINE Doubles sqrt(Doubles v) { return _mm512_maskz_sqrt_pd(0xFF, v); }
#elif defined(__AVX2__)
INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
INLINE Floats sqrt(Floats v) { return _mm256_sqrt_ps(v); }
INLINE Doubles sqrt(Doubles v) { return _mm256_sqrt_pd(v); }
#elif defined(__SSE2__)
INLINE Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return a * b + c; }
INLINE Floats sqrt(Floats v) { return _mm_sqrt_ps(v); }
INLINE Doubles sqrt(Doubles v) { return _mm_sqrt_pd(v); }
#elif defined(__aarch64__)
INLINE Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE Doubles fma(Doubles a, Doubles b, Doubles c) {
    return (Doubles)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
INLINE Floats sqrt(Floats v) { return (Floats)vsqrtq_f32((float32x4_t)v); }
INLINE Doubles sqrt(Doubles v) { return (Doubles)vsqrtq_f64((float64x2_t)v); }
#else
INLINE Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return a * b + c; }
INLINE Floats sqrt(Floats v) {
    for (int i = 0; i < LANES<float>; i++) v[i] = __builtin_sqrtf(v[i]);
    return v;
}
INLINE Doubles sqrt(Doubles v) {
    for (int i = 0; i < LANES<double>; i++) v[i] = __builtin_sqrt(v[i]);
    return v;
}
#endif

// Whether fma rounds once.
#if defined(__AVX2__) || defined(__aarch64__)
constexpr bool IS_FUSED = true;
#else
constexpr bool IS_FUSED = false;
#endif

// The larger and the smaller of two; the second where either is NaN. Compilers make two instructions
// of the comparison of floats, as they need not know that one does the same.
template <class Vector> INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }
template <class Vector> INLINE Vector smaller(Vector a, Vector b) { return a < b ? a : b; }
#if defined(__AVX512F__)
INLINE Floats larger(Floats a, Floats b) { return _mm512_maskz_max_ps(0xFFFF, a, b); }
INLINE Floats smaller(Floats a, Floats b) { return _mm512_maskz_min_ps(0xFFFF, a, b); }
INLINE Doubles larger(Doubles a, Doubles b) { return _mm512_maskz_max_pd(0xFF, a, b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return _mm512_maskz_min_pd(0xFF, a, b); }
#elif defined(__AVX2__)
INLINE Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
INLINE Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
INLINE Doubles larger(Doubles a, Doubles b) { return _mm256_max_pd(a, b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return _mm256_min_pd(a, b); }
#elif defined(__SSE2__)
INLINE Floats larger(Floats a, Floats b) { return _mm_max_ps(a, b); }
INLINE Floats smaller(Floats a, Floats b) { return _mm_min_ps(a, b); }
INLINE Doubles larger(Doubles a, Doubles b) { return _mm_max_pd(a, b); }
INLINE Doubles smaller(Doubles a, Doubles b) { return _mm_min_pd(a, b); }
#endif

// The larger of a number and 0; NaN stays NaN.
template <class Vector> INLINE Vector at_least_zero(Vector v) { return larger(Vector{}, v); }

INLINE Floats absolute(Floats v) { return from_bits(to_bits(v) & INT32_MAX); }
INLINE Doubles absolute(Doubles v) { return from_bits(to_bits(v) & INT64_MAX); }

template <class Mask> INLINE bool any(Mask mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_epi8((__m256i)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_epi8((__m128i)mask) != 0;
#else
    int64_t halves[BYTES / 8], together = 0;
    memcpy(halves, &mask, BYTES);
    for (int64_t half : halves) together |= half;
    return together != 0;
#endif
}
template <class Mask> INLINE bool all(Mask mask) { return !any(~mask); }

// -- double precision ------------------------------------------------------------------------------

typedef float HalfFloats __attribute__((vector_size(BYTES / 2)));

INLINE WideFloats widen(Floats v) {
    HalfFloats half[2];
    memcpy(half, &v, BYTES);
    return {__builtin_convertvector(half[0], Doubles), __builtin_convertvector(half[1], Doubles)};
}
INLINE Doubles widen(Doubles v) { return v; }

INLINE Floats narrow(WideFloats v) {
    HalfFloats half[2] = {__builtin_convertvector(v.low, HalfFloats),
                          __builtin_convertvector(v.high, HalfFloats)};
    Floats result;
    memcpy(&result, half, BYTES);
    return result;
}
INLINE Doubles narrow(Doubles v) { return v; }

INLINE WideFloats operator+(WideFloats a, WideFloats b) { return {a.low + b.low, a.high + b.high}; }
INLINE WideFloats operator-(WideFloats a, WideFloats b) { return {a.low - b.low, a.high - b.high}; }
INLINE WideFloats operator*(WideFloats a, WideFloats b) { return {a.low * b.low, a.high * b.high}; }
INLINE WideFloats operator/(WideFloats a, WideFloats b) { return {a.low / b.low, a.high / b.high}; }
INLINE WideFloats operator*(WideFloats a, double b) { return {a.low * b, a.high * b}; }
INLINE WideFloats operator+(WideFloats a, double b) { return {a.low + b, a.high + b}; }
INLINE WideFloats operator-(WideFloats a, double b) { return {a.low - b, a.high - b}; }
INLINE WideFloats fma(WideFloats a, WideFloats b, WideFloats c) {
    return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
INLINE WideFloats larger(WideFloats a, WideFloats b) {
    return {larger(a.low, b.low), larger(a.high, b.high)};
}
INLINE WideFloats smaller(WideFloats a, WideFloats b) {
    return {smaller(a.low, b.low), smaller(a.high, b.high)};
}
INLINE WideFloats at_least_zero(WideFloats v) {
    return {at_least_zero(v.low), at_least_zero(v.high)};
}
// 0 where a number is at most the bound.
INLINE WideFloats zero_up_to(WideFloats v, WideFloats bound) {
    return {v.low <= bound.low ? Doubles{} : v.low, v.high <= bound.high ? Doubles{} : v.high};
}
INLINE Doubles zero_up_to(Doubles v, Doubles bound) { return v <= bound ? Doubles{} : v; }

template <class T> INLINE Wide<T> fill_wide(double number);
template <> INLINE WideFloats fill_wide<float>(double number) {
    return {Doubles{} + number, Doubles{} + number};
}
template <> INLINE Doubles fill_wide<double>(double number) { return Doubles{} + number; }

// -- across lanes ----------------------------------------------------------------------------------

template <int... I> struct Indices {};
template <int N, int... I> struct CountTo : CountTo<N - 1, N - 1, I...> {};
template <int... I> struct CountTo<0, I...> {
    using type = Indices<I...>;
};
template <class T> using Lanes = typename CountTo<LANES<T>>::type;

// Of two vectors whose lanes are seen in groups of S: the first and the second group of each pair
// of groups, of both vectors by turns.
template <int S, int... I, class Vector> INLINE Vector first_groups(Vector a, Vector b, Indices<I...>) {
    return __builtin_shufflevector(a, b, ((I & S) ? int(sizeof...(I)) + I - S : I)...);
}
template <int S, int... I, class Vector> INLINE Vector second_groups(Vector a, Vector b, Indices<I...>) {
    return __builtin_shufflevector(a, b, ((I & S) ? int(sizeof...(I)) + I : I + S)...);
}
template <int FIRST, int... I, class Vector> INLINE Vector every_second(Vector a, Vector b, Indices<I...>) {
    return __builtin_shufflevector(a, b, (2 * I + FIRST)...);
}
template <int S, int... I, class Vector> INLINE Vector swap_groups(Vector a, Indices<I...>) {
    return __builtin_shufflevector(a, a, (I ^ S)...);
}

// Lane j of vector i becomes lane i of vector j. In each step blocks of S lanes change places.
template <class T, int S = 1> INLINE void transpose(V<T> *v) {
    if constexpr (S < LANES<T>) {
        for (int i = 0; i < LANES<T>; i++) {
            if (i & S) continue;
            V<T> a = v[i], b = v[i + S];
            v[i] = first_groups<S>(a, b, Lanes<T>{});
            v[i + S] = second_groups<S>(a, b, Lanes<T>{});
        }
        transpose<T, 2 * S>(v);
    }
}

// Lane i becomes number STEP·i + FIRST of the numbers in the vectors before `v` (in the first, for
// some lanes) and in v, which is the PART-th.
template <int STEP, int FIRST, int PART, int... I, class Vector>
INLINE Vector pick(Vector before, Vector v, Indices<I...>) {
    constexpr int n = int(sizeof...(I));
    return __builtin_shufflevector(before, v, ((STEP * I + FIRST) / n == PART ? n + (STEP * I + FIRST) % n : I)...);
}
template <class T, int STEP, int FIRST, int PART = 0> INLINE V<T> every(const V<T> *v, V<T> picked) {
    if constexpr (PART < STEP) {
        return every<T, STEP, FIRST, PART + 1>(v, pick<STEP, FIRST, PART>(picked, v[PART], Lanes<T>{}));
    } else {
        return picked;
    }
}

// Rows of K numbers that lie one after the other become K vectors, with a row in each lane.
template <class T, int K, int FIRST = 0> INLINE void deinterleave(const V<T> *v, V<T> *to, int step = 1) {
    if constexpr (K == 1) {
        *to = *v;
    } else if constexpr (K % 2 == 0) {  // numbers in even and in odd places
        V<T> even[K / 2], odd[K / 2];
        for (int i = 0; i < K / 2; i++) {
            even[i] = every_second<0>(v[2 * i], v[2 * i + 1], Lanes<T>{});
            odd[i] = every_second<1>(v[2 * i], v[2 * i + 1], Lanes<T>{});
        }
        deinterleave<T, K / 2>(even, to, 2 * step);
        deinterleave<T, K / 2>(odd, to + step, 2 * step);
    } else if constexpr (FIRST < K) {
        to[FIRST * step] = every<T, K, FIRST>(v, V<T>{});
        deinterleave<T, K, FIRST + 1>(v, to, step);
    }
}

struct Add {
    template <class Vector> INLINE Vector operator()(Vector a, Vector b) const { return a + b; }
};
struct Larger {
    template <class Vector> INLINE Vector operator()(Vector a, Vector b) const { return larger(a, b); }
};
struct Smaller {
    template <class Vector> INLINE Vector operator()(Vector a, Vector b) const { return smaller(a, b); }
};

// All lanes of a vector combined, in each of its lanes.
template <class T, class Combine, int S = LANES<T> / 2> INLINE V<T> combine_lanes(V<T> v, Combine combine) {
    if constexpr (S > 0) {
        v = combine(v, swap_groups<S>(v, Lanes<T>{}));
        return combine_lanes<T, Combine, S / 2>(v, combine);
    } else {
        return v;
    }
}

// All lanes of vector i combined, in lane i. As a transposition, but it halves the vectors in each
// step, and costs a fraction of combining vector after vector.
template <class T, class Combine, int S = LANES<T> / 2> INLINE V<T> combine_each(V<T> *v, Combine combine) {
    if constexpr (S > 0) {
        for (int i = 0; i < S; i++) {
            V<T> a = v[i], b = v[i + S];
            v[i] = combine(first_groups<S>(a, b, Lanes<T>{}), second_groups<S>(a, b, Lanes<T>{}));
        }
        return combine_each<T, Combine, S / 2>(v, combine);
    } else {
        return v[0];
    }
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
