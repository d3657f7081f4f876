// Logarithms, exponentials and what is made of them, on vectors.
//
// Errors are stated in units in the last place (ulp) of the result, float32 first and float64 in
// brackets; tests/kernels/test_functions.py measures them on each instruction set.
#pragma once

#include "vectors.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// Constants of a number type.
template <class T> struct Format;
template <> struct Format<float> {
    static constexpr int mantissa_bits = 23;
    static constexpr int32_t root_half = 0x3F3504F3;  // the bits of √½
    static constexpr int32_t one = 0x3F800000;        // the bits of 1
    static constexpr float tiny = 0x1p-126f;          // the smallest normal number
    static constexpr float shifter = 0x1.8p23f;       // adding it rounds to a whole number
    static constexpr float ln2_high = 0.693145751953125f, ln2_low = 1.42860682030941723212e-6f;
    static constexpr float lowest = -127 * 0.693147180559945f, highest = 127 * 0.693147180559945f;
};
template <> struct Format<double> {
    static constexpr int mantissa_bits = 52;
    static constexpr int64_t root_half = 0x3FE6A09E667F3BCD;
    static constexpr int64_t one = 0x3FF0000000000000;
    static constexpr double tiny = 0x1p-1022;
    static constexpr double shifter = 0x1.8p52;
    static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    static constexpr double lowest = -1023 * 0.693147180559945309, highest = 1023 * 0.693147180559945309;
};
constexpr double LN2 = 0.693147180559945309417;

// c₀ + c₁x + c₂x² + …: Horner's scheme in x², on pairs of terms. Its chain of operations that wait
// for each other is half as long, so that a processor works on more vectors at a time.
template <class T, int N> INLINE V<T> polynomial(V<T> x, const T (&c)[N]) {
    auto pair = [&](int i) __attribute__((always_inline)) {
        return i + 1 < N ? fma(fill<T>(c[i + 1]), x, fill<T>(c[i])) : fill<T>(c[i]);
    };
    const V<T> square = x * x;
    V<T> value = pair((N - 1) / 2 * 2);
    for (int i = (N - 1) / 2 * 2 - 2; i >= 0; i -= 2) value = fma(value, square, pair(i));
    return value;
}

// A number as 2^exponent · (1 + fraction), with 1 + fraction from √½ to √2.
template <class T> struct Parts {
    V<T> exponent, fraction;
};
template <class T> INLINE Parts<T> split(V<T> v) {
    Unsigned<T> bits = bits_as<Unsigned<T>>(v);
    Bits<T> exponent = bits_as<Bits<T>>(bits - Format<T>::root_half) >> Format<T>::mantissa_bits;
    V<T> mantissa = bits_as<V<T>>(bits - (bits_as<Unsigned<T>>(exponent) << Format<T>::mantissa_bits));
    return {to_floats(exponent), mantissa - T(1)};
}

// The logarithm of 1 + fraction, base 2 (and the exponent) in float32 and e in float64: what is cheapest.
INLINE Floats log_of_mantissa(Floats fraction, Floats exponent) {
    // log₂(1 + f)/f
    static constexpr float c[] = {1.4426949f,  -0.72135276f, 0.48092365f, -0.36024386f,
                                  0.28708434f, -0.24879695f, 0.2341564f,  -0.14627017f};
    return fma(fraction, polynomial<float>(fraction, c), exponent);
}
INLINE Doubles log_of_mantissa(Doubles fraction) {
    // (2 atanh s − 2s)/s³ in powers of s², for s = f/(2 + f)
    static constexpr double c[] = {0.666666666665872,  0.40000000052274975, 0.2857141712958009,
                                   0.2222337169839756, 0.1812364207926407,  0.16819827739478954};
    Doubles s = fraction / (fraction + 2.0), u = s * s;
    return fma(s * u, polynomial<double>(u, c), s + s);
}

// The natural logarithm for v > 0, to 6 ulp (3.6). At 0 and below the normal numbers it is finite,
// not far below the logarithm of the smallest normal number; at −0 and NaN it is some finite number.
INLINE Floats log(Floats v) {
    Parts<float> parts = split<float>(v);
    return log_of_mantissa(parts.fraction, parts.exponent) * float(LN2);
}
INLINE Doubles log(Doubles v) {
    Parts<double> parts = split<double>(v);
    return fma(parts.exponent, fill<double>(LN2), log_of_mantissa(parts.fraction));
}

// The logarithm in the unit that is cheapest, and that unit: log(v) = LOG_UNIT·cheap_log(v).
template <class T> constexpr double LOG_UNIT = sizeof(T) == 4 ? LN2 : 1.0;
INLINE Floats cheap_log(Floats v) {
    Parts<float> parts = split<float>(v);
    return log_of_mantissa(parts.fraction, parts.exponent);
}
INLINE Doubles cheap_log(Doubles v) { return log(v); }

// exp(z) = scale·(1 + rest): 2ⁿ and exp(r) − 1, for z = n·ln 2 + r.
template <class T> struct ExpParts {
    V<T> scale, rest;
};

// (exp(r) − 1 − r)/r² in powers of r, for |r| ≤ ln(2)/2
INLINE Floats exp_series(Floats r) {
    static constexpr float c[] = {0.5f, 0.16666576845993977f, 0.04166655443768594f,
                                  0.008363202971575855f, 0.0013926213466332444f};
    return polynomial<float>(r, c);
}
INLINE Doubles exp_series(Doubles r) {
    static constexpr double c[] = {
        0.5000000000000001,    0.16666666666666669,   0.04166666666662399,    0.008333333333330051,
        0.0013888888917281794, 0.00019841269863105968, 2.480152119021773e-05, 2.7557268378684192e-06,
        2.7620138719733994e-07, 2.5100424157005067e-08};
    return polynomial<double>(r, c);
}

// For z from lowest to highest.
template <class T> INLINE ExpParts<T> split_exp_within(V<T> z) {
    using F = Format<T>;
    V<T> shifted = fma(z, fill<T>(1 / LN2), fill<T>(F::shifter));
    V<T> n = shifted - F::shifter;
    V<T> r = fma(n, fill<T>(-F::ln2_low), fma(n, fill<T>(-F::ln2_high), z));
    V<T> scale = bits_as<V<T>>((bits_as<Unsigned<T>>(shifted) << F::mantissa_bits) + F::one);
    return {scale, fma(r * r, exp_series(r), r)};
}
// NaN stays NaN.
template <class T> INLINE V<T> at_least_lowest(V<T> z) { return larger(fill<T>(Format<T>::lowest), z); }
template <class T> INLINE ExpParts<T> split_exp(V<T> z) {
    return split_exp_within<T>(smaller(fill<T>(Format<T>::highest), at_least_lowest<T>(z)));
}

// The exponential, to 1.1 ulp between −87.7 and 88 (−708.7 and 709); 0 below, constant above.
template <class T> INLINE V<T> exp(V<T> z) {
    ExpParts<T> parts = split_exp<T>(z);
    return fma(parts.scale, parts.rest, parts.scale);
}

// For z from lowest to 0.
template <class T> INLINE V<T> exp_within(V<T> z) {
    ExpParts<T> parts = split_exp_within<T>(z);
    return fma(parts.scale, parts.rest, parts.scale);
}

// The exponential less 1, to 1.8 ulp (2.4), also near 0.
template <class T> INLINE V<T> expm1(V<T> z) {
    ExpParts<T> parts = split_exp<T>(z);
    return fma(parts.scale, parts.rest, parts.scale - T(1));
}

// Σ s^{2j}/(2j + 3) in powers of u = s², for |s| ≤ 0.1
constexpr double NEAR = 0.01;  // the largest s² for which the series is used
INLINE Floats odd_series(Floats u) {
    static constexpr float c[] = {1.f / 3, 1.f / 5, 1.f / 7, 1.f / 9};
    return polynomial<float>(u, c);
}
INLINE Doubles odd_series(Doubles u) {
    static constexpr double c[] = {1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15};
    return polynomial<double>(u, c);
}

template <class T> INLINE V<T> at_least_tiny(V<T> v) { return larger(v, fill<T>(Format<T>::tiny)); }

// The logarithm of 1 + x for x from −½ on, to 7.1 ulp (5.7).
template <class T> INLINE V<T> log1p(V<T> x) {
    V<T> s = x / (x + T(2)), u = s * s, value = (s + s) * fma(u, odd_series(u), fill<T>(1));
    const Bits<T> apart = ~(u < T(NEAR));  // also at NaN
    if (any(apart)) value = apart ? log(x + T(1)) : value;
    return value;
}

// p·log(p/q) − p + q with d = p − q: 0 at d = 0, q at p = 0, finite at q = 0.
//
// With c = p + q and s = d/c it is c·[(1 + s)·atanh s − s], a series in which nothing cancels, to
// 5 ulp for |s| < 0.1; logarithms beyond, to 80 ulp.
template <class T> INLINE V<T> relative_entropy(V<T> q, V<T> p, V<T> d) {
    V<T> c = p + q, s = d / at_least_tiny<T>(c), u = s * s;
    V<T> value = c * u * fma(s + u, odd_series(u), fill<T>(1));
    Bits<T> apart = u > T(NEAR);
    if (any(apart)) {
        V<T> ratio = (apart ? p : fill<T>(1)) / at_least_tiny<T>(q);
        value = apart ? fma(p, log(ratio), -d) : value;
    }
    return value;
}

// (exp(z) − 1 − z)/z² in powers of z, for |z| < 0.7
INLINE Floats bend_series(Floats z) {
    static constexpr float c[] = {1.f / 2,   1.f / 6,    1.f / 24,    1.f / 120,
                                  1.f / 720, 1.f / 5040, 1.f / 40320, 1.f / 362880};
    return polynomial<float>(z, c);
}
INLINE Doubles bend_series(Doubles z) {
    static constexpr double c[] = {1. / 2,          1. / 6,           1. / 24,
                                   1. / 120,        1. / 720,         1. / 5040,
                                   1. / 40320,      1. / 362880,      1. / 3628800,
                                   1. / 39916800,   1. / 479001600,   1. / 6227020800.,
                                   1. / 87178291200., 1. / 1307674368000., 1. / 20922789888000.};
    return polynomial<double>(z, c);
}

// [p^β − q^β − β·q^{β−1}·d]/(β − 1) with d = p − q and rate = β − 1.
//
// How far x^β lies above its tangent, as a sum of two parts that are never negative; see
// `scorewise._numerics.power_excess`. To 80 ulp, and 5 more for each unit of
// rate·(|log q| + |log p|).
template <class T> INLINE V<T> power_excess(V<T> q, V<T> p, V<T> d, T rate) {
    V<T> slope = q > 0 ? exp<T>(log(q) * rate) : V<T>{};
    V<T> s = d / at_least_tiny<T>(p + q), u = s * s;
    V<T> near = (s + s) * fma(u, odd_series(u), fill<T>(1));
    V<T> log_ratio = u < T(NEAR) ? near : log(p / at_least_tiny<T>(q));
    V<T> z = log_ratio * rate;
    Bits<T> gentle = (absolute(z) < T(0.7)) & (slope > 0);
    V<T> v = gentle ? z : V<T>{};
    V<T> bend = gentle ? slope * v * v * bend_series(v) : exp<T>(log(p) * rate) - slope * (z + T(1));
    return slope * relative_entropy<T>(q, p, d) + p * bend / rate;
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
