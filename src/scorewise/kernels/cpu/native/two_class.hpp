// The beta family: two classes, H'' = −c^(a − 1)·(1 − c)^(b − 1) in the probability c of class 1.
//
// With c the probability of one class, H = L·c − φ(c); kernels/_beta_numbers.py makes the polynomials
// of which φ and φ' consist, and explains them and for which predictions c is of which class. D(q, p) is
// an integral of which no part is negative where p and q are near, and a difference of values of φ elsewhere.
#pragma once

#include "dispatch.hpp"
#include "functions.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// In each lane c is the probability of one of the two classes; these are the numbers of that class.
template <class T> struct SideNumbers {
    V<T> alpha;    // the parameter of the class
    V<T> factor;   // of c^α − 1, where φ is made of it
    V<T> bend;     // power of 1 − c
    V<T> linear;   // L
    V<T> stretch;  // 2 by the largest c
    Bits<T> is_flat;    // whether α is near 0, where c^α − 1 takes the place of c^α
    Bits<T> is_second;  // whether the class is the second one
};

// The numbers of a rule: as doubles, and the polynomials also in the precision of T.
template <class T> class TwoClass {
  public:
    TwoClass(const double *doubles, const T *numbers) : header_(doubles) {
        const bool is_single = sizeof(T) == 4;
        const ptrdiff_t skip = is_single ? 0 : 2 * n_nodes(0) + 4 * n_terms(0);
        const ptrdiff_t nodes = TWO_CLASS_HEADER + skip, polynomials = nodes + 2 * n_nodes(!is_single);
        n_terms_ = n_terms(!is_single);
        terms_ = numbers + polynomials;
    }

    // The size of the numbers whose rounding errors H has.
    double size() const { return header_[0]; }
    // The largest |p − q|, in parts of the smallest probability, for which they are near.
    double near() const { return header_[1]; }
    // Where the nodes of an integral for numbers of single or double precision are, and how many.
    int n_nodes(bool is_double) const { return int(header_[is_double ? 6 : 4]); }
    const double *nodes(bool is_double) const {
        return header_ + TWO_CLASS_HEADER + (is_double ? 2 * n_nodes(0) + 4 * n_terms(0) : 0);
    }

    // Whether c is the probability of the second class, for which it must be small enough.
    Bits<T> is_second(V<T> first, V<T> second) const {
        return second * T(1 - header_[2]) < first * T(header_[2]);
    }

    SideNumbers<T> side(Bits<T> is_second) const {
        const double *first = header_ + 7, *second = first + 6;
        auto pick = [&](int i) { return is_second ? fill<T>(second[i]) : fill<T>(first[i]); };
        return {pick(0), pick(2), pick(3), pick(4), pick(5), pick(1) != 0, is_second};
    }

    V<T> entropy(V<T> c, const SideNumbers<T> &s) const { return fma(c, s.linear, -phi(c, s)); }

    V<T> phi(V<T> c, const SideNumbers<T> &s) const {
        const V<T> log_c = log_of(c), f = polynomial(0, c, s);
        const V<T> alpha = s.is_flat ? s.alpha : s.alpha + T(1);
        V<T> z = alpha * log_c;
        if (has_bend()) z = fma(s.bend, log1p<T>(-c), z);
        const ExpParts<T> e = split_exp<T>(z);
        const V<T> power = fma(e.scale, e.rest, e.scale), value = power * f;
        if (!has_flat()) return value;
        const V<T> flat = c * fma(c, value, grown(e, log_c, s));
        return c == 0 ? V<T>{} : s.is_flat ? flat : value;
    }

    V<T> slope(V<T> c, const SideNumbers<T> &s) const {  // φ'
        const V<T> log_c = log_of(c), g = polynomial(1, c, s);
        V<T> z = s.alpha * log_c;
        if (has_bend()) z = fma(s.bend, log1p<T>(-c), z);
        const ExpParts<T> e = split_exp<T>(z);
        const V<T> power = fma(e.scale, e.rest, e.scale), value = power * g;
        if (!has_flat()) return value;
        const V<T> beyond = s.alpha + T(1);
        const V<T> flat = fma(c, value, fma(grown(e, log_c, s), beyond, T(1) / beyond));
        return s.is_flat ? flat : value;
    }

  private:
    int n_terms(bool is_double) const { return int(header_[is_double ? 5 : 3]); }
    bool has_bend() const { return header_[10] != 0 || header_[16] != 0; }
    bool has_flat() const { return header_[8] != 0 || header_[14] != 0; }

    // (c^α − 1)/(α·(α + 1)), log c at α = 0.
    static INLINE V<T> grown(const ExpParts<T> &e, V<T> log_c, const SideNumbers<T> &s) {
        return s.alpha == 0 ? log_c : fma(e.scale, e.rest, e.scale - T(1)) * s.factor;
    }

    // The logarithm, also of numbers below the normal ones; a large negative number at 0.
    static INLINE V<T> log_of(V<T> c) {
        V<T> value = log(c);
        const Bits<T> is_small = c < Format<T>::tiny;
        if (__builtin_expect(any(is_small), false)) {
            const V<T> scaled = log(c * T(0x1p64)) - T(64 * LN2);
            value = is_small ? (c > 0 ? scaled : fill<T>(-1e30)) : value;
        }
        return value;
    }

    // F, the first, or G, the second polynomial of the class in each lane, at 2c by the largest c, less 1.
    INLINE V<T> polynomial(int which, V<T> c, const SideNumbers<T> &s) const {
        const T *first = terms_ + which * n_terms_, *second = first + 2 * n_terms_;
        const V<T> x = fma(c, s.stretch, fill<T>(-1)), square = x * x;
        V<T> even{}, odd{};
        for (int i = n_terms_ - 2; i >= 0; i -= 2) {
            even = fma(even, square, s.is_second ? fill<T>(second[i]) : fill<T>(first[i]));
            odd = fma(odd, square, s.is_second ? fill<T>(second[i + 1]) : fill<T>(first[i + 1]));
        }
        return fma(odd, x, even);
    }

    const double *header_;
    int n_terms_;
    const T *terms_;
};

// Two predictions, seen from the less likely class of the first, q.
struct Pair {
    Doubles q, rest;    // of that class, and of the other: they sum to 1
    Doubles p, p_rest;
    Doubles d;          // p − q
    Doubles scale;      // by which D is multiplied: the sum of p
};

// Rows may not quite sum to 1: predictions are their odds, and those of p are the odds of q times what d
// makes of them. With g = odds ratio − 1 in favour of the class that rises from r, p − q is
// r·(1 − r)·g/(1 + r·g).
INLINE Pair pair_of(const Doubles *q, const Doubles *p, const Doubles *d, Longs is_second) {
    const Doubles change = d[1] * q[0] - d[0] * q[1], step = absolute(change);  // in parts of both sums
    const Longs is_up = change > 0;
    const Doubles total = q[0] + q[1];
    const Doubles from = is_up ? q[1] : q[0], other_from = is_up ? q[0] : q[1];
    const Doubles to = is_up ? p[1] : p[0], other_to = is_up ? p[0] : p[1];
    const Doubles safe_from = at_least_tiny<double>(from), safe_to = at_least_tiny<double>(other_to);
    const Doubles gain = step / safe_from / safe_to;
    const Doubles r = safe_from / total, rest = other_from / total, grown = 1.0 + r * gain;
    const Longs is_far = (step >= from) & (step >= other_to);  // then the odds are those of p, and g may overflow
    const Doubles end = is_far ? to / (to + other_to) : r * (1.0 + gain) / grown;
    const Doubles other_end = is_far ? other_to / (to + other_to) : rest / grown;
    const Doubles moved = is_far ? end - r : r * rest * gain / grown;
    const Longs is_rising = ~(is_second ^ is_up);
    Pair x;
    x.q = at_least_tiny<double>(is_rising ? r : rest);
    x.rest = is_rising ? rest : r;
    x.p = is_rising ? end : other_end;
    x.p_rest = is_rising ? other_end : end;
    x.d = step == 0 ? Doubles{} : is_rising ? moved : -moved;
    x.scale = p[0] + p[1];
    return x;
}

// ∫ (p − c)·ω(c) dc from q to p, as d²·∫ (1 − v)·ω(q + v·d) dv, by Gauss's rule.
INLINE Doubles near_divergence(const TwoClass<double> &rule, const Pair &x, const SideNumbers<double> &s,
                               Doubles other_alpha, bool is_double) {
    const int n = rule.n_nodes(is_double);
    const double *v = rule.nodes(is_double), *w = v + n;
    const Doubles power = s.alpha - 1.0, other_power = other_alpha - 1.0;
    const Doubles twice_log = log(x.q) * 2.0;  // of q², by which d² is divided, as they may underflow
    Doubles sum{};
    for (int i = 0; i < n; i++) {
        const Doubles step = x.d * v[i], inner = log(x.q + step), outer = log(x.rest - step);
        sum = fma(exp<double>(fma(power, inner, fma(other_power, outer, twice_log))), Doubles{} + w[i], sum);
    }
    const Doubles ratio = x.d / x.q;
    return sum * ratio * ratio;
}

// D(q, p) with d = p − q, for numbers that were of double precision or not. At q = 0 it is finite
// unless it is `unbounded` and the loss of that class is.
inline Doubles two_class_divergence(const TwoClass<double> &rule, const Doubles *q, const Doubles *p,
                                    const Doubles *d, bool is_double, bool is_unbounded) {
    const Longs is_second = q[1] < q[0];
    const Pair x = pair_of(q, p, d, is_second);
    const SideNumbers<double> s = rule.side(is_second), t = rule.side(~is_second);
    const Longs is_near = absolute(x.d) <= smaller(smaller(x.q, x.p), x.p_rest) * rule.near();
    Doubles value{};
    if (any(is_near)) {
        Pair close = x;
        close.d = is_near ? x.d : Doubles{};
        value = near_divergence(rule, close, s, t.alpha, is_double);
    }
    if (any(~is_near)) {
        // c of q and of p may be of a class that is the more likely one, and of different classes
        const Doubles q_0 = is_second ? x.rest : x.q, q_1 = is_second ? x.q : x.rest;
        const Doubles p_0 = is_second ? x.p_rest : x.p, p_1 = is_second ? x.p : x.p_rest;
        const Longs at_q = rule.is_second(q_0, q_1), at_p = rule.is_second(p_0, p_1);
        const SideNumbers<double> start = rule.side(at_q), end = rule.side(at_p);
        const Doubles c = at_q ? q_1 : q_0, to = at_p ? p_1 : p_0, moved = (at_q ^ is_second) ? -x.d : x.d;
        Doubles far = rule.phi(to, end) - rule.phi(c, start) - rule.slope(c, start) * moved;
        far += (at_q ^ at_p) ? (at_q ? p_1 : p_0) * start.linear - to * end.linear : Doubles{};
        value = is_near ? value : at_least_zero(far);
    }
    value *= x.scale;
    if (is_unbounded) {
        const Longs is_zero = ((is_second ? q[1] : q[0]) == 0) & ~is_near;
        value = (is_zero & (s.alpha <= 0)) ? Doubles{} + __builtin_inf() : value;
    } else {
        value = smaller(value, Doubles{} + 1e37);  // that of a member without weight must be finite
    }
    return value;
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
