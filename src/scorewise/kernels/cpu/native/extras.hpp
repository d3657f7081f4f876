// What is asked for besides total, aleatoric and epistemic uncertainty: the jackknife's corrections
// and errors, E D(θ, θ̄), and E D(q, θ) for a given prediction q. As in decompose/_jackknife.py and
// decompose/_related.py, where the formulas are explained.
//
// The decomposer has found the mean of a group of instances, and the three components under a rule.
// Another pass over the members, which are still in the cache, follows.
#pragma once

#include "rules.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

template <class T, bool SIDE> class Extras {
    using R = Rules<T, SIDE>;
    using Number = RuleNumbers<T>;

  public:
    // The most components of a rule: total, aleatoric and epistemic uncertainty and their errors.
    static constexpr int MOST_PARTS = 6;

    Extras(const Job &job, Members<T, SIDE> &members, Arena &arena) : job_(job), members_(members), n_(members.n) {
        if (job.extras == 0 && job.predictor == nullptr) return;
        ptrdiff_t n_choices = 2 * n_;
        for (int i = 0; i < job.n_rules; i++)
            if (job.rules[i].structure == Structure::COSTS && job.rules[i].parameter > n_choices)
                n_choices = ptrdiff_t(job.rules[i].parameter);
        predictor_ = arena.take<V<T>>(n_);
        deviation_ = arena.take<V<T>>(n_);
        step_ = arena.take<V<T>>(n_);
        left_ = arena.take<V<T>>(n_);
        gradient_ = arena.take<V<T>>(n_);
        scale_ = arena.take<V<T>>(n_);
        regrets_ = arena.take<V<T>>(n_choices);
        is_chosen_ = arena.take<Bits<T>>(n_choices);
        for (const Structure structure : FIRST_FOUR) {
            Number &rule = first_[structure];
            rule.structure = structure;
            rule.sums = arena.take<V<T>>(n_);
            rule.row = arena.take<V<T>>(n_);
            rule.tangent = structure == Structure::LOG ? new_tangent<T>(n_, arena) : nullptr;
        }
        if (!(job.extras & (UNBIASED | ERRORS))) return;
        other_weight_ = arena.take<V<T>>(job.n_members);
        influence_ = arena.take<Influence>(job.n_members);
        if (job.extras & ERRORS) {
            divergences_ = arena.take<V<T>>(job.n_rules * job.n_members);
            entropies_ = arena.take<T>(job.n_rules * entropies_of_rule());
        }
        if (job.weight_instance_stride == 0) find_other_weights();
    }

    // -- entropies of members, for the errors ----------------------------------------------------------

    bool keeps_entropies() const { return entropies_ != nullptr; }

    // Keep the entropy of a member, or of several of one instance from `m` on: one in each lane.
    INLINE void keep_entropy(int place, ptrdiff_t m, V<T> entropy) { store(entropy_at(place, m), entropy); }
    INLINE void keep_same_entropy(int place, ptrdiff_t m, V<T> entropy) {
        if (SIDE) keep_entropy(place, m, entropy);
        else *entropy_at(place, m) = entropy[0];
    }

    // Keep D(θ̄, θ_m), where it was needed for EU.
    INLINE void keep_divergence(int place, ptrdiff_t m, V<T> divergence) {
        if (divergences_ != nullptr) divergences_[place * job_.n_members + m] = divergence;
    }

    // -- all extras -------------------------------------------------------------------------------------

    // Go to instances from `first` on, with their mean.
    void locate(ptrdiff_t first, int count, const Center<T> *center, const V<T> *mean) {
        center_ = center;
        mean_ = mean;
        if (first_[Structure::LOG].tangent != nullptr) first_[Structure::LOG].tangent->is_current = false;
        if (job_.predictor != nullptr) read_predictor(first, count);
        if (other_weight_ != nullptr && job_.weight_instance_stride != 0) find_other_weights();
    }

    // Change and add to the three components of a rule, of which EU is a difference where that
    // `is_well_conditioned`; return how many there are.
    int add_components(const Number *rule, int place, Bits<T> is_well_conditioned, V<T> *parts) {
        const Number &own = rule != nullptr ? *rule : first_[job_.rules[place].structure];
        if (job_.predictor != nullptr) {
            parts[2] = divergence_of_predictor(own, parts[2]);
            parts[0] = parts[1] + parts[2];
            return 3;
        }
        if (job_.extras & REVERSE) {
            parts[3] = reverse(own, all(is_well_conditioned), parts);
            return 4;
        }
        if (job_.extras & ACTIONS) {
            parts[3] = R::cheapest_action(own, mean());
            return 4;
        }
        find_influences(own, place, all(is_well_conditioned), parts);
        Wide<T> sum{};
        for (ptrdiff_t m = 0; m < job_.n_members; m++) sum = sum + widen(influence_[m].excess);
        const V<T> bias = narrow(sum);
        if (job_.extras & ERRORS) find_errors(place, bias, parts);
        if (job_.extras & UNBIASED) {
            parts[2] += bias;
            parts[0] = parts[1] + parts[2];
        }
        return job_.extras & ERRORS ? 6 : 3;
    }

  private:
    static constexpr int GROUP = Members<T, SIDE>::GROUP;
    static constexpr double MOST_CANCELLED = 0.125;  // what may be left of θ̄ without a sum of the other members

    Row<T> mean() const { return Row<T>::of(mean_, n_); }

    // How far a member is from the mean; nothing is lost where it has almost all the weight.
    INLINE V<T> deviation(Row<T> row, int r) const { return (row[r] - center_[r].anchor) - center_[r].shift; }

    // -- the choice of a decision rule -------------------------------------------------------------------

    static bool is_decision(const Number &rule) { return rule.structure == Structure::ZERO_ONE || R::has_regrets(rule); }

    int n_regrets(const Number &rule) const { return rule.structure == Structure::ZERO_ONE ? n_ : R::n_regrets(rule, n_); }

    // Put the regrets under p into the rule's sums.
    void find_regrets(const Number &rule, Row<T> p) {
        clear_regrets(rule);
        add_regrets(rule, p, fill<T>(1));
    }
    void clear_regrets(const Number &rule) {
        for (int i = 0; i < n_regrets(rule); i++) rule.sums[i] = V<T>{};
    }
    void add_regrets(const Number &rule, Row<T> p, V<T> w) {
        if (rule.structure != Structure::ZERO_ONE) return R::add_regrets(rule, p, w);
        const V<T> top = top_of(p);
        for (int r = 0; r < n_; r++) rule.sums[r] = fma(w, top - p[r], rule.sums[r]);
    }

    static V<T> top_of(Row<T> p) {
        V<T> top{};
        for (int r = 0; r < p.n; r++) top = larger(p[r], top);
        return across_max<T, SIDE>(top);
    }

    // Mark the regrets of what is chosen under q, the first if several are tied.
    void choose(const Number &rule, Row<T> q) {
        if (rule.structure == Structure::LARGEST) {
            choose_largest(int(rule.parameter), q, rule.row);
            return;
        }
        find_regrets(rule, q);
        Bits<T> is_undecided = ~Bits<T>{};
        for (int i = 0; i < n_regrets(rule); i++) {
            Bits<T> best = (rule.sums[i] == T(0)) & is_undecided;
            if constexpr (!SIDE) {
                if (any(best)) best = first_lane(best, i, q.n);
            }
            is_chosen_[i] = best;
            is_undecided &= ~(SIDE || !any(best) ? best : ~Bits<T>{});
        }
    }
    // Of the classes that are marked in a vector, the first.
    Bits<T> first_lane(Bits<T> marked, int r, int n) const {
        const int last = r == n - 1 ? int(job_.n_classes - ptrdiff_t(r) * LANES<T>) : LANES<T>;
        Bits<T> first{};
        for (int lane = 0; lane < last; lane++) {
            if (marked[lane] == 0) continue;
            first[lane] = -1;
            break;
        }
        return first;
    }
    // Regrets of classes that are chosen come first, those of classes that are not after them.
    void choose_largest(int k, Row<T> q, V<T> *largest) {
        R::k_largest(q, k, largest);
        const V<T> threshold = largest[k - 1];
        V<T> room = fill<T>(k);
        for (int r = 0; r < n_; r++) room -= q[r] > threshold ? fill<T>(1) : V<T>{};
        for (int r = 0; r < n_; r++) {
            const Bits<T> tied = (q[r] == threshold) & (room > 0);
            room -= tied ? fill<T>(1) : V<T>{};
            is_chosen_[r] = tied | (q[r] > threshold);
            is_chosen_[n_ + r] = ~is_chosen_[r];
        }
    }
    // The regret of what was chosen.
    V<T> chosen_regret(const Number &rule, const V<T> *regrets) const {
        V<T> sum{};
        for (int i = 0; i < n_regrets(rule); i++) sum += is_chosen_[i] ? regrets[i] : V<T>{};
        return across_sum<T, SIDE>(sum);
    }

    // -- a given prediction: E D(q, θ) = E D(θ̄, θ) + D(q, θ̄), or the mean regret of its decision ----------

    void read_predictor(ptrdiff_t first, int count) {
        for (int r = 0; r < n_; r++) predictor_[r] = V<T>{};
        for (int lane = 0; lane < GROUP; lane++) {
            const ptrdiff_t instance = first + (lane < count ? lane : count - 1);
            for (ptrdiff_t k = 0; k < job_.n_classes; k++) {
                T number;
                memcpy(&number, job_.predictor + instance * job_.predictor_instance_stride +
                                    k * job_.predictor_class_stride, sizeof number);
                if (SIDE) predictor_[k][lane] = number;
                else predictor_[k / LANES<T>][k % LANES<T>] = number;
            }
        }
    }

    V<T> divergence_of_predictor(const Number &rule, V<T> epistemic) {
        const Row<T> q = Row<T>::of(predictor_, n_);
        if (is_decision(rule)) {
            choose(rule, q);
            clear_regrets(rule);
            for (ptrdiff_t m = 0; m < job_.n_members; m++) add_regrets(rule, members_.row(m), members_.weight(m));
            return chosen_regret(rule, rule.sums) + (epistemic - epistemic);  // NaN where a member is
        }
        for (int r = 0; r < n_; r++) deviation_[r] = (center_[r].anchor - q[r]) + center_[r].shift;
        return epistemic + divergence(rule, q, mean(), Row<T>::of(deviation_, n_));
    }

    // D(q, p), infinite where q gives 0 to what p does not.
    V<T> divergence(const Number &rule, Row<T> q, Row<T> p, Row<T> d) const {
        if (rule.structure == Structure::TWO_CLASS) return R::two_class_divergence(rule, q, p, d, true);
        if (!is_logarithmic(rule)) return R::divergence(rule, q, p, d);
        return R::sum_over_classes(n_, [&](int r, V<T> sum) {
            const V<T> w = rule.numbers != nullptr ? R::coefficient(rule.numbers, r) : fill<T>(1);
            return fma(w, unbounded_relative_entropy(q[r], p[r], d[r]), sum);
        });
    }

    static bool is_logarithmic(const Number &rule) {
        return rule.structure == Structure::LOG || (rule.structure == Structure::SEPARABLE && rule.parameter == 0);
    }

    // p·log(p/q) − p + q, infinite at q = 0 < p.
    static INLINE V<T> unbounded_relative_entropy(V<T> q, V<T> p, V<T> d) {
        const Bits<T> is_small = q < T(0x1p-62);
        if (__builtin_expect(!any(is_small & (p > 0)), true)) return relative_entropy<T>(q, p, d);
        // Numbers below the normal ones are scaled, as the logarithm does not know them.
        const V<T> ratio = p / (is_small ? q * T(0x1p64) : fill<T>(1)), log_ratio = log(ratio) + T(64 * LN2);
        const V<T> far = (p > 0 ? p * log_ratio : V<T>{}) - d;
        const V<T> value = (is_small & (p > 2 * q)) ? far : relative_entropy<T>(q, p, d);
        return ((q == 0) & (p > 0)) ? fill<T>(__builtin_inf()) : value;
    }

    // -- E D(θ, θ̄) -----------------------------------------------------------------------------------------

    V<T> reverse(const Number &rule, bool is_well_conditioned, const V<T> *parts) {
        if (rule.structure == Structure::BRIER || rule.structure == Structure::QUADRATIC || rule.structure == Structure::CUMULATIVE) return parts[2];
        if (is_well_conditioned && is_logarithmic(rule)) {
            const double heaviest = rule.numbers != nullptr ? rule.doubles[rule.size - 1] : 1;
            const V<T> difference = reverse_by_difference(rule);
            if (all(difference > (parts[0] + T(heaviest)) * T(FAR))) return difference;
        }
        if (is_well_conditioned && (rule.structure == Structure::SEPARABLE || rule.structure == Structure::NORM)) {
            const double rate = R::rate_of(rule);
            V<T> size{}, difference{};
            if (rate >= 0.25 && rate <= 4)  // others have large linear parts, or errors of their exponents
                difference = with_power<T>(rate, [&](auto power) __attribute__((always_inline)) {
                    return rule.structure == Structure::NORM ? reverse_of_norm(rule, power, size)
                                                  : reverse_of_powers(rule, power, size);
                });
            if (all(difference > size * T(FAR))) return difference;
        }
        const bool decides = is_decision(rule);
        if (decides) {
            find_regrets(rule, mean());
            for (int i = 0; i < n_regrets(rule); i++) regrets_[i] = rule.sums[i];
        }
        Wide<T> sum{};
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            V<T> value;
            if (decides) {
                choose(rule, row);
                value = chosen_regret(rule, regrets_);
            } else {
                for (int r = 0; r < n_; r++) deviation_[r] = -deviation(row, r);
                value = divergence(rule, row, mean(), Row<T>::of(deviation_, n_));
            }
            sum = sum + widen(w > 0 ? w * value : V<T>{});
        }
        return narrow(sum);
    }

    // Σ w·θ̄·(log θ̄ − E log θ), where that keeps enough digits.
    V<T> reverse_by_difference(const Number &rule) {
        for (int r = 0; r < n_; r++) step_[r] = V<T>{};  // E log θ, less log θ̄
        for (int r = 0; r < n_; r++) scale_[r] = cheap_log(mean_[r]);
        Bits<T> is_infinite{};
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            for (int r = 0; r < n_; r++) {
                V<T> p = row[r], log_p = cheap_log(p);
                const Bits<T> is_small = (p < Format<T>::tiny) & (mean_[r] > 0) & (w > 0);
                if (__builtin_expect(any(is_small), false)) {
                    const V<T> log_scaled = cheap_log(p * T(0x1p64)) - T(64 * LN2 / LOG_UNIT<T>);
                    log_p = is_small ? log_scaled : log_p;
                    is_infinite |= is_small & (p == 0);
                }
                step_[r] = fma(w, log_p - scale_[r], step_[r]);
            }
        }
        const V<T> difference = R::sum_over_classes(n_, [&](int r, V<T> sum) {
            const V<T> w = rule.numbers != nullptr ? R::coefficient(rule.numbers, r) : fill<T>(1);
            return fma(mean_[r] * w, step_[r], sum);
        });
        const V<T> infinite = across_max<T, SIDE>(is_infinite ? fill<T>(__builtin_inf()) : V<T>{});
        return infinite - difference * T(LOG_UNIT<T>);
    }

    // With P = θ^rate and Q that of the mean, Σ E θ·(P − Q) − (1 + 1/rate)·θ̄·E(P − Q), and the size of
    // the numbers that it is a difference of.
    template <class Power> INLINE V<T> reverse_of_powers(const Number &rule, Power power, V<T> &size) {
        const T factor = T(1 + 1 / rule.parameter);
        for (int r = 0; r < n_; r++) {
            step_[r] = left_[r] = V<T>{};  // E(P − Q), E θ·(P − Q)
            scale_[r] = power(mean_[r]).power;
        }
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            for (int r = 0; r < n_; r++) {
                const V<T> p = row[r], rise = w * (power(p).power - scale_[r]);
                step_[r] += rise;
                left_[r] = fma(p, rise, left_[r]);
            }
        }
        auto weighted_sum = [&](auto term) __attribute__((always_inline)) {
            return R::sum_over_classes(n_, [&](int r, V<T> sum) __attribute__((always_inline)) {
                const V<T> w = rule.numbers != nullptr ? R::coefficient(rule.numbers, r) : fill<T>(1);
                return fma(w, term(r), sum);
            });
        };
        size = weighted_sum([&](int r) { return fma(mean_[r], fma(step_[r] + scale_[r], fill<T>(factor), scale_[r]), left_[r]); });
        return weighted_sum([&](int r) { return fma(mean_[r] * -factor, step_[r], left_[r]); });
    }

    // ‖θ̄‖ − Σ θ̄·E (θ/‖θ‖)^rate, and ‖θ̄‖.
    template <class Power> INLINE V<T> reverse_of_norm(const Number &rule, Power power, V<T> &size) {
        const T alpha = T(rule.parameter), back = T(1 / rule.parameter - 1);
        for (int r = 0; r < n_; r++) step_[r] = V<T>{};
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> powers = R::sum_over_classes(n_, [&](int r, V<T> sum) __attribute__((always_inline)) {
                const V<T> p = row[r];
                scale_[r] = power(p).power;
                return fma(p, scale_[r], sum);
            });
            const V<T> share = members_.weight(m) * exp<T>(log(powers) * back);
            for (int r = 0; r < n_; r++) step_[r] = fma(share, scale_[r], step_[r]);
        }
        const V<T> mean_powers = R::sum_over_classes(
            n_, [&](int r, V<T> sum) __attribute__((always_inline)) { return fma(mean_[r], power(mean_[r]).power, sum); });
        size = exp<T>(log(mean_powers) / alpha);
        return size - R::sum_over_classes(n_, [&](int r, V<T> sum) { return fma(mean_[r], step_[r], sum); });
    }

    // -- the jackknife: a member of weight w is left out --------------------------------------------------

    // What a member does to TU and EU.
    struct Influence {
        V<T> excess;      // (1 − w)·D(θ̄, θ̄₋ₘ)
        V<T> slope;       // of TU in the direction of the member, ⟨θ_m − θ̄, ∇H(θ̄)⟩
        V<T> divergence;  // D(θ̄, θ_m)
    };

    // 1 − w as the sum of the other weights, accurate also where w is almost 1.
    void find_other_weights() {
        Wide<T> after{}, before{};
        for (ptrdiff_t m = job_.n_members - 1; m >= 0; m--) {
            other_weight_[m] = narrow(after);
            after = after + widen(members_.weight(m));
        }
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            other_weight_[m] += narrow(before);
            before = before + widen(members_.weight(m));
        }
    }

    void find_influences(const Number &rule, int place, bool is_well_conditioned, const V<T> *parts) {
        const bool with_errors = job_.extras & ERRORS;
        const bool decides = is_decision(rule), has_tangent = R::has_tangent(rule);
        if (decides) choose(rule, mean());
        if (has_tangent) R::find_tangent(rule, mean());
        if (with_errors) find_gradient(rule);
        for (int r = 0; r < n_ && has_tangent && with_errors && rule.structure != Structure::NORM; r++)
            gradient_[r] *= mean_[r];  // for (θ_m − θ̄)/θ̄
        if (rule.structure == Structure::COSTS) {
            for (ptrdiff_t m = 0; m < job_.n_members; m++) find_cost_influence(rule, m);
            return;
        }
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            Influence &influence = influence_[m];
            V<T> slope{};
            const bool has_slope = has_tangent && with_errors;
            influence.excess = excess(rule, row, m, is_well_conditioned, has_slope ? &slope : nullptr) * other_weight_[m];
            if (!with_errors) continue;
            if (!has_slope)
                slope = R::sum_over_classes(
                    n_, [&](int r, V<T> sum) { return fma(deviation(row, r), gradient_[r], sum); });
            influence.slope = slope;
            if (is_well_conditioned) influence.divergence = influence.slope + (parts[0] - entropy_of(place, m));
            else if (decides) influence.divergence = regret_under(rule, row);
            else if (has_tangent && rule.structure != Structure::LOG) influence.divergence = divergences_[place * job_.n_members + m];
            else influence.divergence = divergence_of(rule, row);
        }
    }

    // Expected costs are linear: those of the member's deviation give the regrets of what was chosen
    // under the mean, without the member and under the member alone.
    void find_cost_influence(const Number &rule, ptrdiff_t m) {
        const Row<T> row = members_.row(m);
        const V<T> w = members_.weight(m), other_weight = other_weight_[m];
        auto d = [&](int r) __attribute__((always_inline)) { return deviation(row, r); };
        V<T> chosen{}, excess{}, divergence{};
        R::for_actions(rule, n_, d, [&](int a, V<T> cost) {
            regrets_[a] = cost;
            chosen += is_chosen_[a] ? cost : V<T>{};
        });
        for (int a = 0; a < int(rule.parameter); a++) {
            const V<T> difference = chosen - regrets_[a];
            excess = larger(-difference * w - rule.sums[a] * other_weight, excess);
            divergence = larger(difference - rule.sums[a], divergence);
        }
        influence_[m] = {excess, chosen + R::base_cost(rule, n_, d), divergence};
    }

    // D(θ̄, θ_m)
    V<T> divergence_of(const Number &rule, Row<T> row) {
        V<T> value;
        if (R::has_tangent(rule) && from_mean(rule, row, fill<T>(1), false, value, nullptr)) return value;
        for (int r = 0; r < n_; r++) deviation_[r] = deviation(row, r);
        return R::divergence(rule, mean(), row, Row<T>::of(deviation_, n_));
    }

    // D(θ̄, θ̄₋ₘ), and the slope where it is asked for.
    V<T> excess(const Number &rule, Row<T> row, ptrdiff_t m, bool is_well_conditioned, V<T> *slope) {
        const V<T> w = members_.weight(m), other_weight = other_weight_[m];
        const bool is_tiny = any(other_weight < T(sizeof(T) == 4 ? 1e-30 : 1e-290));  // w/(1 − w) overflows
        V<T> value;
        const V<T> factor = is_tiny ? V<T>{} : -w / other_weight;
        if (R::has_tangent(rule) && from_mean(rule, row, factor, is_well_conditioned, value, slope) && !is_tiny)
            return value;
        leave_out(row, w, other_weight, is_tiny);
        if (rule.structure == Structure::TWO_CLASS) sum_others(m);
        const Row<T> left = Row<T>::of(left_, n_);
        return is_decision(rule) ? regret_under(rule, left)
                                 : R::divergence(rule, mean(), left, Row<T>::of(step_, n_));
    }

    // D(θ̄, θ̄ + factor·(θ_m − θ̄)); where members are far from the mean, it needs no more digits than
    // their quotient has.
    bool from_mean(const Number &rule, Row<T> row, V<T> factor, bool is_well_conditioned, V<T> &value, V<T> *slope) const {
        const V<T> *inverse = rule.tangent->inverse;
        auto ratio = [&](int r) __attribute__((always_inline)) { return fma(row[r], inverse[r], fill<T>(-1)); };
        auto exact = [&](int r) __attribute__((always_inline)) { return deviation(row, r) * inverse[r]; };
        return is_well_conditioned ? R::divergence_from_mean(rule, n_, factor, ratio, value, gradient_, slope)
                      : R::divergence_from_mean(rule, n_, factor, exact, value, gradient_, slope);
    }

    V<T> regret_under(const Number &rule, Row<T> p) {
        find_regrets(rule, p);
        return chosen_regret(rule, rule.sums);
    }

    // The mean without a member, θ̄₋ₘ = θ̄ − w·(θ_m − θ̄)/(1 − w).
    void leave_out(Row<T> row, V<T> w, V<T> other_weight, bool is_tiny) {
        const V<T> factor = w / other_weight;
        for (int r = 0; r < n_; r++) {
            const V<T> d = deviation(row, r);
            step_[r] = is_tiny ? -(d / other_weight) * w : -d * factor;
            left_[r] = at_least_zero(mean_[r] + step_[r]);
        }
    }

    // θ̄₋ₘ again, as a sum of the other members where most digits cancelled: rules whose slope grows as a
    // power of a small probability see that.
    void sum_others(ptrdiff_t m) {
        Bits<T> is_lost{};
        for (int r = 0; r < n_; r++) is_lost |= left_[r] < mean_[r] * T(MOST_CANCELLED);
        if (__builtin_expect(!any(is_lost), true)) return;
        for (int r = 0; r < n_; r++) scale_[r] = V<T>{};
        for (ptrdiff_t other = 0; other < job_.n_members; other++) {
            if (other == m) continue;
            const Row<T> row = members_.row(other);
            const V<T> share = members_.weight(other) / at_least_tiny<T>(other_weight_[m]);
            for (int r = 0; r < n_; r++) scale_[r] = fma(share, row[r], scale_[r]);
        }
        for (int r = 0; r < n_; r++) left_[r] = left_[r] < mean_[r] * T(MOST_CANCELLED) ? scale_[r] : left_[r];
        members_.row(m);  // which the caller still reads, and others may have taken its place
    }

    // ∇H at the mean, up to what is the same for all classes, as deviations sum to 0.
    void find_gradient(const Number &rule) {
        const T rate = T(rule.parameter);
        switch (rule.structure) {
            case Structure::LOG:
            case Structure::SEPARABLE:
                for (int r = 0; r < n_; r++) {
                    const V<T> log_q = log(mean_[r]), power = rate == 0 ? log_q : expm1<T>(log_q * rate) / rate;
                    const V<T> w = rule.numbers != nullptr ? R::coefficient(rule.numbers, r) : fill<T>(1);
                    gradient_[r] = -w * fma(power, fill<T>(rate + 1), fill<T>(1));
                }
                return;
            case Structure::BRIER:
                for (int r = 0; r < n_; r++) gradient_[r] = mean_[r] * T(-2);
                return;
            case Structure::SPHERICAL: {
                const V<T> squares =
                    R::sum_over_classes(n_, [&](int r, V<T> sum) { return fma(mean_[r], mean_[r], sum); });
                for (int r = 0; r < n_; r++) gradient_[r] = -mean_[r] / sqrt(squares);
                return;
            }
            case Structure::NORM: return;  // found with the divergence from the mean
            case Structure::ZERO_ONE:
                for (int r = 0; r < n_; r++) gradient_[r] = is_chosen_[r] ? fill<T>(-1) : V<T>{};
                return;
            case Structure::LARGEST:
                for (int r = 0; r < n_; r++) gradient_[r] = is_chosen_[r] ? fill<T>(-1) : V<T>{};
                return;
            case Structure::COSTS: return;  // found with the costs of each member
            case Structure::QUADRATIC:
                R::product_sum(rule.numbers, n_, mean(), [&](int j, V<T> product, V<T> sum) {
                    gradient_[j] = product + product;
                    return sum;
                });
                return;
            case Structure::TWO_CLASS: {
                const TwoClass<T> numbers(rule.doubles, rule.numbers);
                const Bits<T> is_second = numbers.is_second(mean_[0], mean_[1]);
                const SideNumbers<T> side = numbers.side(is_second);
                const V<T> c = at_least_tiny<T>(is_second ? mean_[1] : mean_[0]), slope = side.linear - numbers.slope(c, side);
                gradient_[0] = is_second ? V<T>{} : slope;
                gradient_[1] = is_second ? slope : V<T>{};
                return;
            }
            default: {  // Σ_{j ≥ k} (1 − 2F_j)
                Wide<T> *below = reinterpret_cast<Wide<T> *>(rule.row);
                Wide<T> sum{};
                for (int r = 0; r < n_ - 1; r++) below[r] = sum = sum + widen(mean_[r]);
                gradient_[n_ - 1] = V<T>{};
                sum = Wide<T>{};
                for (int r = n_ - 2; r >= 0; r--) {
                    sum = sum - (below[r] + below[r]) + 1.0;
                    gradient_[r] = narrow(sum);
                }
            }
        }
    }

    // Tukey's errors, √Σ(ψ − w·Σψ)²/(1 − w) of the influences ψ.
    void find_errors(int place, V<T> bias, V<T> *parts) const {
        Wide<T> total{}, aleatoric{}, epistemic{};
        auto add = [](Wide<T> &sum, V<T> scaled) { sum = sum + widen(scaled) * widen(scaled); };
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Influence &own = influence_[m];
            const V<T> w = members_.weight(m), root = sqrt(other_weight_[m]);  // before it is squared, as it may be tiny
            const V<T> correction = own.excess - w * bias;
            add(total, fma(w, own.slope, correction) / root);
            add(aleatoric, w * (entropy_of(place, m) - parts[1]) / root);
            add(epistemic, fma(w, own.divergence - parts[2], correction) / root);
        }
        parts[3] = root_of(total);
        parts[4] = root_of(aleatoric);
        parts[5] = root_of(epistemic);
    }

    static V<T> root_of(Wide<T> sum) {
        if constexpr (sizeof(T) == 4) return narrow(Wide<T>{sqrt(sum.low), sqrt(sum.high)});
        else return sqrt(sum);
    }

    // Whole vectors, as the last one that is kept may have more lanes than there are members.
    ptrdiff_t entropies_of_rule() const { return (job_.n_members * GROUP + LANES<T> - 1) / LANES<T> * LANES<T>; }
    T *entropy_at(int place, ptrdiff_t m) const { return entropies_ + place * entropies_of_rule() + m * GROUP; }
    V<T> entropy_of(int place, ptrdiff_t m) const {
        return SIDE ? load<T>(entropy_at(place, m)) : fill<T>(*entropy_at(place, m));
    }

    const Job &job_;
    Members<T, SIDE> &members_;
    const int n_;
    OfFirstFour<Number> first_ = {};
    const Center<T> *center_ = nullptr;
    const V<T> *mean_ = nullptr;
    V<T> *predictor_ = nullptr, *deviation_ = nullptr, *step_ = nullptr, *left_ = nullptr;
    V<T> *gradient_ = nullptr, *scale_ = nullptr, *regrets_ = nullptr, *other_weight_ = nullptr;
    Bits<T> *is_chosen_ = nullptr;
    Influence *influence_ = nullptr;
    V<T> *divergences_ = nullptr;
    T *entropies_ = nullptr;
};

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
