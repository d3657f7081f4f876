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
        if (is_odd) {
            const V<T> root = sqrt(p);
            // What the root lost to rounding counts only near 1; without fma it is not known.
            here = {root, IS_FUSED ? fma(fma(-root, root, p), fill<T>(0.5), root - T(1)) : beyond / (root + T(1))};
        }
        for (int i = is_odd ? 1 : 2; i < halves; i += 2) here = {here.power * p, fma(here.less_one, p, beyond)};
        return here;
    }
};
// How many halves such a rate has; 0 for others.
constexpr int MOST_HALVES = 8;
INLINE int halves_of(double rate) {
    const int halves = 2 * rate <= MOST_HALVES ? int(2 * rate) : 0;
    return halves == 2 * rate ? halves : 0;
}
template <class T, class Use> INLINE auto with_power(double rate, Use use) {
    const int halves = halves_of(rate);
    if (halves > 0) return use(HalfPower<T>{halves});
    return use(AnyPower<T>{T(rate * LOG_UNIT<T>)});
}

// (1 + x)^−rate − 1; a series near x = 0, where x is by how much a checked prediction does not sum to 1.
template <class T> class PowerOfTotal {
  public:
    void fit(double rate) {
        rate_ = T(-rate);
        limit_ = T((sizeof(T) == 4 ? 0.02 : 1e-3) / (rate + 1));
        double term = -rate;
        for (int j = 0; j < N; j++) {
            c_[j] = T(term);
            term *= (-rate - (j + 1)) / (j + 2);
        }
    }

    INLINE V<T> operator()(V<T> x) const {
        if (__builtin_expect(any(absolute(x) > limit_), false)) return expm1<T>(log1p<T>(x) * rate_);
        return x * polynomial<T>(x, c_);
    }

  private:
    static constexpr int N = 5;  // terms
    T c_[N], rate_, limit_;
};

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
        halves_ = halves_of(rate);
        double term = (rate + 1) / 2;  // the series, which ends at a whole rate
        for (int j = 0; j < MOST_HALVES / 2; j++) {
            whole_[j] = T(term);
            term *= (rate - 1 - j) / (j + 3);
        }
    }

    // b(x), to 50 ulp (400), and 10 more for each unit of rate·|log(1 + x)|; mark x whose powers might
    // overflow.
    INLINE V<T> operator()(V<T> x, Bits<T> &is_beyond) const {
        if (is_whole()) return of_whole_rate(x, is_beyond);
        Bits<T> apart;
        const V<T> b = near(x, apart);
        return any(apart) ? b + far(x, is_beyond) : b;
    }

    // A whole rate, for which b(x)/x² is a short polynomial for all x.
    bool is_whole() const { return halves_ > 0 && halves_ % 2 == 0; }
    INLINE V<T> of_whole_rate(V<T> x, Bits<T> &is_beyond) const {
        is_beyond |= x > limit_;
        return x * x * polynomial<T>(x, whole_);
    }

    // b(x) where the polynomial of other rates serves; elsewhere 0, and marked.
    INLINE V<T> near(V<T> x, Bits<T> &apart) const {
        const V<T> t = fma(x, fill<T>(stretch_), fill<T>(offset_));
        apart = absolute(t) > T(1);
        return apart ? V<T>{} : x * x * polynomial<T>(t, c_);
    }
    // b(x) where it does not serve, by a root or a logarithm; elsewhere 0.
    INLINE V<T> far(V<T> x, Bits<T> &is_beyond) const {
        const V<T> u = at_least_zero(x + T(1));
        V<T> power;
        if (halves_ > 0) {
            power = (HalfPower<T>{halves_}(u).power - T(1)) * inverse_rate_;
        } else {
            const V<T> log_u = rate > STEEP ? log1p<T>(x) : log(u);
            power = rate == 0 ? log_u : expm1<T>(log_u * T(rate)) * inverse_rate_;
        }
        is_beyond |= x > limit_;
        return absolute(fma(x, fill<T>(stretch_), fill<T>(offset_))) > T(1) ? fma(u, power, -x) : V<T>{};
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

    T c_[N], whole_[MOST_HALVES / 2], stretch_, offset_, inverse_rate_, limit_;
    int halves_;
};

// What divergences from a mean q need of it.
template <class T> struct Tangent {
    Bend<T> bend;
    V<T> *inverse;  // 1/q
    V<T> *scale;    // w·q^(rate + 1); under norms divided by their sum
    V<T> norm;      // of q, under norms
    int *apart;     // room for the places of vectors
    bool is_fitted, is_current;
};

template <class T> Tangent<T> *new_tangent(int n, Arena &arena) {
    Tangent<T> *tangent = arena.take<Tangent<T>>(1);
    tangent->inverse = arena.take<V<T>>(n);
    tangent->scale = arena.take<V<T>>(n);
    tangent->apart = arena.take<int>(n + 1);
    tangent->is_fitted = tangent->is_current = false;
    return tangent;
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
