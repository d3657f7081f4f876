// Functions of single numbers, by the fast instructions of the GPU where these keep enough digits.
#pragma once

#define INLINE __device__ __forceinline__

constexpr float LN2 = 0.693147180559945309f, LOG2_E = 1.442695040888963407f;
constexpr float TINY = 1.17549435e-38f;  // the smallest normal number
constexpr float NEAR = 0.09f;  // the largest s² for which series in s are used

INLINE float infinite() { return __int_as_float(0x7f800000); }

// The base-2 logarithm, to 2^-22: absolute from ½ to 2, relative elsewhere. NaN below 0.
INLINE float log2_of(float x) {
#ifdef SCOREWISE_EMULATED
    return log2f(x);
#else
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}
INLINE float log_of(float x) { return LN2 * log2_of(x); }

// 2^x, to 2^-22.
INLINE float exp2_of(float x) {
#ifdef SCOREWISE_EMULATED
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}
INLINE float exp_of(float x) { return exp2_of(LOG2_E * x); }

// a/b, to 2 ulp, for normal b up to 2^126.
INLINE float ratio(float a, float b) {
#ifdef SCOREWISE_EMULATED
    return a / b;
#else
    float y;
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
#endif
}

INLINE float square_root(float x) {
#ifdef SCOREWISE_EMULATED
    return sqrtf(x);
#else
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// a·b, rounded, so that a row that is summed is the row that is stored: the compiler may compute a·b − c with one rounding.
INLINE float rounded_product(float a, float b) {
#ifdef SCOREWISE_EMULATED
    return a * b;
#else
    return __fmul_rn(a, b);
#endif
}

// Smaller and larger number; the other if one is NaN.
INLINE float larger(float a, float b) { return fmaxf(a, b); }
INLINE float smaller(float a, float b) { return fminf(a, b); }
// The larger of x and 0; NaN of NaN.
INLINE float at_least_zero(float x) { return x < 0 ? 0.f : x; }

// Σ s^{2j}/(2j + 3) for u = s² up to NEAR, to 2e-5
INLINE float odd_series(float u) {
    return fmaf(u, fmaf(u, fmaf(u, 1.f / 9, 1.f / 7), 1.f / 5), 1.f / 3);
}

// log(1 + x)
INLINE float log1p_of(float x) {
    const float s = ratio(x, x + 2), u = s * s;
    return u < NEAR ? 2 * s * fmaf(u, odd_series(u), 1.f) : log_of(x + 1);
}

// log(1 + x) for x from 0 to 1
INLINE float log1p_up_to_one(float x) {
    const float s = ratio(x, x + 2), u = s * s;
    return 2 * s * fmaf(u, fmaf(u, fmaf(u, fmaf(u, fmaf(u, 1.f / 11, 1.f / 9), 1.f / 7), 1.f / 5), 1.f / 3), 1.f);
}

// x·log x, from x − 1
INLINE float total_log_total(float beyond) {
    if (fabsf(beyond) < 0.03f) return beyond * fmaf(beyond, fmaf(beyond, fmaf(beyond, 1.f / 12, -1.f / 6), 0.5f), 1.f);
    return (1 + beyond) * log_of(1 + beyond);
}

// p·log(p/q) − p + q with d = p − q: 0 at d = 0, q at p = 0, finite at q = 0.
//
// With c = p + q and s = d/c it is c·[(1 + s)·atanh s − s], a series in which nothing cancels for small s.
INLINE float relative_entropy(float q, float p, float d) {
    const float c = p + q, s = ratio(d, larger(c, TINY)), u = s * s;
    const float near = c * u * fmaf(s + u, odd_series(u), 1.f);
    const float far = fmaf(p, log_of(larger(ratio(p, larger(q, TINY)), TINY)), -d);
    return u < NEAR ? near : far;
}
// The sum plus that series, whether or not s² is small; the largest s² so far.
INLINE float add_near_relative_entropy(float q, float p, float d, float sum, float &largest_s2) {
    const float c = p + q, s = ratio(d, larger(c, TINY)), u = s * s;
    largest_s2 = larger(largest_s2, u);
    return fmaf(c * u, fmaf(s + u, odd_series(u), 1.f), sum);
}

// (exp(z) − 1 − z)/z² for |z| < 0.7
INLINE float bend_series(float z) {
    float value = 1.f / 362880;
    value = fmaf(value, z, 1.f / 40320);
    value = fmaf(value, z, 1.f / 5040);
    value = fmaf(value, z, 1.f / 720);
    value = fmaf(value, z, 1.f / 120);
    value = fmaf(value, z, 1.f / 24);
    value = fmaf(value, z, 1.f / 6);
    return fmaf(value, z, 0.5f);
}

// exp(x) − 1
INLINE float expm1_of(float x) { return fabsf(x) < 0.7f ? fmaf(x * x, bend_series(x), x) : exp_of(x) - 1; }

INLINE float power(float x, float rate) { return x > 0 ? exp2_of(rate * log2_of(x)) : 0.f; }

// (1 + x)^rate − 1, fast for small x
INLINE float power_less_one(float x, float rate) {
    const float first = rate * x;
    if (fabsf(first) < 0.02f) return first * fmaf((rate - 1) * x, fmaf((rate - 2) * x, 1.f / 6, 0.5f), 1.f);
    return expm1_of(rate * log1p_of(x));
}

// [p^β − q^β − β·q^{β−1}·d]/(β − 1) with d = p − q and rate = β − 1: how far x^β lies above its tangent,
// as a sum of two parts that are never negative; see `scorewise._numerics.power_excess`. `slope` is q^rate, and
// `own_power` returns p^rate.
template <class Power>
INLINE float power_excess(float q, float p, float d, float rate, float inverse_rate, float slope, Power own_power) {
    const float c = larger(p + q, TINY), s = ratio(d, c), u = s * s;
    const float near_log = 2 * s * fmaf(u, odd_series(u), 1.f);
    const float log_ratio = u < NEAR ? near_log : log_of(larger(ratio(p, larger(q, TINY)), TINY));
    const float z = log_ratio * rate;
    const bool is_gentle = fabsf(z) < 0.7f && slope > 0;
    const float bend = is_gentle ? slope * z * z * bend_series(z) : own_power() - slope * (z + 1);
    return slope * relative_entropy(q, p, d) + p * bend * inverse_rate;
}
