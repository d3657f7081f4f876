// The structures of rules: entropy and divergence of a prediction.
//
// The formulas are those of `scorewise/rules/`, where the reasons for their forms are explained.
// Predictions p and q are rows of vectors. Results are per lane (an instance's in each of its lanes).
#pragma once

#include "powers.hpp"
#include "sums.hpp"
#include "two_class.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// EU is the difference of mean and total entropies where that keeps enough digits: where it is at
// least this part of what is subtracted.
constexpr double FAR = 0.02;

// How far rows may be from a sum of 1 where EU is a difference under quadratic forms, whose entropy and
// divergence of other rows disagree.
template <class T> constexpr T OFF = sizeof(T) == 4 ? T(1e-6) : T(1e-14);

// The entropy H(p), and what EU is a difference of: a convex function of p, that is −H but for
// terms which are linear in p, and the size of the numbers whose rounding errors it has.
template <class T> struct Entropy {
    V<T> value, convex, size;
};

// A rule with its numbers in the precision of the predictions.
template <class T> struct RuleNumbers {
    Structure structure;
    double parameter;
    const T *numbers;        // padded to whole vectors
    const double *doubles;   // as they were passed
    ptrdiff_t size;
    V<T> *sums;              // over members, of regrets
    V<T> *row;               // room for a row
    Tangent<T> *tangent;     // at the mean, of powers and logarithms
    double largest;          // distance of two classes, of a quadratic form
    PowerOfTotal<T> power_of_total;  // of powers, for rows whose sum is not quite 1
};

template <class T, bool SIDE> struct Rules {
    using Number = RuleNumbers<T>;

    // A rule with room for rows of n vectors, without a tangent.
    static Number read(const Rule &rule, int n, Arena &arena) {
        Number own{};
        own.structure = rule.structure;
        own.parameter = rule.parameter;
        own.doubles = rule.numbers;
        own.size = rule.size;
        own.power_of_total.fit(rate_of(own));
        for (ptrdiff_t i = 0; rule.structure == Structure::QUADRATIC && i < ptrdiff_t(n) * n; i++)
            own.largest = rule.numbers[i] > own.largest ? rule.numbers[i] : own.largest;
        if (rule.size > 0) {
            T *numbers = arena.take<T>(rule.size + LANES<T>);
            for (ptrdiff_t i = 0; i < rule.size + LANES<T>; i++) numbers[i] = i < rule.size ? T(rule.numbers[i]) : T(0);
            own.numbers = numbers;
        }
        const ptrdiff_t room = 2 * n > 4 * rule.parameter ? 2 * n : ptrdiff_t(4 * rule.parameter);
        own.row = arena.take<V<T>>(room + 4);
        own.sums = arena.take<V<T>>(has_regrets(own) ? n_regrets(own, n) : 0);
        return own;
    }

    // Of the powers in a separable entropy or a norm.
    static double rate_of(const Number &rule) { return rule.parameter - (rule.structure == Structure::NORM); }

    // The number of class r of a vector: the same for all instances, or one for each lane.
    static INLINE V<T> coefficient(const T *numbers, int r) {
        return SIDE ? fill<T>(numbers[r]) : load<T>(numbers + r * LANES<T>);
    }

    // -- separable: H = Σ w·p·(1 − (p/S)^rate)/rate, −Σ w·p·log(p/S) at rate = 0 --------------------

    // Sums over classes of w·p·(p^rate − 1), or w·p·log p in LOG_UNITs at rate = 0; of w·p^(rate + 1); and,
    // under weights, of w·p and of p but for the largest.
    struct PowerSums {
        V<T> less_one, powers, weighted, others;
    };
    template <bool WEIGHTED, bool POWERED = true, class Power>
    static INLINE PowerSums sum_powers(const Number &rule, Row<T> p, V<T> top, Power power) {
        Wide<T> less_one{}, powers{}, weighted{};
        PowerSums sums{};
        for (int start = 0; start < p.n; start += BLOCK) {
            PowerSums part{};
            for (int r = start; r < p.n && r < start + BLOCK; r++) {
                const Powered<T> here = power(p[r]);
                const V<T> w = WEIGHTED ? p[r] * coefficient(rule.numbers, r) : p[r];
                part.less_one = fma(w, here.less_one, part.less_one);
                if (POWERED) part.powers = fma(w, here.power, part.powers);
                if (WEIGHTED) {
                    part.weighted += w;
                    sums.others += p[r] < top ? p[r] : V<T>{};
                }
            }
            if (p.n <= BLOCK) {
                sums = {part.less_one, part.powers, part.weighted, sums.others};
                break;
            }
            less_one = less_one + widen(part.less_one);
            if (POWERED) powers = powers + widen(part.powers);
            if (WEIGHTED) weighted = weighted + widen(part.weighted);
        }
        if (p.n > BLOCK) sums = {narrow(less_one), narrow(powers), narrow(weighted), sums.others};
        return {across_sum<T, SIDE>(sums.less_one), across_sum<T, SIDE>(sums.powers),
                across_sum<T, SIDE>(sums.weighted), across_sum<T, SIDE>(sums.others)};
    }

    static Entropy<T> separable_entropy(const Number &rule, Row<T> p, const Sums<T> &s) {
        const T rate = T(rule.parameter);
        auto sum = [&](auto power) __attribute__((always_inline)) {
            return rule.numbers != nullptr ? sum_powers<true>(rule, p, s.top, power)
                                           : sum_powers<false>(rule, p, s.top, power);
        };
        auto log_only = [](V<T> v) __attribute__((always_inline)) { return Powered<T>{V<T>{}, cheap_log(v)}; };
        const PowerSums sums = rate != 0                 ? with_power<T>(rule.parameter, sum)
                               : rule.numbers != nullptr ? sum_powers<true, false>(rule, p, s.top, log_only)
                                                         : sum_powers<false, false>(rule, p, s.top, log_only);
        V<T> total = s.total, beyond = s.total - T(1), largest = fill<T>(1);
        if (rule.numbers != nullptr) {
            total = sums.weighted;
            largest = fill<T>(rule.doubles[rule.size - 1]);
            // A heavy class that is almost certain needs all digits of S − 1.
            beyond = s.top + s.top > s.total ? (s.top - T(1)) + sums.others : beyond;
        }
        if (rate == 0) {
            const V<T> convex = sums.less_one * T(LOG_UNIT<T>);
            const V<T> h = at_least_zero(fma(log1p<T>(beyond), total, -convex));
            return {h, convex, larger(h, largest * T(0.25))};
        }
        const T inverse_rate = T(1 / rule.parameter);
        const V<T> convex = sums.less_one * inverse_rate, scale = rule.power_of_total(beyond);
        const V<T> h = at_least_zero(-fma(scale, fma(total, fill<T>(inverse_rate), convex), convex));
        // Sums of steep powers are small, and so are their errors; those of flat ones are a large
        // linear part, and those of very steep ones have errors of their exponents.
        if (rule.parameter < 0.5 || rule.parameter > 3) return {h, convex, larger(h, largest * T(0.25))};
        const V<T> powers = sums.powers * inverse_rate;
        return {h, powers, powers * (rate + T(1))};
    }

    static V<T> separable_divergence(const Number &rule, Row<T> q, Row<T> p, Row<T> d) {
        const T rate = T(rule.parameter);
        Wide<T> sum{};
        for (int start = 0; start < p.n; start += BLOCK) {
            V<T> part{};
            for (int r = start; r < p.n && r < start + BLOCK; r++) {
                V<T> term = rate == 0 ? relative_entropy<T>(q[r], p[r], d[r]) : power_excess<T>(q[r], p[r], d[r], rate);
                V<T> w = rule.numbers != nullptr ? coefficient(rule.numbers, r) : fill<T>(1);
                part = fma(w, term, part);
            }
            sum = sum + widen(part);
        }
        return across_sum<T, SIDE>(narrow(sum));
    }

    // -- squares: H = S² − Σp², and spherical, S − ‖p‖ ------------------------------------------------

    // The sum over classes of what `term` gives for each vector.
    template <class Term> static INLINE V<T> sum_over_classes(int n, Term term) {
        Wide<T> sum{};
        for (int start = 0; start < n; start += BLOCK) {
            V<T> part{};
            for (int r = start; r < n && r < start + BLOCK; r++) part = term(r, part);
            if (n <= BLOCK) return across_sum<T, SIDE>(part);
            sum = sum + widen(part);
        }
        return across_sum<T, SIDE>(narrow(sum));
    }

    static V<T> brier_divergence(Row<T> d) {
        return sum_over_classes(d.n, [&](int r, V<T> sum) { return fma(d[r], d[r], sum); });
    }
    // Only what of p is not parallel to q counts.
    static V<T> spherical_divergence(Row<T> q, Row<T> p, Row<T> d) {
        const V<T> squares = sum_over_classes(q.n, [&](int r, V<T> sum) { return fma(q[r], q[r], sum); });
        const V<T> along = sum_over_classes(q.n, [&](int r, V<T> sum) { return fma(d[r], q[r], sum); });
        const V<T> p_squares = sum_over_classes(q.n, [&](int r, V<T> sum) { return fma(p[r], p[r], sum); });
        const V<T> parallel = along / squares;
        const V<T> rest = sum_over_classes(q.n, [&](int r, V<T> sum) {
            const V<T> across = d[r] - q[r] * parallel;
            return fma(across, across, sum);
        });
        return rest / (sqrt(p_squares) + sqrt(squares) * (parallel + T(1)));
    }

    // -- norm: H = S − ‖p‖_α, with α = rate + 1 -----------------------------------------------------

    static Entropy<T> norm_entropy(const Number &rule, Row<T> p, const Sums<T> &s) {
        const double rate = rule.parameter - 1;
        const V<T> inverse_total = T(1) / s.total;
        PowerSums sums;
        V<T> scale, log_share;  // S^−rate − 1, and log Σ(p/S)^α
        if (__builtin_expect(rate <= 4, true)) {
            sums = with_power<T>(rate, [&](auto power) __attribute__((always_inline)) {
                return sum_powers<false>(rule, p, s.top, power);
            });
            scale = rule.power_of_total(s.total - T(1));
            log_share = log((sums.powers + scale * sums.powers) * inverse_total);
        } else {  // powers of small numbers underflow, those of p/max p do not
            const V<T> inverse = T(1) / s.top, log_total = log1p<T>(s.total * inverse - T(1)) * T(rate);
            sums = sum_powers<false>(rule, p, s.top, [&](V<T> v) __attribute__((always_inline)) {
                return AnyPower<T>{T(rate * LOG_UNIT<T>)}(v * inverse);
            });
            scale = expm1<T>(-log_total);
            log_share = log(sums.powers * inverse_total) - log_total;
        }
        // With Σ(p/S)^α = 1 − T, S − ‖p‖ = S·(1 − (1 − T)^{1/α}), and T is accurate also where it is small.
        const V<T> missing = at_least_zero(-fma(scale, sums.powers, sums.less_one) * inverse_total);
        const V<T> x = -missing / (T(2) - missing), u = x * x;
        log_share = u < T(NEAR) ? (x + x) * fma(u, odd_series(u), fill<T>(1)) : log_share;
        const ExpParts<T> parts = split_exp<T>(log_share * T(1 / rule.parameter));
        const V<T> less_one = fma(parts.scale, parts.rest, parts.scale - T(1));
        const V<T> norm = s.total * fma(parts.scale, parts.rest, parts.scale);
        return {at_least_zero(-less_one * s.total), norm, norm};
    }

    // D(q, p), which does not change when q is scaled. Scaled so that the tangent of Σx^α at q meets
    // p at the height of q, it is ‖p‖ − ‖q‖, that is ‖q‖·((1 + T/Σq^α)^{1/α} − 1) with T the height
    // of p above that tangent.
    static V<T> norm_divergence(const Number &rule, Row<T> q, Row<T> p, Row<T> d) {
        const T rate = T(rule.parameter - 1), alpha = T(rule.parameter);
        V<T> top{}, mean_top{};
        for (int r = 0; r < p.n; r++) {
            top = larger(p[r], top);
            mean_top = larger(q[r], mean_top);
        }
        top = across_max<T, SIDE>(top);
        mean_top = across_max<T, SIDE>(mean_top);
        const V<T> log_top = log(mean_top);
        Wide<T> along{}, own{};
        for (int start = 0; start < p.n; start += BLOCK) {
            V<T> part_along{}, part_own{};
            for (int r = start; r < p.n && r < start + BLOCK; r++) {
                V<T> slope = q[r] > 0 ? exp<T>((log(q[r]) - log_top) * rate) : V<T>{};
                part_along = fma(d[r], slope, part_along);
                part_own = fma(q[r], slope, part_own);
            }
            along = along + widen(part_along);
            own = own + widen(part_own);
        }
        const V<T> own_sum = across_sum<T, SIDE>(narrow(own));
        const V<T> parallel = across_sum<T, SIDE>(narrow(along)) / own_sum;
        const V<T> lift = at_least_zero(parallel + T(1));
        Wide<T> excess{}, powers{}, member_powers{};
        for (int start = 0; start < p.n; start += BLOCK) {
            V<T> part_excess{}, part_powers{}, part_member{};
            for (int r = start; r < p.n && r < start + BLOCK; r++) {
                V<T> rest = (d[r] - q[r] * parallel) / top;
                V<T> a = p[r] / top, b = q[r] * lift / top;  // powers of small numbers underflow
                part_excess += power_excess<T>(b, a, rest, rate);
                part_powers += b > 0 ? exp<T>(log(b) * alpha) : V<T>{};
                part_member += a > 0 ? exp<T>(log(a) * alpha) : V<T>{};
            }
            excess = excess + widen(part_excess);
            powers = powers + widen(part_powers);
            member_powers = member_powers + widen(part_member);
        }
        const V<T> rise = across_sum<T, SIDE>(narrow(excess)) * rate, height = across_sum<T, SIDE>(narrow(powers));
        const Bits<T> near = rise < height;
        V<T> step = log1p<T>((near ? rise : V<T>{}) / (near ? height : fill<T>(1))) / alpha;
        V<T> close = exp<T>(log(height) / alpha) * expm1<T>(step);
        V<T> norm = exp<T>(log(across_sum<T, SIDE>(narrow(member_powers))) / alpha);
        V<T> mean_norm = lift * mean_top / top * exp<T>(log(own_sum / mean_top) / alpha);
        return top * (near ? close : norm - mean_norm);
    }

    // -- separable and norm, from the mean: what depends on it alone is found once ----------------------

    static bool has_tangent(const Number &rule) {
        return rule.structure == Structure::LOG || rule.structure == Structure::SEPARABLE || rule.structure == Structure::NORM;
    }

    static void find_tangent(const Number &rule, Row<T> q) {
        Tangent<T> &tangent = *rule.tangent;
        if (tangent.is_current) return;
        tangent.is_current = true;
        const bool is_norm = rule.structure == Structure::NORM;
        const T rate = T(rate_of(rule));
        if (!tangent.is_fitted) tangent.bend.fit(rate);
        tangent.is_fitted = true;
        V<T> top = fill<T>(1), log_top{};
        if (is_norm) {  // powers of small numbers underflow
            top = V<T>{};
            for (int r = 0; r < q.n; r++) top = larger(q[r], top);
            top = across_max<T, SIDE>(top);
            log_top = log(top);
        }
        for (int r = 0; r < q.n; r++) {
            tangent.inverse[r] = T(1) / at_least_tiny<T>(q[r]);
            V<T> power = q[r];
            if (is_norm) power = q[r] > 0 ? exp<T>((log(q[r]) - log_top) * (rate + T(1))) : V<T>{};
            else if (rate != 0) power = q[r] > 0 ? q[r] * exp<T>(log(q[r]) * rate) : V<T>{};
            tangent.scale[r] = rule.numbers != nullptr ? power * coefficient(rule.numbers, r) : power;
        }
        if (!is_norm) return;
        const V<T> powers = sum_over_classes(q.n, [&](int r, V<T> sum) { return sum + tangent.scale[r]; });
        tangent.norm = top * exp<T>(log(powers) / T(rule.parameter));
        for (int r = 0; r < q.n; r++) tangent.scale[r] = tangent.scale[r] / powers;
    }

    // Σ scale·b(x(r)) over classes. Vectors with numbers that the polynomial does not serve come after the
    // others: a branch for them would often be mispredicted.
    template <class Argument>
    static INLINE V<T> sum_bends(const Tangent<T> &tangent, int n, Argument x, Bits<T> &is_beyond) {
        if (tangent.bend.is_whole())
            return sum_over_classes(n, [&](int r, V<T> sum) __attribute__((always_inline)) {
                return fma(tangent.scale[r], tangent.bend.of_whole_rate(x(r, true), is_beyond), sum);
            });
        int n_apart = 0;
        const V<T> near = sum_over_classes(n, [&](int r, V<T> sum) __attribute__((always_inline)) {
            Bits<T> apart;
            const V<T> bend = tangent.bend.near(x(r, true), apart);
            tangent.apart[n_apart] = r;
            n_apart += any(apart);
            return fma(tangent.scale[r], bend, sum);
        });
        if (n_apart == 0) return near;
        return near + sum_over_classes(n_apart, [&](int i, V<T> sum) __attribute__((always_inline)) {
            const int r = tangent.apart[i];
            return fma(tangent.scale[r], tangent.bend.far(x(r, false), is_beyond), sum);
        });
    }

    // D(q, q + factor·d) of the mean q, with d/q = `relative(r)`. False where that is too far from the
    // mean for powers of their ratio, which might overflow. Where a slope is wanted, it is ⟨d, ∇H(q)⟩,
    // from the products of gradient and mean; norms do not need these.
    //
    // Under a norm, whose tangent scaled by `lift` meets p at the height of the scaled mean, it is
    // lift·‖q‖·((1 + rise)^{1/α} − 1) with the rise of Σx^α above that tangent.
    template <class Relative>
    static INLINE bool divergence_from_mean(const Number &rule, int n, V<T> factor, Relative relative, V<T> &value,
                                            const V<T> *gradient = nullptr, V<T> *slope = nullptr) {
        const Tangent<T> &tangent = *rule.tangent;
        Bits<T> is_beyond{};
        if (rule.structure != Structure::NORM) {
            V<T> sum{};
            value = sum_bends(tangent, n, [&](int r, bool is_first) __attribute__((always_inline)) {
                const V<T> x = relative(r);
                if (is_first && slope != nullptr) sum = fma(x, gradient[r], sum);
                return x * factor;
            }, is_beyond);
            if (slope != nullptr) *slope = across_sum<T, SIDE>(sum);
            return !any(is_beyond);
        }
        const V<T> along = sum_over_classes(n, [&](int r, V<T> sum) __attribute__((always_inline)) {
            rule.row[r] = relative(r);
            return fma(rule.row[r], tangent.scale[r], sum);
        });
        if (slope != nullptr) *slope = -along * tangent.norm;
        const V<T> parallel = factor * along, lift = parallel + T(1), inverse_lift = T(1) / lift;
        const V<T> stretch = factor * inverse_lift, offset = parallel * inverse_lift;
        const V<T> sum = sum_bends(tangent, n, [&](int r, bool) __attribute__((always_inline)) {
            return rule.row[r] * stretch - offset;
        }, is_beyond);
        const V<T> rise = sum * T(rule.parameter - 1);
        value = lift * tangent.norm * expm1<T>(log1p<T>(rise) * T(1 / rule.parameter));
        return !any(is_beyond | (lift < T(0.05)));
    }

    // -- decisions under costs c, (K, A), of which the least of each class is taken out --------------

    static constexpr int AT_ONCE = 4;  // actions whose sums stay in registers

    // Call `use` with each action and Σ_k number(k)·c_ka.
    template <class Numbers, class Use>
    static INLINE void for_actions(const Number &rule, int n, Numbers number, Use use) {
        const int n_actions = int(rule.parameter);
        int a = 0;
        for (; a + AT_ONCE <= n_actions; a += AT_ONCE) some_actions<AT_ONCE>(rule, n, a, number, use);
        for (; a < n_actions; a++) some_actions<1>(rule, n, a, number, use);
    }
    template <int COUNT, class Numbers, class Use>
    static INLINE void some_actions(const Number &rule, int n, int first, Numbers number, Use use) {
        const int n_actions = int(rule.parameter);
        const T *columns = rule.numbers + first;
        Wide<T> sums[COUNT] = {};
        for (int start = 0; start < n; start += 4 * BLOCK) {
            V<T> parts[COUNT] = {};
            for (int r = start; r < n && r < start + 4 * BLOCK; r++) {
                const V<T> p = number(r);
                for (int j = 0; j < COUNT; j++) parts[j] = fma(p, fill<T>(columns[ptrdiff_t(r) * n_actions + j]), parts[j]);
            }
            for (int j = 0; j < COUNT; j++) sums[j] = sums[j] + widen(parts[j]);
        }
        for (int j = 0; j < COUNT; j++) use(first + j, narrow(sums[j]));
    }
    // What the least costs of classes add to the cost of any action.
    template <class Numbers> static INLINE V<T> base_cost(const Number &rule, int n, Numbers number) {
        const T *minima = rule.numbers + ptrdiff_t(n) * int(rule.parameter);
        V<T> base{};
        for (int r = 0; r < n; r++) base = fma(number(r), fill<T>(minima[r]), base);
        return base;
    }

    static Entropy<T> cost_entropy(const Number &rule, Row<T> p) {
        V<T> least = fill<T>(__builtin_inf());
        auto number = [&](int r) __attribute__((always_inline)) { return p[r]; };
        for_actions(rule, p.n, number, [&](int, V<T> cost) { least = smaller(cost, least); });
        return {base_cost(rule, p.n, number) + least, -least, least};
    }

    // A sum of two doubles, of which the second is what the first lost to rounding. Differences of
    // large expected costs keep their digits.
    struct Exact {
        Doubles sum, lost;
    };
    static INLINE Exact add_product(Exact s, Doubles a, Doubles b) {
        Doubles product = a * b, error = fma(a, b, -product);  // 0 without such an instruction
        Doubles sum = s.sum + product, taken = sum - s.sum;
        Doubles rounding = (s.sum - (sum - taken)) + (product - taken);
        return {sum, s.lost + (rounding + error)};
    }

    // Add w·(expected cost − least expected cost) of each action to its regret. Costs that differ
    // by less than their own rounding errors are tied.
    static void add_cost_regrets(const Number &rule, Row<T> p, V<T> w) {
        const int n_actions = int(rule.parameter);
        constexpr int PARTS = sizeof(T) == 4 ? 2 : 1;
        const double rounding = (4.0 + p.n) * (sizeof(T) == 4 ? 0x1p-50 : 0x1p-96);
        Exact *costs = reinterpret_cast<Exact *>(rule.row);
        Exact best[PARTS] = {};
        for (int a = 0; a < n_actions; a++) {
            Exact s[PARTS] = {};
            for (int r = 0; r < p.n; r++) {
                Wide<T> wide = widen(p[r]);
                Doubles halves[PARTS];
                memcpy(halves, &wide, sizeof halves);
                Doubles cost = Doubles{} + rule.doubles[ptrdiff_t(r) * n_actions + a];
                for (int i = 0; i < PARTS; i++) {
                    if constexpr (sizeof(T) == 4) s[i].sum = fma(halves[i], cost, s[i].sum);
                    else s[i] = add_product(s[i], halves[i], cost);
                }
            }
            for (int i = 0; i < PARTS; i++) {
                costs[a * PARTS + i] = s[i];
                Longs is_less = (s[i].sum - best[i].sum) + (s[i].lost - best[i].lost) < 0;
                best[i].sum = a == 0 || is_less ? s[i].sum : best[i].sum;
                best[i].lost = a == 0 || is_less ? s[i].lost : best[i].lost;
            }
        }
        for (int a = 0; a < n_actions; a++) {
            Doubles regret[PARTS];
            for (int i = 0; i < PARTS; i++) {
                Exact s = costs[a * PARTS + i];
                Doubles excess = (s.sum - best[i].sum) + (s.lost - best[i].lost);
                regret[i] = excess <= (s.sum + best[i].sum) * rounding ? Doubles{} : excess;
            }
            Wide<T> wide;
            memcpy(&wide, regret, sizeof wide);
            rule.sums[a] = fma(w, narrow(wide), rule.sums[a]);
        }
    }

    static V<T> least_cost_regret(const Number &rule) {
        V<T> least = rule.sums[0];
        for (int a = 1; a < int(rule.parameter); a++) least = smaller(rule.sums[a], least);
        return least;
    }

    // The action of least expected cost; −1 where another costs the same up to the rounding of p.
    static V<T> cheapest_action(const Number &rule, Row<T> p) {
        const int n_actions = int(rule.parameter);
        const double margin = sizeof(T) == 4 ? 0x1p-19 : 0x1p-48;
        Wide<T> *costs = reinterpret_cast<Wide<T> *>(rule.row);
        V<T> best = fill<T>(__builtin_inf()), action{}, n_best{};
        for (int a = 0; a < n_actions; a++) {
            Wide<T> sum{};
            for (int r = 0; r < p.n; r++)
                sum = fma(widen(p[r]), fill_wide<T>(rule.doubles[ptrdiff_t(r) * n_actions + a]), sum);
            costs[a] = sum;
        }
        // Costs above the least of each class are not negative, so that each is as large as its terms.
        for (int a = 0; a < n_actions; a++) best = smaller(narrow(costs[a] * (1 + margin)), best);
        for (int a = 0; a < n_actions; a++) {
            const Bits<T> is_best = narrow(costs[a] * (1 - margin)) <= best;
            action = is_best ? fill<T>(a) : action;
            n_best += is_best ? fill<T>(1) : V<T>{};
        }
        return n_best == T(1) ? action : fill<T>(-1);
    }

    // -- the k largest classes ------------------------------------------------------------------------

    // Put the k largest of a row into `largest`, in falling order.
    static void k_largest(Row<T> p, int k, V<T> *largest) {
        for (int j = 0; j < k; j++) largest[j] = fill<T>(-1);
        for (int r = 0; r < p.n; r++) insert(p[r], k, largest);
    }
    static INLINE void insert(V<T> number, int k, V<T> *largest) {
        if (!any(number > largest[k - 1])) return;
        for (int j = 0; j < k; j++) {
            V<T> here = largest[j];
            largest[j] = larger(number, here);
            number = smaller(number, here);
        }
    }

    static Entropy<T> largest_entropy(const Number &rule, Row<T> p, const Sums<T> &s) {
        const int k = int(rule.parameter);
        k_largest(p, k, rule.row);
        V<T> sum{};
        for (int j = k - 1; j >= 0; j--) sum += rule.row[j];
        return {at_least_zero(s.total - sum), sum, sum};
    }

    // With t the k-th largest entry of p, the regret of choosing the classes S is
    // Σ_{j∉S} (p_j − t)⁺ + Σ_{j∈S} (t − p_j)⁺. Add w times both parts of each class.
    static void add_largest_regrets(const Number &rule, Row<T> p, V<T> w) {
        const int k = int(rule.parameter);
        k_largest(p, k, rule.row);
        const V<T> threshold = rule.row[k - 1];
        V<T> *below = rule.sums, *above = rule.sums + p.n;
        for (int r = 0; r < p.n; r++) {
            below[r] = fma(w, at_least_zero(threshold - p[r]), below[r]);
            above[r] = fma(w, at_least_zero(p[r] - threshold), above[r]);
        }
    }

    // The regret of the best choice: the k classes that gain most.
    static V<T> least_largest_regret(const Number &rule, int n) {
        const int k = int(rule.parameter);
        const V<T> *below = rule.sums, *above = rule.sums + n;
        for (int j = 0; j < k; j++) rule.row[j] = fill<T>(-__builtin_inf());
        for (int r = 0; r < n; r++) insert(above[r] - below[r], k, rule.row);
        const V<T> threshold = rule.row[k - 1];
        V<T> room = fill<T>(k), regret{};  // for classes at the threshold, of which the first are chosen
        for (int r = 0; r < n; r++) room -= above[r] - below[r] > threshold ? fill<T>(1) : V<T>{};
        for (int r = 0; r < n; r++) {
            const V<T> gain = above[r] - below[r];
            const Bits<T> tied = (gain == threshold) & (room > 0);
            room -= tied ? fill<T>(1) : V<T>{};
            regret += (tied | (gain > threshold)) ? below[r] : above[r];
        }
        return regret;
    }

    // -- quadratic: H = ½ Σ p_i·p_j·d_ij with the distances d of classes; D = ‖(p − q)R‖² ------------

    static Entropy<T> quadratic_entropy(const Number &rule, Row<T> p) {
        V<T> h = product_sum(rule.numbers, p.n, p, [&](int j, V<T> product, V<T> sum) { return fma(p[j], product, sum); });
        return {h, -h, larger(h, fill<T>(0.25 * rule.largest))};  // classes that are small in the mean have its errors
    }
    static V<T> quadratic_divergence(const Number &rule, Row<T> d) {
        const ptrdiff_t square = ptrdiff_t(d.n) * d.n;
        const int n_columns = int((rule.size - square) / d.n);
        // Not fused, so that opposite differences of classes with equal rows leave exactly 0.
        return product_sum<false>(rule.numbers + square, n_columns, d,
                                  [](int, V<T> product, V<T> sum) { return fma(product, product, sum); });
    }
    template <bool FUSED> static INLINE V<T> add_product(V<T> a, V<T> b, V<T> sum) {
        if constexpr (FUSED) return fma(a, b, sum);
        else return sum + a * b;
    }
    // Sum what becomes of each column of the product of a row with a matrix (K, n_columns).
    template <bool FUSED = true, class Use> static INLINE V<T> product_sum(const T *matrix, int n_columns, Row<T> p, Use use) {
        V<T> sum{};
        int j = 0;
        for (; j + AT_ONCE <= n_columns; j += AT_ONCE) {
            V<T> products[AT_ONCE] = {};
            for (int r = 0; r < p.n; r++)
                for (int i = 0; i < AT_ONCE; i++)
                    products[i] = add_product<FUSED>(p[r], fill<T>(matrix[ptrdiff_t(r) * n_columns + j + i]), products[i]);
            for (int i = 0; i < AT_ONCE; i++) sum = use(j + i, products[i], sum);
        }
        for (; j < n_columns; j++) {
            V<T> product{};
            for (int r = 0; r < p.n; r++)
                product = add_product<FUSED>(p[r], fill<T>(matrix[ptrdiff_t(r) * n_columns + j]), product);
            sum = use(j, product, sum);
        }
        return sum;
    }

    // -- cumulative: H = Σ F·(S − F) with the cumulative sums F; D = Σ (F(p) − F(q))² -----------------

    static Entropy<T> cumulative_entropy(const Number &rule, Row<T> p) {
        // F and S − F are summed from either end, so that neither is a rounded difference.
        Wide<T> *above = reinterpret_cast<Wide<T> *>(rule.row);
        Wide<T> sum{}, below{}, h{}, convex{};
        for (int r = p.n - 1; r > 0; r--) above[r] = sum = sum + widen(p[r]);
        for (int r = 0; r < p.n - 1; r++) {
            below = below + widen(p[r]);
            h = fma(below, above[r + 1], h);
            convex = fma(below, below - 1.0, convex);  // which no error of S moves
        }
        return {narrow(h), narrow(convex), larger(narrow(h), fill<T>(0.1 * p.n))};  // Σ F has errors, too
    }
    static V<T> cumulative_divergence(Row<T> d) {
        Wide<T> below{}, sum{};
        for (int r = 0; r < d.n - 1; r++) {
            below = below + widen(d[r]);
            sum = fma(below, below, sum);
        }
        return narrow(sum);
    }

    // -- two classes: see two_class.hpp ---------------------------------------------------------------

    static Entropy<T> two_class_entropy(const Number &rule, Row<T> p, const Sums<T> &s) {
        const TwoClass<T> numbers(rule.doubles, rule.numbers);
        const Bits<T> is_second = numbers.is_second(p[0], p[1]);
        const V<T> c = (is_second ? p[1] : p[0]) / s.total;
        const V<T> h = at_least_zero(s.total * numbers.entropy(c, numbers.side(is_second)));
        return {h, -h, larger(h, fill<T>(numbers.size()))};
    }

    // In double precision, as differences of entropies would lose digits. Of vectors all of whose lanes
    // are not wanted it is 0.
    static V<T> two_class_divergence(const Number &rule, Row<T> q, Row<T> p, Row<T> d, bool is_unbounded,
                                     Bits<T> is_unwanted = Bits<T>{}) {
        const TwoClass<double> numbers(rule.doubles, rule.doubles);
        constexpr int PARTS = int(sizeof(Wide<T>) / sizeof(Doubles));
        Wide<T> wide[6] = {widen(q[0]), widen(q[1]), widen(p[0]), widen(p[1]), widen(d[0]), widen(d[1])}, result;
        Doubles halves[6][PARTS], values[PARTS];
        memcpy(halves, wide, sizeof halves);
        for (int i = 0; i < PARTS; i++) {
            bool is_wanted = false;
            for (int lane = 0; lane < LANES<double>; lane++) is_wanted |= is_unwanted[i * LANES<double> + lane] == 0;
            values[i] = Doubles{};
            if (!is_wanted) continue;
            const Doubles own_q[] = {halves[0][i], halves[1][i]}, own_p[] = {halves[2][i], halves[3][i]};
            const Doubles own_d[] = {halves[4][i], halves[5][i]};
            values[i] = SCOREWISE_ISA::two_class_divergence(numbers, own_q, own_p, own_d, PARTS == 1, is_unbounded);
        }
        memcpy(&result, values, sizeof result);
        return narrow(result);
    }

    // -- all structures -------------------------------------------------------------------------------

    static Entropy<T> entropy(const Number &rule, Row<T> p, const Sums<T> &s) {
        switch (rule.structure) {
            case Structure::SEPARABLE: return separable_entropy(rule, p, s);
            case Structure::NORM: return norm_entropy(rule, p, s);
            case Structure::COSTS: return cost_entropy(rule, p);
            case Structure::LARGEST: return largest_entropy(rule, p, s);
            case Structure::QUADRATIC: return quadratic_entropy(rule, p);
            case Structure::TWO_CLASS: return two_class_entropy(rule, p, s);
            default: return cumulative_entropy(rule, p);
        }
    }

    // Whether EU is a least regret, not a mean divergence.
    static bool has_regrets(const Number &rule) { return rule.structure == Structure::COSTS || rule.structure == Structure::LARGEST; }

    // D(q, p) with d = p − q, which callers may have with more digits.
    static V<T> divergence(const Number &rule, Row<T> q, Row<T> p, Row<T> d) {
        switch (rule.structure) {
            case Structure::LOG:
            case Structure::SEPARABLE: return separable_divergence(rule, q, p, d);
            case Structure::BRIER: return brier_divergence(d);
            case Structure::SPHERICAL: return spherical_divergence(q, p, d);
            case Structure::NORM: return norm_divergence(rule, q, p, d);
            case Structure::QUADRATIC: return quadratic_divergence(rule, d);
            case Structure::TWO_CLASS: return two_class_divergence(rule, q, p, d, false);
            default: return cumulative_divergence(d);
        }
    }
    static int n_regrets(const Number &rule, int n) { return rule.structure == Structure::COSTS ? int(rule.parameter) : 2 * n; }
    static void add_regrets(const Number &rule, Row<T> p, V<T> w) {
        if (rule.structure == Structure::COSTS) add_cost_regrets(rule, p, w);
        else add_largest_regrets(rule, p, w);
    }
    static V<T> least_regret(const Number &rule, int n) {
        return rule.structure == Structure::COSTS ? least_cost_regret(rule) : least_largest_regret(rule, n);
    }
};

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
