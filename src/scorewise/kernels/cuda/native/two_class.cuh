// The beta family: two classes, H'' = −c^(a − 1)·(1 − c)^(b − 1) in the probability c of class 1.
//
// With c the probability of one class, H = L·c − φ(c); kernels/_beta_numbers.py makes the polynomials of which
// φ and φ' consist, and explains them and for which predictions c is of which class. D(q, p) is an integral of
// which no part is negative where p and q are near, and a difference of values of φ, in double precision, elsewhere.
#pragma once

#include "structures.cuh"

// Functions for numbers of either precision; the logarithm also of numbers below the normal ones.
INLINE float natural_log(float x) { return x < TINY ? log_of(x * 0x1p64f) - 64 * LN2 : log_of(x); }
INLINE float natural_log1p(float x) { return log1p_of(x); }
INLINE float natural_exp(float x) { return exp_of(x); }
INLINE float natural_expm1(float x) { return expm1_of(x); }
INLINE double natural_log(double x) { return log(x); }
INLINE double natural_log1p(double x) { return log1p(x); }
INLINE double natural_exp(double x) { return exp(x); }
INLINE double natural_expm1(double x) { return expm1(x); }

// The numbers of a rule, as kernels/_beta_numbers.py makes them, in single or double precision.
template <class T> struct BetaNumbers {
    static constexpr bool IS_DOUBLE = sizeof(T) == 8;
    static constexpr int HEADER = 19, SIDES = 7, SIDE = 6;

    // The numbers of a class, of which c is the probability.
    struct Side {
        T alpha;      // the parameter of the class
        bool is_flat;  // whether α is near 0, where c^α − 1 takes the place of c^α
        T factor;     // of c^α − 1
        T bend;       // power of 1 − c
        T linear;     // L
        T stretch;    // 2 by the largest c
        const T *polynomials;
    };

    const T *header;

    // The size of the numbers whose rounding errors H has.
    INLINE T size() const { return header[0]; }
    // The largest |p − q|, in parts of the smallest probability, for which they are near.
    INLINE T near() const { return header[1]; }
    // Whether c is the probability of class 1, for which it must be small enough.
    INLINE bool is_second(T first, T second) const { return second * (1 - header[2]) < first * header[2]; }

    INLINE int n_terms() const { return int(header[IS_DOUBLE ? 5 : 3]); }
    INLINE int n_nodes() const { return int(header[IS_DOUBLE ? 6 : 4]); }
    INLINE const T *nodes() const {
        const int n_singles = 2 * int(header[4]) + 4 * int(header[3]);
        return header + HEADER + (IS_DOUBLE ? n_singles : 0);
    }
    INLINE Side side(bool is_second) const {
        const T *own = header + SIDES + (is_second ? SIDE : 0);
        return {own[0], own[1] != 0, own[2], own[3], own[4], own[5], nodes() + 2 * n_nodes() + (is_second ? 2 * n_terms() : 0)};
    }

    INLINE T entropy(T c, const Side &s) const { return fma(c, s.linear, -phi(c, s)); }
    INLINE T phi(T c, const Side &s) const {
        if (c == 0) return 0;
        const T log_c = natural_log(c), z = (s.is_flat ? s.alpha : s.alpha + 1) * log_c + bend(c, s);
        const T value = natural_exp(z) * polynomial(s.polynomials, c, s);
        return s.is_flat ? c * fma(c, value, grown(log_c, s)) : value;
    }
    INLINE T slope(T c, const Side &s) const {  // φ'
        const T log_c = natural_log(c), power = natural_exp(s.alpha * log_c + bend(c, s));
        const T value = power * polynomial(s.polynomials + n_terms(), c, s), beyond = s.alpha + 1;
        return s.is_flat ? fma(c, value, fma(grown(log_c, s), beyond, 1 / beyond)) : value;
    }

  private:
    static INLINE T bend(T c, const Side &s) { return s.bend == 0 ? 0 : s.bend * natural_log1p(-c); }
    // (c^α − 1)/(α·(α + 1)), log c at α = 0.
    static INLINE T grown(T log_c, const Side &s) {
        return s.alpha == 0 ? log_c : natural_expm1(s.alpha * log_c) * s.factor;
    }
    INLINE T polynomial(const T *terms, T c, const Side &s) const {
        const T x = fma(c, s.stretch, T(-1)), square = x * x;
        T even = 0, odd = 0;
        for (int i = n_terms() - 2; i >= 0; i -= 2) {
            even = fma(even, square, terms[i]);
            odd = fma(odd, square, terms[i + 1]);
        }
        return fma(odd, x, even);
    }
};

struct TwoClass : Smooth<TwoClass> {
    struct Both {
        float first, second;
    };
    template <class Row> static INLINE Both both_of(const Row &row) {
        Both p{};
        row.each([&](float x, int k, int) { (k == 0 ? p.first : p.second) = x; });
        return {across_sum<Row::LANES>(p.first), across_sum<Row::LANES>(p.second)};
    }

    template <class Row> static INLINE Entropy entropy(const Job &job, const Row &row) {
        const BetaNumbers<float> rule{job.singles};
        const Both p = both_of(row);
        const float total = p.first + p.second;
        const bool is_second = rule.is_second(p.first, p.second);
        const float c = (is_second ? p.second : p.first) / total;
        const float h = at_least_zero(total * rule.entropy(c, rule.side(is_second)));
        return {h, -h, larger(h, rule.size()), distance(total - 1, smaller(p.first, p.second) < 0)};
    }

    template <class Row> static INLINE float divergence(const Job &job, const Row &row, const Row &mean, float) {
        const Both p = both_of(row), q = both_of(mean);
        const bool is_second = q.second < q.first;
        const Pair x = pair_of(q, p, is_second);
        const BetaNumbers<float> rule{job.singles};
        const double least = fmin(fmin(x.q, x.p), x.p_rest);
        const double value = fabs(x.d) <= least * rule.near() ? near(rule, x, is_second) : far(job, x, is_second);
        return float(fmin(value * x.scale, 1e37));  // that of a member without weight must be finite
    }

  private:
    // Two predictions, seen from the less likely class of the first, q.
    struct Pair {
        double q, rest;  // of that class, and of the other: they sum to 1
        double p, p_rest;
        double d;      // p − q
        double scale;  // by which D is multiplied: the sum of p
    };

    // Rows may not quite sum to 1: predictions are their odds, and those of p are the odds of q times what their
    // differences make of them. With g = odds ratio − 1 in favour of the class that rises from r, p − q is
    // r·(1 − r)·g/(1 + r·g).
    static INLINE Pair pair_of(const Both &q, const Both &p, bool is_second) {
        const double rise = double(p.second) - q.second, other_rise = double(p.first) - q.first;
        const double change = rise * q.first - other_rise * q.second, step = fabs(change);  // in parts of both sums
        const bool is_up = change > 0;
        const double total = double(q.first) + q.second;
        const double from = is_up ? q.second : q.first, other_from = is_up ? q.first : q.second;
        const double to = is_up ? p.second : p.first, other_to = is_up ? p.first : p.second;
        const double safe_from = at_least_tiny(from), gain = step / safe_from / at_least_tiny(other_to);
        const double r = safe_from / total, rest = other_from / total, grown = 1 + r * gain;
        const bool is_far = step >= from && step >= other_to;  // then the odds are those of p, and g may overflow
        const double end = is_far ? to / (to + other_to) : r * (1 + gain) / grown;
        const double other_end = is_far ? other_to / (to + other_to) : rest / grown;
        const double moved = is_far ? end - r : r * rest * gain / grown;
        const bool is_rising = is_second == is_up;
        Pair x;
        x.q = at_least_tiny(is_rising ? r : rest), x.rest = is_rising ? rest : r;
        x.p = is_rising ? end : other_end, x.p_rest = is_rising ? other_end : end;
        x.d = step == 0 ? 0 : is_rising ? moved : -moved;
        x.scale = double(p.first) + p.second;
        return x;
    }
    static INLINE double at_least_tiny(double x) { return fmax(x, 0x1p-1022); }

    // ∫ (p − c)·ω(c) dc from q to p, as d²·∫ (1 − v)·ω(q + v·d) dv, by Gauss's rule. ω in parts of that at q varies
    // little, and is computed in single precision.
    static INLINE double near(const BetaNumbers<float> &rule, const Pair &x, bool is_second) {
        const double power = rule.side(is_second).alpha, other_power = rule.side(!is_second).alpha;
        const double step = x.d / x.q, other_step = -x.d / x.rest;
        const int n = rule.n_nodes();
        const float *v = rule.nodes(), *w = v + n;
        float sum = 0;
        for (int i = 0; i < n; i++) {
            const float inner = log1p_of(v[i] * float(step)), outer = log1p_of(v[i] * float(other_step));
            sum = fmaf(w[i], exp_of(fmaf(float(power - 1), inner, float(other_power - 1) * outer)), sum);
        }
        const double start = exp((power + 1) * log(x.q) + (other_power - 1) * log(x.rest));  // q²·ω(q)
        return start * step * step * sum;
    }

    static INLINE double far(const Job &job, const Pair &x, bool is_second) {
        const BetaNumbers<double> rule{job.numbers};
        // c of q and of p may be of a class that is the more likely one, and of different classes
        const double q_0 = is_second ? x.rest : x.q, q_1 = is_second ? x.q : x.rest;
        const double p_0 = is_second ? x.p_rest : x.p, p_1 = is_second ? x.p : x.p_rest;
        const bool at_q = rule.is_second(q_0, q_1), at_p = rule.is_second(p_0, p_1);
        const auto start = rule.side(at_q), end = rule.side(at_p);
        const double c = at_q ? q_1 : q_0, to = at_p ? p_1 : p_0, moved = at_q == is_second ? x.d : -x.d;
        double value = rule.phi(to, end) - rule.phi(c, start) - rule.slope(c, start) * moved;
        if (at_q != at_p) value += (at_q ? p_1 : p_0) * start.linear - to * end.linear;
        return fmax(value, 0.0);
    }
};
