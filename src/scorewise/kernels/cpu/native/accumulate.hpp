// A member that arrives after others: what an accumulator knows after it, from what it knew before.
//
// With the share s of the new member θ in the weight of all, and the mean μ₁ of those before it,
//
//   μ = μ₁ + s·(θ − μ₁)      EU = (1 − s)·(EU₁ + D(μ, μ₁)) + s·D(μ, θ).
//
// No term is negative, and all are 0 for equal members. The mean is kept as an anchor, one of the
// members, and a deviation from it: θ − μ₁ then has all its digits where members nearly agree.
//
// For logarithms and powers the two divergences cost more than all the rest, and for zero-one the
// regrets of all classes would be read and written. There EU is the difference of a mean convex
// function and that of the mean wherever this keeps enough digits, as in decompose.hpp. It is found
// when it is asked for (`settle`), and until then only a lower bound is kept: by the identity above,
// EU is never below (1 − s)·EU₁. Where this bound is too small for a difference, EU is brought up to
// date, and followed by the identity from there on. So:
//
//   epistemic ≤ threshold: it is EU;     epistemic > threshold: it is a lower bound of EU.
//
// Under zero-one, EU itself is kept: it is H(μ) − E H(θ) where members are far apart. Regrets are then
// not kept, unless an instance of the same vector needs them.
//
// The state changes in place. The member was checked before (checks.hpp), as no row may turn out to be
// no prediction when those before it were added.
#pragma once

#include "rules.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

constexpr ptrdiff_t AHEAD_IN_STATE = 1024;  // numbers of the state that are fetched before they are read

template <class T, bool SIDE> class Accumulation {
    using R = Rules<T, SIDE>;

    // A rule that is not one of the first four.
    struct Other {
        RuleNumbers<T> rule;
        int place;               // in the list of rules
        int convex;              // among the mean convex parts; −1 if EU is never a difference
        T threshold;             // of EU, see above
        ptrdiff_t first_regret;  // in a row of regrets
        Entropy<T> entropy;      // of the new member, of a group of instances
        V<T> epistemic;
        Bits<T> is_seen;
    };

    // Some instances that are computed together: a group side by side, or one across.
    struct Unit {
        int lane;  // of the instance in its group; 0 side by side
        Row<T> row;
        ptrdiff_t at;      // its first class in the state
        ptrdiff_t regret;  // its first regret
        V<T> share, rest;
        Bits<T> is_heavier;
    };

  public:
    // Of a member (n_members = 1) or, without one, of the state itself.
    Accumulation(const Job &job, const State &state, Arena &arena)
        : job_(job), state_(state), members_(job, arena), n_(members_.n),
          step_(SIDE ? LANE_BLOCK : LANES<T>), row_length_(row_length(job.n_classes, SIDE)) {
        old_mean_ = arena.take<V<T>>(n_);
        mean_ = arena.take<V<T>>(n_);
        change_ = arena.take<V<T>>(n_);
        scaled_ = arena.take<V<T>>(n_);
        others_ = arena.take<Other>(job.n_rules);
        ptrdiff_t first_regret = 0;
        n_convex_ = 0;
        for (int i = 0; i < job.n_rules; i++) {
            const Rule &rule = job.rules[i];
            if (rule.structure > SPHERICAL) {
                Other &other = others_[n_others_++];
                other.rule = R::read(rule, n_, arena);
                other.place = i;
                other.convex = has_convex(rule) ? n_convex_ : -1;
                other.threshold = T(threshold_of(rule));
                other.first_regret = first_regret;
            } else {
                place_[rule.structure] = i;
                if (rule.structure == ZERO_ONE) first_regret_ = first_regret;
                if (rule.structure == LOG) log_place_ = n_convex_;
            }
            n_convex_ += has_convex(rule);
            first_regret += regrets_of(rule, row_length_);
        }
        log_threshold_ = T(FAR * (1 + __builtin_log(double(job.n_classes))));
    }

    Status add_member() {
        if (job_.kind == LOGITS) return wants(LOG) ? add_with<true, true>() : add_with<false, true>();
        return wants(LOG) ? add_with<true, false>() : add_with<false, false>();
    }

    // Write the totals H(μ), and bring EU up to date.
    Status settle() {
        for (ptrdiff_t first = job_.start; first < job_.stop; first += LANES<T>) settle_group(first);
        return DONE;
    }

  private:
    bool wants(Structure rule) const { return place_[rule] >= 0; }

    // Above which EU a difference keeps enough digits, whatever the mean; infinite if none is taken.
    double threshold_of(const Rule &rule) const {
        if (rule.structure == NORM) return FAR;
        if (rule.structure != SEPARABLE) return __builtin_inf();
        const double heaviest = rule.size > 0 ? rule.numbers[rule.size - 1] : 1, n = double(job_.n_classes);
        const double largest = rule.parameter > 0 ? 1 / rule.parameter : __builtin_inf(), log_n = __builtin_log(n);
        const double entropy = largest < log_n ? largest : log_n;
        return FAR * heaviest * (entropy > 0.25 ? entropy : 0.25);
    }

    static bool is_quadratic(const Other &other) {
        return other.rule.structure == QUADRATIC || other.rule.structure == CUMULATIVE;
    }

    T *classes(char *numbers) const { return reinterpret_cast<T *>(numbers); }
    // Statistics of a block of instances lie together, one rule after the other.
    T *statistics(char *numbers, int place, ptrdiff_t first) const {
        return reinterpret_cast<T *>(numbers) + place_of_statistic(2 * job_.n_rules, place, first);
    }
    double *convex(const Memory &memory, int place, ptrdiff_t first) const {
        return memory.convex + place_of_statistic(n_convex_, place, first);
    }
    static ptrdiff_t place_of_statistic(int n, int place, ptrdiff_t first) {
        return (first / LANE_BLOCK * n + place) * LANE_BLOCK + first % LANE_BLOCK;
    }

    // Where the first number of a row of `length` numbers is, for an instance or those from it on.
    ptrdiff_t place_of(ptrdiff_t instance, ptrdiff_t length) const {
        if (!SIDE) return instance * length;
        return instance / LANE_BLOCK * LANE_BLOCK * length + instance % LANE_BLOCK;
    }

    static INLINE Wide<T> load_wide(const double *place) {
        Wide<T> v;
        memcpy(&v, place, sizeof v);
        return v;
    }

    // A value of a unit becomes one of its group.
    static INLINE void put(V<T> &to, const Unit &unit, V<T> value) {
        to = SIDE ? value : (lane_numbers<T>() == unit.lane ? value : to);
    }
    static INLINE V<T> of_unit(V<T> v, const Unit &unit) { return SIDE ? v : fill<T>(v[unit.lane]); }
    static INLINE Bits<T> of_unit(Bits<T> v, const Unit &unit) { return SIDE ? v : Bits<T>{} + v[unit.lane]; }

    // -- a new member ---------------------------------------------------------------------------------

    template <bool LOG, bool FROM_LOGITS> Status add_with() {
        if (wants(SPHERICAL) || wants(BRIER)) return wants(ZERO_ONE) ? add_all<LOG, FROM_LOGITS, true, true>()
                                                                     : add_all<LOG, FROM_LOGITS, true, false>();
        return wants(ZERO_ONE) ? add_all<LOG, FROM_LOGITS, false, true>() : add_all<LOG, FROM_LOGITS, false, false>();
    }

    template <bool LOG, bool FROM_LOGITS, bool SQUARED, bool ZERO_ONE> Status add_all() {
        const ptrdiff_t begin = state_.offset + job_.start, end = state_.offset + job_.stop;
        for (ptrdiff_t first = begin / LANES<T> * LANES<T>; first < end; first += LANES<T>) {
            const int from = int(begin > first ? begin - first : 0);
            const int to = int(end - first < LANES<T> ? end - first : LANES<T>);
            read_shares(first, from, to);
            find_what_is_seen(first);
            fetch_rows<T>(job_, first + from - state_.offset);
            Sums<T> sums{};
            if constexpr (SIDE) {
                members_.locate(first + from - state_.offset, to - from, from);
                const Unit unit = {0, members_.row(0), place_of(first, row_length_), place_of(first, state_.n_regrets),
                                   share_, rest_, is_heavier_};
                sums = add_unit<LOG, FROM_LOGITS, SQUARED, ZERO_ONE>(unit);
            } else {
                Sums<T> each[LANES<T>];
                for (int lane = from; lane < to; lane++) {
                    members_.locate(first + lane - state_.offset, 1);
                    const Unit unit = {lane, members_.row(0), place_of(first + lane, row_length_),
                                       place_of(first + lane, state_.n_regrets), fill<T>(share_[lane]),
                                       fill<T>(rest_[lane]), Bits<T>{} + is_heavier_[lane]};
                    each[lane] = add_unit<LOG, FROM_LOGITS, SQUARED, ZERO_ONE>(unit);
                }
                sums = combined<LOG, SQUARED>(each, from, to);
            }
            write<LOG, SQUARED>(first, sums);
        }
        return DONE;
    }

    // The sums of instances from one lane to another; other lanes get those of the first.
    template <bool LOG, bool SQUARED> static Sums<T> combined(const Sums<T> *each, int from, int to) {
        V<T> total[LANES<T>], squares[LANES<T>], doubt[LANES<T>], negative[LANES<T>], top[LANES<T>];
        for (int lane = 0; lane < LANES<T>; lane++) {
            const Sums<T> &s = each[lane >= from && lane < to ? lane : from];
            total[lane] = s.total;
            top[lane] = s.top;
            if (SQUARED) squares[lane] = s.squares, doubt[lane] = s.doubt;
            if (LOG) negative[lane] = s.negative;
        }
        return {combine_each<T>(total, Add{}), SQUARED ? combine_each<T>(squares, Add{}) : V<T>{},
                SQUARED ? combine_each<T>(doubt, Add{}) : V<T>{}, LOG ? combine_each<T>(negative, Add{}) : V<T>{},
                combine_each<T>(top, Larger{})};
    }

    // In lanes that are no instances of the member it has no share, so that nothing changes there.
    void read_shares(ptrdiff_t first, int from, int to) {
        const Bits<T> lanes = lane_numbers<T>();
        is_there_ = (lanes >= from) & (lanes < to);
        if (state_.share_stride == 0 && to - from == LANES<T> && has_shares_) return;
        V<T> parts[3] = {};
        for (int i = 0; i < 3; i++) {
            const char *place = state_.shares + i * state_.share_part_stride;
            for (int lane = 0; lane < LANES<T>; lane++) {
                const int here = lane < from ? from : lane < to ? lane : to - 1;
                T number;
                memcpy(&number, place + (first + here - state_.offset) * state_.share_stride, sizeof number);
                parts[i][lane] = number;
            }
        }
        has_shares_ = to - from == LANES<T>;
        share_ = is_there_ ? parts[0] : V<T>{};
        rest_ = is_there_ ? parts[1] : fill<T>(1);
        is_heavier_ = is_there_ & (parts[2] > 0);
        is_partial_ = SIDE && to - from < LANES<T>;
    }

    // Where the bound of EU will be too small for a difference. Where either side has no weight, EU
    // does not change.
    void find_what_is_seen(ptrdiff_t first) {
        const Bits<T> both = is_there_ & (share_ > 0) & (rest_ > 0);
        seen_ = Bits<T>{};
        for (int rule = LOG; rule <= SPHERICAL; rule++)
            if (place_[rule] >= 0) epistemic_[rule] = load<T>(statistics(state_.memory.epistemic, place_[rule], first));
        if (wants(LOG)) {
            log_convex_ = load_wide(convex(state_.memory, log_place_, first));
            seen_ = is_log_seen_ = both & ~(rest_ * epistemic_[LOG] > log_threshold_);
        }
        if (wants(ZERO_ONE)) {
            miss_ = load<T>(statistics(state_.memory.aleatoric, place_[ZERO_ONE], first));
            is_regret_seen_ = is_there_ & ~(rest_ * epistemic_[ZERO_ONE] > T(FAR));
        }
        for (int j = 0; j < n_others_; j++) {
            Other &other = others_[j];
            other.epistemic = load<T>(statistics(state_.memory.epistemic, other.place, first));
            other.is_seen = Bits<T>{};
            if (!R::has_regrets(other.rule)) other.is_seen = both & ~(rest_ * other.epistemic > other.threshold);
            seen_ |= other.is_seen;
        }
        first_ = first;
    }

    // What the loop over the classes of a unit finds besides the new mean.
    struct Moved {
        V<T> distance, along, squares;  // Σ(θ − μ₁)², Σ(θ − μ₁)·μ, Σμ²
        V<T> path;                      // Σ|θ − μ₁|
        V<T> total, top;                // Σμ, max μ
        V<T> least;                     // mean regret under zero-one
    };
    // What is done for zero-one: nothing; finding Σμ and max μ; or adding regrets.
    enum Decision { NONE, TOP_ONLY, REGRET };

    // Write numbers of instances side by side, but of no others.
    template <bool PLAIN> INLINE void keep(T *to, V<T> numbers) const {
        if (!PLAIN && is_partial_) numbers = is_there_ ? numbers : load<T>(to);
        store(to, numbers);
    }

    // Move the mean, and add regrets. What is seen keeps both means and θ − μ₁ for a while.
    template <bool SQUARED, Decision DECISION, bool KEEP, bool PLAIN>
    __attribute__((noinline)) Moved move(const Unit &unit, V<T> top) {
        constexpr bool ADD = DECISION == REGRET;
        T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
        T *regrets = regrets_at(unit);
        const V<T> share = unit.share, rest = unit.rest;
        const Bits<T> is_lost = ADD && !PLAIN ? without_regrets(unit) : Bits<T>{};
        V<T> average_top{};
        const ptrdiff_t ahead = n_ * step_ > AHEAD_IN_STATE ? n_ * step_ : AHEAD_IN_STATE;
        if (ADD && !PLAIN && any(is_lost)) average_top = mean_total(unit) - of_unit(miss_, unit);
        V<T> least = fill<T>(__builtin_inf()), path{}, total{}, largest{};
        Wide<T> distance{}, along{}, squares{};
        for (int start = 0; start < n_; start += BLOCK) {
            V<T> part_distance{}, part_along{}, part_squares{};
            const int stop = start + BLOCK < n_ ? start + BLOCK : n_;
            for (int r = start; r < stop; r++) {
                const V<T> p = unit.row[r], anchor = load<T>(anchors + r * step_), shift = load<T>(deviations + r * step_);
                const V<T> change = (p - anchor) - shift;
                V<T> new_anchor = anchor, new_shift = fma(share, change, shift);
                if constexpr (!PLAIN) {  // the anchor is the heaviest member
                    new_anchor = unit.is_heavier ? p : anchor;
                    new_shift = unit.is_heavier ? -(rest * change) : new_shift;
                    keep<PLAIN>(anchors + r * step_, new_anchor);
                }
                keep<PLAIN>(deviations + r * step_, new_shift);
                __builtin_prefetch(anchors + r * step_ + ahead);
                __builtin_prefetch(deviations + r * step_ + ahead, 1);
                path += absolute(change);
                if constexpr (KEEP) {
                    old_mean_[r] = at_least_zero(anchor + shift);
                    change_[r] = change;
                }
                if constexpr (KEEP || SQUARED || DECISION == TOP_ONLY) {
                    const V<T> q = at_least_zero(new_anchor + new_shift);
                    if constexpr (KEEP) mean_[r] = q;
                    if constexpr (SQUARED) {
                        part_distance = fma(change, change, part_distance);
                        part_along = fma(change, q, part_along);
                        part_squares = fma(q, q, part_squares);
                    }
                    if constexpr (DECISION == TOP_ONLY) {
                        total += q;
                        largest = larger(q, largest);
                    }
                }
                if constexpr (ADD) {
                    V<T> regret = load<T>(regrets + r * step_);
                    if constexpr (!PLAIN)  // where it was not kept it is large, and this has all its digits
                        regret = is_lost ? average_top - at_least_zero(anchor + shift) : regret;
                    regret = fma(share, top - p, rest * regret);
                    least = smaller(regret, least);
                    keep<PLAIN>(regrets + r * step_, regret);
                }
            }
            if constexpr (SQUARED) {
                distance = distance + widen(part_distance);
                along = along + widen(part_along);
                squares = squares + widen(part_squares);
            }
        }
        return {narrow(distance), narrow(along), narrow(squares), path, total, largest, least};
    }

    template <bool SQUARED, Decision DECISION>
    INLINE Moved move_with(const Unit &unit, V<T> top, bool keep, bool is_plain) {
        if (keep) return is_plain ? move<SQUARED, DECISION, true, true>(unit, top) : move<SQUARED, DECISION, true, false>(unit, top);
        return is_plain ? move<SQUARED, DECISION, false, true>(unit, top) : move<SQUARED, DECISION, false, false>(unit, top);
    }

    T *regrets_at(const Unit &unit) const {
        return classes(state_.memory.regrets) + unit.regret + (SIDE ? first_regret_ * LANE_BLOCK : first_regret_);
    }
    // Where the regrets of zero-one are not kept, the first is −1.
    INLINE Bits<T> without_regrets(const Unit &unit) const {
        const T *first = regrets_at(unit);
        return (SIDE ? load<T>(first) : fill<T>(double(*first))) < 0;
    }
    INLINE void lose_regrets(const Unit &unit) const {
        if (SIDE) keep<false>(regrets_at(unit), fill<T>(-1));
        else *regrets_at(unit) = -1;
    }
    // Σμ of the state.
    V<T> mean_total(const Unit &unit) const {
        const T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
        return R::sum_over_classes(n_, [&](int r, V<T> sum) __attribute__((always_inline)) {
            return sum + at_least_zero(load<T>(anchors + r * step_) + load<T>(deviations + r * step_));
        });
    }

    // Loops over classes are functions of their own: in a larger one, the compiler keeps their sums in
    // memory instead of registers.
    template <bool LOG, bool SQUARED> static __attribute__((noinline)) Sums<T> sums_of(Row<T> row) {
        Bits<T> signs{};
        return sums_over_classes<T, LOG, SQUARED, false>(row, nullptr, V<T>{}, signs);
    }

    template <bool LOG, bool FROM_LOGITS, bool SQUARED, bool ZERO_ONE> INLINE Sums<T> add_unit(const Unit &unit) {
        Sums<T> s = sums_of<LOG && !FROM_LOGITS, SQUARED>(unit.row);
        if constexpr (LOG && FROM_LOGITS) {
            const V<T> negative = members_.negative(0) * T(1 / LOG_UNIT<T>);
            s.negative = SIDE ? negative : (lane_numbers<T>() == 0 ? negative : V<T>{});
        }
        const V<T> top = ZERO_ONE || n_others_ > 0 ? across_max<T, SIDE>(s.top) : V<T>{};
        for (int j = 0; j < n_others_; j++) find_entropy(others_[j], unit, across_sum<T, SIDE>(s.total), top);
        const Bits<T> seen = of_unit(seen_, unit);
        bool is_plain = !is_partial_ && !any(unit.is_heavier);
        const bool see_regrets = ZERO_ONE && any(of_unit(is_regret_seen_, unit));
        if constexpr (ZERO_ONE) {
            const Bits<T> is_lost = without_regrets(unit);
            if (see_regrets) is_plain &= !any(is_lost);
            else if (!all(is_lost)) lose_regrets(unit);
        }
        constexpr Decision SEEN = ZERO_ONE ? REGRET : NONE, FAR_APART = ZERO_ONE ? TOP_ONLY : NONE;
        const Moved moved = see_regrets ? move_with<SQUARED, SEEN>(unit, top, any(seen), is_plain)
                                        : move_with<SQUARED, FAR_APART>(unit, top, any(seen), is_plain);
        if constexpr (ZERO_ONE) {
            const V<T> miss = at_least_zero(across_sum<T, SIDE>(s.total) - top);
            see_decision(unit, moved, miss, see_regrets);
        }
        if constexpr (SQUARED) see_squares(unit, moved);
        if constexpr (LOG) see_log(unit, moved, s.negative);
        for (int j = 0; j < n_others_; j++) see_other(others_[j], unit);
        return s;
    }

    // Where members are far apart, EU is H(μ) − E H(θ).
    void see_decision(const Unit &unit, const Moved &moved, V<T> miss, bool see_regrets) {
        if (see_regrets) return put(epistemic_[ZERO_ONE], unit, across_min<T, SIDE>(moved.least));
        const V<T> before = of_unit(miss_, unit), after = fma(unit.share, miss, unit.rest * before);
        const V<T> of_mean = across_sum<T, SIDE>(moved.total) - across_max<T, SIDE>(moved.top);
        const V<T> bound = unit.rest * of_unit(epistemic_[ZERO_ONE], unit);
        put(epistemic_[ZERO_ONE], unit, larger(of_mean - after, bound));
    }

    // EU is (1 − s)·EU₁ + s·(1 − s)·Σ(θ − μ₁)² for Brier. For spherical only the part of θ − μ₁ that
    // is not parallel to μ counts; where most of it is parallel it is summed class by class.
    void see_squares(const Unit &unit, const Moved &moved) {
        const V<T> distance = across_sum<T, SIDE>(moved.distance), both = unit.share * unit.rest;
        if (wants(BRIER)) put(epistemic_[BRIER], unit, fma(both, distance, unit.rest * of_unit(epistemic_[BRIER], unit)));
        if (!wants(SPHERICAL)) return;
        V<T> epistemic = unit.rest * of_unit(epistemic_[SPHERICAL], unit);
        if (any(both > 0)) {
            const V<T> along = across_sum<T, SIDE>(moved.along), squares = across_sum<T, SIDE>(moved.squares);
            const V<T> parallel = along / squares, norm = sqrt(squares);
            V<T> across = distance - along * parallel;
            if (any(across < distance * T(0.1)))
                across = distance_across(unit, parallel);
            // D(μ, μ + t·(θ − μ₁)) without the factor t²
            auto divergence = [&](V<T> t) __attribute__((always_inline)) {
                const V<T> end = sqrt(at_least_zero(fma(t * t, distance, fma(t + t, along, squares))));
                return across / (end + norm * fma(t, parallel, fill<T>(1)));
            };
            const V<T> divergences = unit.rest * divergence(unit.rest) + unit.share * divergence(-unit.share);
            epistemic = both > 0 ? fma(both, divergences, epistemic) : epistemic;
        }
        put(epistemic_[SPHERICAL], unit, epistemic);
    }

    // Σ(θ − μ₁ − t·μ)². As θ − μ is (1 − s)·(θ − μ₁), both follow from the state.
    __attribute__((noinline)) V<T> distance_across(const Unit &unit, V<T> t) const {
        const T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
        const V<T> scale = T(1) / unit.rest;
        return R::sum_over_classes(n_, [&](int r, V<T> sum) __attribute__((always_inline)) {
            const V<T> anchor = load<T>(anchors + r * step_), shift = load<T>(deviations + r * step_);
            const V<T> d = ((unit.row[r] - anchor) - shift) * scale - at_least_zero(anchor + shift) * t;
            return fma(d, d, sum);
        });
    }

    // By Pinsker's inequality D(p, q) is at least ½(Σ|p − q|)², and so
    //   EU ≥ (1 − s)·EU₁ + ½·s·(1 − s)·(Σ|θ − μ₁|)².
    // A little less is taken, as sums are not exactly 1.
    INLINE void see_log(const Unit &unit, const Moved &moved, V<T> negative) {
        const V<T> path = across_sum<T, SIDE>(moved.path), more = unit.share * unit.rest * path * path * T(0.48);
        const V<T> bound = fma(unit.rest, of_unit(epistemic_[LOG], unit), more);
        const Bits<T> seen = of_unit(is_log_seen_, unit) & ~(bound > log_threshold_);
        if (any(seen)) see_near_log(unit, seen, bound, more, negative);
        else put(epistemic_[LOG], unit, bound);
    }

    __attribute__((noinline)) void see_near_log(const Unit &unit, Bits<T> seen, V<T> bound, V<T> more, V<T> negative) {
        const V<T> share = unit.share, rest = unit.rest;
        const Bits<T> may_be_far = seen & (bound > log_threshold_ * T(0.25));
        if (any(may_be_far)) {  // a difference costs less than two divergences
            const Wide<T> after = fma(widen(share), widen(in_nats(negative)) - log_convex_, log_convex_);
            const V<T> difference = of_unit(narrow(after - widen(negative_of(mean_))), unit);
            bound = may_be_far & (difference > log_threshold_) ? difference : bound;
            seen &= ~(bound > log_threshold_);
        }
        V<T> before = of_unit(epistemic_[LOG], unit);
        const Bits<T> was_far = seen & (before > log_threshold_);
        if (any(was_far)) {  // until now there was only a bound
            const V<T> difference = of_unit(narrow(log_convex_ - widen(negative_of(old_mean_))), unit);
            before = was_far ? larger(difference, before) : before;
            bound = was_far ? fma(rest, before, more) : bound;
            seen &= ~(bound > log_threshold_);
        }
        V<T> epistemic = bound;
        if (any(seen)) {
            const V<T> divergences = R::sum_over_classes(n_, [&](int r, V<T> sum) __attribute__((always_inline)) {
                const V<T> q = mean_[r], d = change_[r];
                sum = fma(share, relative_entropy<T>(q, unit.row[r], rest * d), sum);
                return fma(rest, relative_entropy<T>(q, old_mean_[r], -(share * d)), sum);
            });
            epistemic = seen ? rest * before + divergences : epistemic;
        }
        put(epistemic_[LOG], unit, epistemic);
    }
    static V<T> in_nats(V<T> v) { return across_sum<T, SIDE>(v * T(LOG_UNIT<T>)); }
    V<T> negative_of(const V<T> *mean) const { return in_nats(sums_of<true, false>(Row<T>::of(mean, n_)).negative); }

    void find_entropy(Other &other, const Unit &unit, V<T> total, V<T> top) {
        const Entropy<T> h = R::entropy(other.rule, unit.row, Sums<T>{total, V<T>{}, V<T>{}, V<T>{}, top});
        put(other.entropy.value, unit, h.value);
        put(other.entropy.convex, unit, h.convex);
    }

    void see_other(Other &other, const Unit &unit) {
        if (R::has_regrets(other.rule)) return add_regrets(other, unit);
        const V<T> share = unit.share, rest = unit.rest;
        Bits<T> seen = of_unit(other.is_seen, unit);
        V<T> before = of_unit(other.epistemic, unit);
        const Row<T> mean = Row<T>::of(mean_, n_), old_mean = Row<T>::of(old_mean_, n_), change = Row<T>::of(change_, n_);
        const Bits<T> was_far = seen & (before > other.threshold);
        if (any(was_far)) {
            const Entropy<T> h = R::entropy(other.rule, old_mean, combined_sums(old_mean));
            const Wide<T> average = load_wide(convex(state_.memory, other.convex, first_));
            const V<T> difference = of_unit(narrow(average - widen(h.convex)), unit);
            before = was_far ? larger(difference, before) : before;
            seen &= ~(rest * before > other.threshold);
        }
        V<T> epistemic = rest * before;
        if (any(seen)) {
            V<T> divergences;
            if (is_quadratic(other)) {
                divergences = share * rest * R::divergence(other.rule, mean, unit.row, change);
            } else {
                for (int r = 0; r < n_; r++) scaled_[r] = rest * change_[r];
                divergences = share * R::divergence(other.rule, mean, unit.row, Row<T>::of(scaled_, n_));
                for (int r = 0; r < n_; r++) scaled_[r] = -(share * change_[r]);
                divergences += rest * R::divergence(other.rule, mean, old_mean, Row<T>::of(scaled_, n_));
            }
            epistemic = seen ? epistemic + at_least_zero(divergences) : epistemic;
        }
        put(other.epistemic, unit, epistemic);
    }

    static Sums<T> combined_sums(Row<T> row) {
        Sums<T> s = sums_of<false, false>(row);
        s.total = across_sum<T, SIDE>(s.total);
        s.top = across_max<T, SIDE>(s.top);
        return s;
    }

    // The regrets of a rule other than zero-one, whose instances are always side by side.
    T *regret_at(const Memory &memory, const Other &other, ptrdiff_t first, int i) const {
        return classes(memory.regrets) + first + (other.first_regret + i) * LANE_BLOCK;
    }
    void add_regrets(const Other &other, const Unit &unit) {
        const int n_regrets = R::n_regrets(other.rule, n_);
        for (int i = 0; i < n_regrets; i++)
            other.rule.sums[i] = unit.rest * load<T>(regret_at(state_.memory, other, unit.regret, i));
        R::add_regrets(other.rule, unit.row, unit.share);
        for (int i = 0; i < n_regrets; i++)
            keep<false>(regret_at(state_.memory, other, unit.regret, i), other.rule.sums[i]);
    }

    template <bool LOG, bool SQUARED> INLINE void write(ptrdiff_t first, const Sums<T> &s) {
        const Values<T> v = values_of<T, LOG, SQUARED>(s);
        if (wants(ZERO_ONE)) {
            average(place_[ZERO_ONE], first, v.at[MISS]);
            write_epistemic(place_[ZERO_ONE], first, epistemic_[ZERO_ONE]);
        }
        if constexpr (LOG) {
            average(place_[scorewise::LOG], first, v.at[SURPRISE]);
            average_convex(log_place_, first, v.at[NEGATIVE]);
            write_epistemic(place_[scorewise::LOG], first, epistemic_[scorewise::LOG]);
        }
        if constexpr (SQUARED) {
            if (wants(BRIER)) {
                average(place_[BRIER], first, v.at[GINI]);
                write_epistemic(place_[BRIER], first, epistemic_[BRIER]);
            }
            if (wants(SPHERICAL)) {
                average(place_[SPHERICAL], first, v.at[GAP]);
                write_epistemic(place_[SPHERICAL], first, epistemic_[SPHERICAL]);
            }
        }
        for (int j = 0; j < n_others_; j++) {
            const Other &other = others_[j];
            average(other.place, first, other.entropy.value);
            if (other.convex >= 0) average_convex(other.convex, first, other.entropy.convex);
            write_epistemic(other.place, first, other.epistemic);
        }
    }
    INLINE void average(int place, ptrdiff_t first, V<T> entropy) {
        const V<T> before = load<T>(statistics(state_.memory.aleatoric, place, first));
        // not before + share·(entropy − before), which has the errors of a light member's large entropy
        write_there(statistics(state_.memory.aleatoric, place, first), fma(share_, entropy, rest_ * before));
    }
    // In float64: EU is a small difference, in which the rounding errors of many members would count.
    INLINE void average_convex(int place, ptrdiff_t first, V<T> value) {
        const Wide<T> before = load_wide(convex(state_.memory, place, first));
        const Wide<T> after = fma(widen(share_), widen(value) - before, before);
        double *to = convex(state_.memory, place, first);
        if (all(is_there_)) return store(to, after);
        for (int lane = 0; lane < LANES<T>; lane++)
            if (is_there_[lane]) memcpy(to + lane, reinterpret_cast<const double *>(&after) + lane, sizeof *to);
    }
    INLINE void write_epistemic(int place, ptrdiff_t first, V<T> value) {
        write_there(statistics(state_.memory.epistemic, place, first), value);
    }
    INLINE void write_there(T *to, V<T> value) { store(to, is_there_ ? value : load<T>(to)); }

    // -- totals and EU of the members so far -------------------------------------------------------------

    void settle_group(ptrdiff_t first) {
        for (int lane = 0; lane < (SIDE ? 1 : LANES<T>); lane++) {
            const Unit unit = {lane, Row<T>::of(mean_, n_), place_of(first + lane, row_length_),
                               place_of(first + lane, state_.n_regrets), V<T>{}, V<T>{}, Bits<T>{}};
            const T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
            for (int r = 0; r < n_; r++)
                mean_[r] = at_least_zero(load<T>(anchors + r * step_) + load<T>(deviations + r * step_));
            settle_unit(first, unit);
        }
    }

    void settle_unit(ptrdiff_t first, const Unit &unit) {
        Sums<T> s = sums_of<true, true>(unit.row);
        s = {across_sum<T, SIDE>(s.total), across_sum<T, SIDE>(s.squares), across_sum<T, SIDE>(s.doubt),
             across_sum<T, SIDE>(s.negative), across_max<T, SIDE>(s.top)};
        const Values<T> v = values_of<T, true, true>(s);
        const V<T> spoilt = s.total - s.total;  // NaN where a member is that was not checked
        if (wants(LOG)) {
            write_total(place_[LOG], first, unit, v.at[SURPRISE]);
            settle_difference(place_[LOG], log_place_, first, unit, log_threshold_, v.at[NEGATIVE], spoilt);
        }
        if (wants(BRIER)) write_total(place_[BRIER], first, unit, v.at[GINI]);
        if (wants(SPHERICAL)) write_total(place_[SPHERICAL], first, unit, v.at[GAP]);
        if (wants(ZERO_ONE)) {
            write_total(place_[ZERO_ONE], first, unit, v.at[MISS]);
            settle_regrets(first, unit, s.total, spoilt);
        }
        for (int j = 0; j < n_others_; j++) {
            const Other &other = others_[j];
            const Entropy<T> h = R::entropy(other.rule, unit.row, s);
            write_total(other.place, first, unit, h.value);
            if (R::has_regrets(other.rule)) {
                const int n_regrets = R::n_regrets(other.rule, n_);
                for (int i = 0; i < n_regrets; i++) other.rule.sums[i] = load<T>(regret_at(state_.memory, other, unit.regret, i));
                write_settled(other.place, first, unit, R::least_regret(other.rule, n_) + spoilt);
            } else if (other.convex < 0) {
                const V<T> own = of_unit(load<T>(statistics(state_.memory.epistemic, other.place, first)), unit);
                write_settled(other.place, first, unit, own + spoilt);
            } else {
                settle_difference(other.place, other.convex, first, unit, other.threshold, h.convex, spoilt);
            }
        }
    }

    // EU of zero-one from regrets, or the regrets where they were not kept; E max θ is Σμ − E H(θ).
    void settle_regrets(ptrdiff_t first, const Unit &unit, V<T> total, V<T> spoilt) {
        T *regrets = regrets_at(unit), *epistemic = statistics(state_.memory.epistemic, place_[ZERO_ONE], first);
        V<T> own = of_unit(load<T>(epistemic), unit);
        if (state_.wanted == CONVEX) {
            own = load<T>(regrets);
            for (int r = 1; r < n_; r++) own = smaller(load<T>(regrets + r * step_), own);
            own = across_min<T, SIDE>(own);
        }
        const Bits<T> is_lost = without_regrets(unit);
        if (state_.wanted == REGRETS && any(is_lost)) {
            const V<T> miss = load<T>(statistics(state_.memory.aleatoric, place_[ZERO_ONE], first));
            for (int r = 0; r < n_; r++) {
                T *regret = regrets + r * step_;
                store(regret, is_lost ? total - of_unit(miss, unit) - mean_[r] : load<T>(regret));
            }
        }
        write_lanes(epistemic, unit, own + spoilt);
    }

    // EU from the mean convex function where there was only a bound; or that function from EU.
    void settle_difference(int place, int convex_place, ptrdiff_t first, const Unit &unit, T threshold, V<T> of_mean, V<T> spoilt) {
        const V<T> before = load<T>(statistics(state_.memory.epistemic, place, first));
        const Wide<T> average = load_wide(convex(state_.memory, convex_place, first));
        if (state_.wanted == CONVEX) {
            const Wide<T> sum = widen(before) + widen(of_mean);
            for (int lane = 0; lane < LANES<T>; lane++)
                if (SIDE || lane == unit.lane) 
                    memcpy(convex(state_.memory, convex_place, first) + lane, reinterpret_cast<const double *>(&sum) + lane, sizeof(double));
            return;
        }
        const V<T> difference = narrow(average - widen(of_mean));
        write_settled(place, first, unit, (before > threshold ? larger(difference, before) : before) + spoilt);
    }
    void write_settled(int place, ptrdiff_t first, const Unit &unit, V<T> value) {
        write_lanes(statistics(state_.memory.epistemic, place, first), unit, value);
    }
    void write_total(int place, ptrdiff_t first, const Unit &unit, V<T> value) {
        write_lanes(reinterpret_cast<T *>(job_.results + place * job_.part_stride) + first, unit, value);
    }
    static void write_lanes(T *to, const Unit &unit, V<T> value) {
        if (SIDE) store(to, value);
        else to[unit.lane] = value[unit.lane];
    }

    const Job &job_;
    const State &state_;
    Members<T, SIDE> members_;
    const int n_;                 // vectors of a member
    const ptrdiff_t step_;        // numbers from one vector of the state to the next
    const ptrdiff_t row_length_;  // numbers of an instance's classes in the state
    int place_[4] = {-1, -1, -1, -1};  // of the first four rules in the list
    ptrdiff_t first_regret_ = 0;
    int n_convex_, log_place_ = 0;  // the mean convex parts, and that of log among them
    int n_others_ = 0;
    Other *others_;
    V<T> *old_mean_, *mean_, *change_, *scaled_;
    T log_threshold_;
    ptrdiff_t first_ = 0;  // instance of the group
    V<T> share_, rest_, epistemic_[4];
    Wide<T> log_convex_;
    Bits<T> is_there_, is_heavier_, seen_, is_log_seen_;
    V<T> miss_;  // E H(θ) under zero-one
    Bits<T> is_regret_seen_;
    bool has_shares_ = false;
    bool is_partial_ = false;  // whether some lanes are no instances of the member
};

// Add a member to the instances from `start` to `stop`.
template <class T> Status accumulate(const Job &job, const State &state) {
    try {
        Arena arena;
        if (state.is_side_by_side) return Accumulation<T, true>(job, state, arena).add_member();
        return Accumulation<T, false>(job, state, arena).add_member();
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

// Write the totals of the instances from `start` to `stop`, and bring their EU up to date.
template <class T> Status settle(const Job &job, const State &state) {
    try {
        Arena arena;
        if (state.is_side_by_side) return Accumulation<T, true>(job, state, arena).settle();
        return Accumulation<T, false>(job, state, arena).settle();
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
