// How far a power lies above its tangent, for predictions that are compared with one mean.
//
// With x = (p − q)/q, p^(rate + 1) lies above its tangent at q by rate·q^(rate + 1)·b(x), where
//
//     b(x) = (1 + x)·((1 + x)^rate − 1)/rate − x,  or (1 + x)·log(1 + x) − x at rate = 0.
//
// What depends on the mean q alone is found once for all members. b(x)/x² is smooth: a polynomial,
// fitted once for each rule, serves most x, so that few numbers need a logarithm or an exponential.
#pragma once

#include "members.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// A power p^rate of p from 0 to about 1, and that less 1.
template <class T> struct Powered {
    V<T> power, less_one;
};
// Any rate: to 2.5 ulp, and 7 more for each unit of rate·|log p|.
template <class T> struct AnyPower {
    T rate;
    INLINE Powered<T> operator()(V<T> p) const {
        const ExpParts<T> parts = split_exp<T>(cheap_log(p) * rate);
        return {fma(parts.scale, parts.rest, parts.scale), fma(parts.scale, parts.rest, parts.scale - T(1))};
    }
};
// A rate of ½, 1, 1½, …: a square root and products are far cheaper, to 0.6 ulp for each.
template <class T> struct HalfPower {
    int halves;
    INLINE Powered<T> operator()(V<T> p) const {
        const V<T> beyond = p - T(1);
        const bool is_odd = halves & 1;
        Powered<T> here{p, beyond};
        if (is_odd) here.power = sqrt(p), here.less_one = beyond / (here.power + T(1));
        for (int i = is_odd ? 1 : 2; i < halves; i += 2) here = {here.power * p, fma(here.less_one, p, beyond)};
        return here;
    }
};
template <class T, class Use> INLINE auto with_power(double rate, Use use) {
    const int halves = rate <= 4 ? int(2 * rate) : 0;
    if (halves > 0 && halves == 2 * rate) return use(HalfPower<T>{halves});
    return use(AnyPower<T>{T(rate * LOG_UNIT<T>)});
}

// (1 + x)^−rate − 1; a series near x = 0, where x is by how much a checked prediction does not sum to 1.
template <class T> INLINE V<T> power_of_total(V<T> x, double rate) {
    if (any(absolute(x) * T(rate + 1) > T(sizeof(T) == 4 ? 0.02 : 1e-3))) return expm1<T>(log1p<T>(x) * T(-rate));
    T c[5];
    double term = -rate;
    for (int j = 0; j < 5; j++) {
        c[j] = T(term);
        term *= (-rate - (j + 1)) * (1.0 / (j + 2));
    }
    return x * polynomial<T>(x, c);
}

template <class T> class Bend {
  public:
    double rate = 0;

    // Fit the polynomial at Chebyshev's nodes, to 3e-6 (1e-13) of its value, in float32 (float64).
    void fit(double own_rate) {
        rate = own_rate;
        const double width = rate > STEEP ? 4 / (rate + 1) : 1;  // steep powers need a shorter interval
        const double low = (sizeof(T) == 4 ? -0.6 : -0.4) * width, high = (sizeof(T) == 4 ? 0.35 : 0.3) * width;
        const double middle = (low + high) / 2, half = (high - low) / 2;
        double node[N], value[N], t_before[N], t_here[N];  // Chebyshev polynomials at the nodes,
        double before[N + 1] = {}, here[N + 1] = {1}, sum[N] = {};  // and their coefficients
        for (int i = 0; i < N; i++) {
            node[i] = __builtin_cos(3.14159265358979323846 * (i + 0.5) / N);
            value[i] = series(middle + half * node[i]);
            t_before[i] = node[i];
            t_here[i] = 1;
        }
        for (int j = 0; j < N; j++) {
            double a = 0;
            for (int i = 0; i < N; i++) a += value[i] * t_here[i] * (j == 0 ? 1 : 2) / N;
            for (int i = 0; i <= j; i++) sum[i] += a * here[i];
            for (int i = 0; i < N; i++) {
                const double next = 2 * node[i] * t_here[i] - t_before[i];
                t_before[i] = t_here[i];
                t_here[i] = next;
            }
            for (int i = N - 1; i >= 0; i--) {
                const double shifted = i > 0 ? here[i - 1] : 0, next = (j == 0 ? 1 : 2) * shifted - before[i];
                before[i] = here[i];
                here[i] = next;
            }
        }
        for (int i = 0; i < N; i++) c_[i] = T(sum[i]);
        stretch_ = T(1 / half);
        offset_ = T(-middle / half);
        inverse_rate_ = T(rate == 0 ? 0 : 1 / rate);
        limit_ = T(rate > 1.5 ? __builtin_expm1(20 / rate) : 1e5);
    }

    // b(x), to 50 ulp (400), and 10 more for each unit of rate·|log(1 + x)|; mark x whose powers might
    // overflow.
    INLINE V<T> operator()(V<T> x, Bits<T> &is_beyond) const {
        const V<T> t = fma(x, fill<T>(stretch_), fill<T>(offset_));
        V<T> b = x * x * polynomial<T>(t, c_);
        const Bits<T> apart = absolute(t) > T(1);
        if (any(apart)) {
            const V<T> u = at_least_zero(x + T(1)), log_u = rate > STEEP ? log1p<T>(x) : log(u);
            const V<T> power = rate == 0 ? log_u : expm1<T>(log_u * T(rate)) * inverse_rate_;
            b = apart ? fma(u, power, -x) : b;
            is_beyond |= x > limit_;
        }
        return b;
    }

  private:
    static constexpr double STEEP = 3;
    static constexpr int N = sizeof(T) == 4 ? 8 : 16;  // terms

    // b(x)/x² by its Taylor series
    double series(double x) const {
        double term = (rate + 1) / 2, value = 0;
        for (int j = 0; j < 48; j++) {
            value += term;
            term *= x * (rate - 1 - j) / (j + 3);
        }
        return value;
    }

    T c_[N], stretch_, offset_, inverse_rate_, limit_;
};

// What divergences from a mean q need of it.
template <class T> struct Tangent {
    Bend<T> bend;
    V<T> *inverse;  // 1/q
    V<T> *scale;    // w·q^(rate + 1); under norms divided by their sum
    V<T> norm;      // of q, under norms
    bool is_fitted, is_found;
};

template <class T> Tangent<T> *new_tangent(int n, Arena &arena) {
    Tangent<T> *tangent = arena.take<Tangent<T>>(1);
    tangent->inverse = arena.take<V<T>>(n);
    tangent->scale = arena.take<V<T>>(n);
    tangent->is_fitted = tangent->is_found = false;
    return tangent;
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
