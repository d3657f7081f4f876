// One pass over members: total, aleatoric and epistemic uncertainty under many rules.
//
// A group of instances is read at a time: as many as a vector has lanes (side by side), or one. A
// first pass over its members finds their entropies and their mean. EU is then a difference where that is
// well conditioned; elsewhere a second pass over the same members, which are still in the cache, sums their
// divergences from the mean.
#pragma once

#include "extras.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// Members that are summed in their own precision before the sums move on to float64.
constexpr int MEMBERS_PER_AVERAGE = 16;  // sums of their values
constexpr int MEMBERS_PER_SHIFT = 32;    // sums of their deviations from the anchor, of each class

template <class T, bool SIDE> class Decomposer {
    using R = Rules<T, SIDE>;
    static constexpr int GROUP = Members<T, SIDE>::GROUP;

    // A rule that is not one of the first four, and its averages over members.
    struct Other {
        RuleNumbers<T> rule;
        int place;  // in the list of rules
        Wide<T> aleatoric, convex;
        V<T> total, epistemic;
        Bits<T> is_well_conditioned;  // whether EU is a difference that keeps enough digits
    };

  public:
    Decomposer(const Job &job, Arena &arena)
        : job_(job), members_(job, arena, true), extras_(job, members_, arena), n_(members_.n) {
        center_ = arena.take<Center<T>>(n_);
        far_shift_ = arena.take<Wide<T>>(n_);
        mean_ = arena.take<V<T>>(n_);
        regret_ = arena.take<V<T>>(n_);
        tops_ = arena.take<V<T>>(job.n_members + 1);
        others_ = arena.take<Other>(job.n_rules);
        for (int i = 0; i < job.n_rules; i++) {
            const Rule &rule = job.rules[i];
            if (rule.structure > Structure::SPHERICAL) {
                RuleNumbers<T> &own = others_[n_others_].rule = R::read(rule, n_, arena);
                if (R::has_tangent(own)) own.tangent = new_tangent<T>(n_, arena);
                others_[n_others_++].place = i;
            } else {
                is_wanted_[rule.structure] = true;
            }
        }
        has_extras_ = job.extras != 0 || job.predictor != nullptr;
        with_log_ = is_wanted_[Structure::LOG];
        with_squares_ = is_wanted_[Structure::BRIER] || is_wanted_[Structure::SPHERICAL];
    }

    Status run() {
        if (!with_log_) return run_with<false, false>();
        return job_.kind == LOGITS ? run_with<true, true>() : run_with<true, false>();
    }

  private:
    template <bool WITH_LOG, bool FROM_LOGITS> Status run_with() {
        return with_squares_ ? run_with<WITH_LOG, FROM_LOGITS, true>() : run_with<WITH_LOG, FROM_LOGITS, false>();
    }
    template <bool WITH_LOG, bool FROM_LOGITS, bool SQUARED> Status run_with() {
        // Extras ask whether EU is far from the rounding errors of entropies, which TWO does not find out.
        if (n_ == 2 && n_others_ == 0 && !has_extras_) return run_with<WITH_LOG, FROM_LOGITS, SQUARED, SIDE && SQUARED>();
        return run_with<WITH_LOG, FROM_LOGITS, SQUARED, false>();
    }

    // What the loops must do is known when they are compiled; so is the number of classes if it is TWO.
    template <bool WITH_LOG, bool FROM_LOGITS, bool SQUARED, bool TWO> Status run_with() {
        for (ptrdiff_t first = job_.start; first < job_.stop; first += GROUP) {
            const int count = int(job_.stop - first < GROUP ? job_.stop - first : GROUP);
            members_.locate(first, count);
            if (!first_pass<WITH_LOG, FROM_LOGITS, SQUARED, TWO>()) return INVALID;
            find_totals<WITH_LOG, SQUARED, TWO>();
            if (needs_second_pass()) second_pass<TWO>();
            write(first, count);
        }
        return DONE;
    }

    // -- the first pass: averages over members, and their mean --------------------------------------

    static Sums<T> combined(const Sums<T> &s) {
        return {across_sum<T, SIDE>(s.total), across_sum<T, SIDE>(s.squares), across_sum<T, SIDE>(s.doubt),
                across_sum<T, SIDE>(s.negative), across_max<T, SIDE>(s.top)};
    }

    // Sums over the values of members, of the last few and in float64.
    template <bool WITH_LOG, bool SQUARED> struct Averages {
        V<T> recent[N_VALUES];
        Wide<T> all[N_VALUES];
        int n_recent = 0;

        INLINE Averages() {
            for (int i = 0; i < N_VALUES; i++)
                if (is_computed<WITH_LOG, SQUARED>(i)) recent[i] = V<T>{}, all[i] = Wide<T>{};
        }

        INLINE void add(const Values<T> &v, V<T> w) {
            for (int i = 0; i < N_VALUES; i++)
                if (is_computed<WITH_LOG, SQUARED>(i)) recent[i] = fma(w, v.at[i], recent[i]);
            if (++n_recent == MEMBERS_PER_AVERAGE) move();
        }
        INLINE void move() {
            for (int i = 0; i < N_VALUES; i++) {
                if (!is_computed<WITH_LOG, SQUARED>(i)) continue;
                all[i] = all[i] + widen(recent[i]);
                recent[i] = V<T>{};
            }
            n_recent = 0;
        }
    };

    // The sums of members of one instance. They become vectors with a member in each lane, so that
    // what follows from them is found for many members at once.
    struct Batch {
        V<T> total[LANES<T>], squares[LANES<T>], doubt[LANES<T>], negative[LANES<T>], top[LANES<T>];
        int count = 0;

        INLINE void put(const Sums<T> &s) {
            total[count] = s.total;
            squares[count] = s.squares;
            doubt[count] = s.doubt;
            negative[count] = s.negative;
            top[count++] = s.top;
        }
        template <bool WITH_LOG, bool SQUARED> INLINE Sums<T> combine() {
            for (int i = count; i < LANES<T>; i++) {  // repeat the first, which will have no weight
                total[i] = total[0];
                top[i] = top[0];
                if (SQUARED) squares[i] = squares[0], doubt[i] = doubt[0];
                if (WITH_LOG) negative[i] = negative[0];
            }
            count = 0;
            return {combine_each<T>(total, Add{}), SQUARED ? combine_each<T>(squares, Add{}) : V<T>{},
                    SQUARED ? combine_each<T>(doubt, Add{}) : V<T>{}, WITH_LOG ? combine_each<T>(negative, Add{}) : V<T>{},
                    combine_each<T>(top, Larger{})};
        }
    };

    // The direction of a member a of two classes. From it, ‖p − a‖² and ‖p‖ − ⟨p, a⟩/‖a‖ take the
    // place of ‖p‖² and ‖p‖: they differ by terms that are linear in p, so that EU is the same
    // difference, but keeps its digits unless a is far from all others.
    struct Direction {
        V<T> first{}, second{};

        Direction() = default;
        explicit INLINE Direction(const V<T> *a) {
            const V<T> norm = sqrt(fma(a[0], a[0], a[1] * a[1]));
            first = a[0] / norm;
            second = a[1] / norm;
        }
        // Of p = a + d.
        INLINE void measure(Values<T> &v, V<T> d0, V<T> d1, V<T> p0, V<T> p1) const {
            const V<T> across = d0 * second - d1 * first;
            v.at[SQUARES] = fma(d0, d0, d1 * d1);
            v.at[NORM] = across * across / (v.at[NORM] + fma(p0, first, p1 * second));
        }
    };

    // Whether all members are predictions.
    template <bool WITH_LOG, bool FROM_LOGITS, bool SQUARED, bool TWO> bool first_pass() {
        const int n = TWO ? 2 : n_;
        members_.copy_heaviest(mean_);
        // Of two classes, what is summed over members stays in registers; regrets are then cheap.
        Center<T> own_center[2], *center = TWO ? own_center : center_;
        V<T> regret[2] = {};
        for (int r = 0; r < n; r++) center[r] = {mean_[r], V<T>{}};
        const Direction direction = TWO && SQUARED ? Direction(mean_) : Direction();
        if (job_.n_members >= MEMBERS_PER_SHIFT) memset(far_shift_, 0, n_ * sizeof *far_shift_);
        for (int j = 0; j < n_others_; j++) {
            others_[j].aleatoric = others_[j].convex = Wide<T>{};
            if (others_[j].rule.tangent != nullptr) others_[j].rule.tangent->is_current = false;
        }
        largest_error_ = V<T>{};
        Averages<WITH_LOG, SQUARED> averages;
        Batch batch;
        Bits<T> signs{}, good = ~Bits<T>{};
        auto absorb = [&](ptrdiff_t m, const Sums<T> &s, V<T> w, const Row<T> &row) __attribute__((always_inline)) {
            const V<T> error = absolute(s.total - T(1));
            good &= error <= T(job_.tolerance);
            largest_error_ = larger(error, largest_error_);
            Values<T> values = values_of<T, WITH_LOG, SQUARED>(s);
            if constexpr (TWO && SQUARED) direction.measure(values, row[0] - center[0].anchor, row[1] - center[1].anchor, row[0], row[1]);
            averages.add(values, w);
            if (__builtin_expect(extras_.keeps_entropies(), false)) {
                Values<T> copy{};  // in memory, where the values themselves need not be
                for (int i = 0; i < N_VALUES; i++)
                    if (is_computed<WITH_LOG, SQUARED>(i)) copy.at[i] = values.at[i];
                keep_entropies(m, copy);
            }
        };
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            Sums<T> s = sums_over_classes<T, WITH_LOG && !FROM_LOGITS, SQUARED, true, TWO>(row, center, w, signs);
            if constexpr (WITH_LOG && FROM_LOGITS) {
                const V<T> negative = members_.negative(m) * T(1 / LOG_UNIT<T>);
                s.negative = SIDE ? negative : (lane_numbers<T>() == 0 ? negative : V<T>{});
            }
            if (n_others_ > 0) add_entropies(m, row, combined(s), w);
            if constexpr (SIDE) {
                tops_[m] = s.top;
                for (int r = 0; TWO && r < 2; r++) regret[r] = fma(w, s.top - row[r], regret[r]);
                absorb(m, s, w, row);
            } else {
                batch.put(s);
                if (batch.count == LANES<T> || m + 1 == job_.n_members) {
                    const ptrdiff_t first = m + 1 - batch.count;
                    s = batch.template combine<WITH_LOG, SQUARED>();
                    store(reinterpret_cast<T *>(tops_) + first, s.top);
                    absorb(first, s, members_.weights_from(first), row);
                }
            }
            if (m % MEMBERS_PER_SHIFT == MEMBERS_PER_SHIFT - 1) move_shift<TWO>(center);
        }
        averages.move();
        for (int i = 0; i < N_VALUES; i++)
            if (is_computed<WITH_LOG, SQUARED>(i)) average_.at[i] = across_sum<T, SIDE>(narrow(averages.all[i]));
        for (int r = 0; r < n; r++) {
            V<T> shift = center[r].shift;
            if (job_.n_members >= MEMBERS_PER_SHIFT) shift = narrow(far_shift_[r] + widen(shift));
            center_[r] = {center[r].anchor, shift};
            mean_[r] = at_least_zero(center[r].anchor + shift);
            if (TWO) regret_[r] = regret[r];
        }
        return job_.tolerance < 0 || are_predictions(good, signs);
    }

    // Keep the entropies of a member, or of one in each lane, under the first four rules.
    void keep_entropies(ptrdiff_t m, const Values<T> &v) {
        for (int i = 0; i < job_.n_rules; i++) {
            const Structure rule = job_.rules[i].structure;
            if (rule <= Structure::SPHERICAL) extras_.keep_entropy(i, m, entropy_of(rule, v));
        }
    }
    static V<T> entropy_of(Structure rule, const Values<T> &v) {
        if (rule == Structure::LOG) return v.at[SURPRISE];
        if (rule == Structure::BRIER) return v.at[GINI];
        return rule == Structure::SPHERICAL ? v.at[GAP] : v.at[MISS];
    }

    bool are_predictions(Bits<T> good, Bits<T> signs) {
        if (job_.kind != PROBABILITIES) return !any(members_.bad);
        if (!all(good)) return false;
        if (!any(signs < 0)) return true;
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {  // what has the sign of one below 0 may be −0.0
            Row<T> row = members_.row(m);
            for (int r = 0; r < n_; r++)
                if (any(row[r] < 0)) return false;
        }
        return true;
    }

    void add_entropies(ptrdiff_t m, Row<T> row, const Sums<T> &s, V<T> w) {
        for (int j = 0; j < n_others_; j++) {
            Entropy<T> h = R::entropy(others_[j].rule, row, s);
            if (extras_.keeps_entropies()) extras_.keep_same_entropy(others_[j].place, m, h.value);
            others_[j].aleatoric = others_[j].aleatoric + widen(w * h.value);
            others_[j].convex = others_[j].convex + widen(w * h.convex);
        }
    }

    template <bool TWO> INLINE void move_shift(Center<T> *center) {
        const int n = TWO ? 2 : n_;
        for (int r = 0; r < n; r++) {
            far_shift_[r] = far_shift_[r] + widen(center[r].shift);
            center[r].shift = V<T>{};
        }
    }

    // -- totals, and EU as a difference --------------------------------------------------------------

    template <bool WITH_LOG, bool SQUARED, bool TWO> void find_totals() {
        const Row<T> mean = Row<T>::of(mean_, n_);
        Bits<T> signs;
        const Sums<T> s = combined(sums_over_classes<T, WITH_LOG, SQUARED, false, TWO>(mean, center_, V<T>{}, signs));
        mean_squares_ = s.squares;
        mean_total_ = s.total;
        total_ = values_of<T, WITH_LOG, SQUARED>(s);
        if constexpr (TWO && SQUARED) {
            const V<T> anchor[] = {center_[0].anchor, center_[1].anchor};
            Direction(anchor).measure(total_, center_[0].shift, center_[1].shift, mean_[0], mean_[1]);
        }
        if constexpr (WITH_LOG) find_difference(Structure::LOG, NEGATIVE, total_.at[SURPRISE] + T(1));
        if constexpr (SQUARED) {
            find_difference(Structure::BRIER, SQUARES, average_.at[SQUARES]);
            find_difference(Structure::SPHERICAL, NORM, average_.at[NORM]);
        }
        if constexpr (TWO) {
            is_well_conditioned_[Structure::ZERO_ONE] = ~Bits<T>{};
            find_least_regret<TWO>();
        } else {
            find_difference(Structure::ZERO_ONE, TOP, average_.at[TOP]);
        }
        for (int j = 0; j < n_others_; j++) {
            Other &other = others_[j];
            Entropy<T> h = R::entropy(other.rule, mean, s);
            other.total = h.value;
            other.epistemic = narrow(other.convex) - h.convex;
            other.is_well_conditioned = other.epistemic > h.size * T(FAR);
            // Where rows do not quite sum to 1, entropy and divergence of quadratic forms disagree.
            if (other.rule.structure == Structure::QUADRATIC) other.is_well_conditioned &= largest_error_ < OFF<T>;
        }
    }

    void find_difference(Structure rule, Value convex, V<T> size) {
        epistemic_[rule] = average_.at[convex] - total_.at[convex];
        is_well_conditioned_[rule] = is_wanted_[rule] ? Bits<T>(epistemic_[rule] >= size * T(FAR)) : ~Bits<T>{};
    }

    bool needs_second_pass() const {
        Bits<T> are_all = ~Bits<T>{};
        for (const Structure rule : FIRST_FOUR) are_all &= is_well_conditioned_[rule];
        for (int j = 0; j < n_others_; j++) are_all &= others_[j].is_well_conditioned;
        return !all(are_all);
    }

    // -- the second pass: divergences from the mean ---------------------------------------------------

    template <bool TWO> void second_pass() {
        const bool needs_log_divergence = !all(is_well_conditioned_[Structure::LOG]);
        const bool needs_regrets = !all(is_well_conditioned_[Structure::ZERO_ONE]);
        const bool needs_distances = !all(is_well_conditioned_[Structure::BRIER] & is_well_conditioned_[Structure::SPHERICAL]);
        if (needs_log_divergence && needs_distances && needs_regrets) sum_divergences<true, true, true, TWO>();
        else if (needs_log_divergence && needs_distances) sum_divergences<true, true, false, TWO>();
        else if (needs_log_divergence) needs_regrets ? sum_divergences<true, false, true, TWO>() : sum_divergences<true, false, false, TWO>();
        else if (needs_distances) needs_regrets ? sum_divergences<false, true, true, TWO>() : sum_divergences<false, true, false, TWO>();
        else if (needs_regrets) sum_divergences<false, false, true, TWO>();
        for (int j = 0; j < n_others_; j++) find_divergence(others_[j]);
    }

    template <bool WITH_LOG_DIVERGENCE, bool WITH_DISTANCES, bool WITH_REGRETS, bool TWO> void sum_divergences() {
        const int n = TWO ? 2 : n_;
        Wide<T> log{}, brier{}, spherical{};
        V<T> distances[LANES<T>], alongs[LANES<T>];  // of a batch of members
        int in_batch = 0;
        if (WITH_REGRETS)
            for (int r = 0; r < n; r++) regret_[r] = V<T>{};
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            const V<T> top = !WITH_REGRETS ? V<T>{} : SIDE ? tops_[m] : fill<T>(reinterpret_cast<T *>(tops_)[m]);
            Wide<T> entropy{}, distance{}, along{};
            for (int start = 0; start < n; start += BLOCK) {
                V<T> part_entropy{}, part_distance{}, part_along{};
                const int stop = start + BLOCK < n ? start + BLOCK : n;
                for (int r = start; r < stop; r++) {
                    const V<T> p = row[r], q = mean_[r], d = p - q;
                    if (WITH_LOG_DIVERGENCE) part_entropy += relative_entropy<T>(q, p, d);
                    if (WITH_DISTANCES) {
                        part_distance = fma(d, d, part_distance);
                        part_along = fma(d, q, part_along);
                    }
                    if (WITH_REGRETS) regret_[r] = fma(w, top - p, regret_[r]);  // max p − p of each class
                }
                if (WITH_LOG_DIVERGENCE) entropy = entropy + widen(part_entropy);
                if (WITH_DISTANCES) {
                    distance = distance + widen(part_distance);
                    along = along + widen(part_along);
                }
            }
            if (WITH_LOG_DIVERGENCE) log = log + widen(w * narrow(entropy));
            if (WITH_DISTANCES) {
                brier = brier + widen(w * narrow(distance));
                distances[in_batch] = narrow(distance);
                alongs[in_batch++] = narrow(along);
                if (in_batch == (SIDE ? 1 : LANES<T>) || m + 1 == job_.n_members) {
                    if (is_wanted_[Structure::SPHERICAL]) spherical = spherical + spherical_of(m + 1 - in_batch, in_batch, distances, alongs);
                    in_batch = 0;
                }
            }
        }
        take(Structure::LOG, across_sum<T, SIDE>(narrow(log)));
        take(Structure::BRIER, across_sum<T, SIDE>(narrow(brier)));
        take(Structure::SPHERICAL, across_sum<T, SIDE>(narrow(spherical)));
        if (WITH_REGRETS) {
            const V<T> before = epistemic_[Structure::ZERO_ONE];
            find_least_regret<TWO>();
            epistemic_[Structure::ZERO_ONE] = is_well_conditioned_[Structure::ZERO_ONE] ? before : epistemic_[Structure::ZERO_ONE];
        }
    }

    template <bool TWO> void find_least_regret() {
        V<T> least = regret_[0];
        for (int r = 1; r < (TWO ? 2 : n_); r++) least = smaller(regret_[r], least);
        epistemic_[Structure::ZERO_ONE] = across_min<T, SIDE>(least);
    }

    void take(Structure rule, V<T> divergence) {
        epistemic_[rule] = is_well_conditioned_[rule] ? epistemic_[rule] : divergence;
    }

    // The divergences under spherical of one member of each instance, or of members of one instance,
    // with their weights. Only the part of d = p − q that is not parallel to the mean q counts,
    // ‖d‖² − ⟨d, q⟩²/‖q‖²; where most of d is parallel it is summed class by class.
    Wide<T> spherical_of(ptrdiff_t first, int count, V<T> *distances, V<T> *alongs) {
        V<T> distance = distances[0], along = alongs[0], w;
        if constexpr (SIDE) {
            w = members_.weight(first);
        } else {
            for (int i = count; i < LANES<T>; i++) distances[i] = alongs[i] = V<T>{};
            distance = combine_each<T>(distances, Add{});
            along = combine_each<T>(alongs, Add{});
            w = members_.weights_from(first);
        }
        const V<T> parallel = along / mean_squares_;
        V<T> rest = distance - along * parallel;
        if (__builtin_expect(any(rest < distance * T(0.1)), false)) {
            for (int i = 0; i < count; i++) {
                const V<T> exact = rest_of(members_.row(first + i), SIDE ? parallel : fill<T>(parallel[i]));
                rest = (SIDE ? ~Bits<T>{} : lane_numbers<T>() == i) ? exact : rest;
            }
        }
        const V<T> member_norm = sqrt(at_least_zero(mean_squares_ + (along + along) + distance));
        return widen(w * (rest / (member_norm + sqrt(mean_squares_) * (parallel + T(1)))));
    }

    V<T> rest_of(Row<T> row, V<T> parallel) const {
        Wide<T> sum{};
        for (int start = 0; start < n_; start += BLOCK) {
            V<T> part{};
            for (int r = start; r < n_ && r < start + BLOCK; r++) {
                V<T> d = (row[r] - mean_[r]) - mean_[r] * parallel;
                part = fma(d, d, part);
            }
            sum = sum + widen(part);
        }
        return across_sum<T, SIDE>(narrow(sum));
    }

    // EU of a rule as a mean divergence, or a least mean regret.
    void find_divergence(Other &other) {
        if (all(other.is_well_conditioned)) return;
        const bool has_regrets = R::has_regrets(other.rule);
        if (R::has_tangent(other.rule)) R::find_tangent(other.rule, Row<T>::of(mean_, n_));
        Wide<T> sum{};
        for (int i = 0; has_regrets && i < R::n_regrets(other.rule, n_); i++) other.rule.sums[i] = V<T>{};
        for (ptrdiff_t m = 0; m < job_.n_members; m++) {
            const Row<T> row = members_.row(m);
            const V<T> w = members_.weight(m);
            if (has_regrets) {
                R::add_regrets(other.rule, row, w);
                continue;
            }
            const V<T> value = divergence_of(other, row);
            extras_.keep_divergence(other.place, m, value);
            sum = sum + widen(w * value);
        }
        const V<T> divergence = has_regrets ? R::least_regret(other.rule, n_) : narrow(sum);
        other.epistemic = other.is_well_conditioned ? other.epistemic : divergence;
    }

    V<T> divergence_of(const Other &other, Row<T> row) const {
        auto relative = [&](int r) __attribute__((always_inline)) {
            return ((row[r] - center_[r].anchor) - center_[r].shift) * other.rule.tangent->inverse[r];
        };
        V<T> value;
        if (R::has_tangent(other.rule) && R::divergence_from_mean(other.rule, n_, fill<T>(1), relative, value))
            return value;
        const Row<T> mean = Row<T>::of(mean_, n_), d = deviation(other, row);
        if (other.rule.structure == Structure::TWO_CLASS) return R::two_class_divergence(other.rule, mean, row, d, false, other.is_well_conditioned);
        return R::divergence(other.rule, mean, row, d);
    }

    // p − mean, with digits that the mean has lost to rounding: cumulative sums would add such errors.
    Row<T> deviation(const Other &other, Row<T> row) const {
        for (int r = 0; r < n_; r++) other.rule.row[r] = (row[r] - center_[r].anchor) - center_[r].shift;
        return Row<T>::of(other.rule.row, n_);
    }

    // -- results ----------------------------------------------------------------------------------------

    void write(ptrdiff_t first, int count) {
        const V<T> nan_if_unchecked = mean_total_ - mean_total_;  // 0, or NaN where a member that was not checked is NaN
        if (has_extras_) extras_.locate(first, count, center_, mean_);
        for (int i = 0; i < job_.n_rules; i++) {
            const Structure rule = job_.rules[i].structure;
            if (rule > Structure::SPHERICAL) continue;
            V<T> parts[] = {entropy_of(rule, total_), entropy_of(rule, average_), epistemic_[rule] + nan_if_unchecked};
            write_rule(nullptr, i, first, count, parts, is_well_conditioned_[rule]);
        }
        for (int j = 0; j < n_others_; j++) {
            const Other &other = others_[j];
            V<T> parts[] = {other.total, narrow(other.aleatoric), other.epistemic + nan_if_unchecked};
            write_rule(&other.rule, other.place, first, count, parts, other.is_well_conditioned);
        }
    }

    void write_rule(const RuleNumbers<T> *rule, int place, ptrdiff_t first, int count, const V<T> *components,
                    Bits<T> is_well_conditioned) {
        V<T> parts[Extras<T, SIDE>::MOST_PARTS];
        for (int i = 0; i < 3; i++) parts[i] = components[i];
        parts[2] = at_least_zero(parts[2]);
        const int n_parts = has_extras_ ? extras_.add_components(rule, place, is_well_conditioned, parts) : 3;
        for (int i = 0; i < n_parts; i++) {
            char *to = job_.results + (n_parts * place + i) * job_.part_stride + first * job_.result_stride;
            if (job_.result_stride == ptrdiff_t(sizeof(T)) && count == LANES<T>) {
                store(to, parts[i]);
                continue;
            }
            for (int lane = 0; lane < count; lane++) {
                const T number = parts[i][lane];
                memcpy(to + lane * job_.result_stride, &number, sizeof number);
            }
        }
    }

    const Job &job_;
    Members<T, SIDE> members_;
    Extras<T, SIDE> extras_;
    const int n_;  // vectors of a member
    OfFirstFour<bool> is_wanted_ = {};
    int n_others_ = 0;
    bool with_log_, with_squares_, has_extras_;
    Center<T> *center_;
    V<T> *mean_, *regret_;
    V<T> *tops_;  // max p of each member: a vector for each, or one lane after the other
    Wide<T> *far_shift_;
    Other *others_;
    Values<T> total_, average_;
    V<T> mean_squares_, mean_total_, largest_error_;
    OfFirstFour<V<T>> epistemic_;
    OfFirstFour<Bits<T>> is_well_conditioned_ = {{~Bits<T>{}, ~Bits<T>{}, ~Bits<T>{}, ~Bits<T>{}}};  // also if it is not wanted
};

template <class T> Status decompose(const Job &job) {
    try {
        Arena arena;
        if (is_side_by_side<T>(job)) {
            Decomposer<T, true> decomposer(job, arena);
            return decomposer.run();
        }
        Decomposer<T, false> decomposer(job, arena);
        return decomposer.run();
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
