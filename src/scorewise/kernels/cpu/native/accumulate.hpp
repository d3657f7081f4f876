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
// when it is asked for (`update_results`), and until then only a lower bound is kept: by the identity above,
// EU is never below (1 − s)·EU₁. Where this bound is too small for a difference, EU is brought up to
// date, and followed by the identity from there on. So:
//
//   epistemic ≤ threshold: it is EU;     epistemic > threshold: it is a lower bound of EU.
//
// This is so for log. Thresholds of powers and norms depend on the mean, and so a lower bound has a
// minus sign.
//
// Under zero-one, EU itself is kept: it is E max θ − max μ where members are far apart. Regrets are then
// not kept, unless an instance of the same vector needs them.
//
// Where members are far apart under all rules, the anchor adds no digits that count. It is then set to
// 0, and not read any more.
//
// The state changes in place. The member was checked before (checks.hpp), as no row may turn out to be
// no prediction when those before it were added.
#pragma once

#include "rules.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

// EU of Brier and spherical above which a mean in the precision of members has all digits that count:
// it has errors of √EU times some units of rounding.
constexpr double FAR_SQUARES = 1e-3;
constexpr ptrdiff_t AHEAD_IN_GROUPS = 4;  // groups whose statistics are fetched before they are read
constexpr ptrdiff_t AHEAD_IN_STATE = 1024;  // numbers of the state that are fetched before they are read

template <class T, bool SIDE> class Accumulation {
    using R = Rules<T, SIDE>;

    // A rule that is not one of the first four.
    struct Other {
        RuleNumbers<T> rule;
        int place;               // in the list of rules
        int convex;              // among the mean convex parts; −1 if EU is never a difference
        T threshold;             // of EU, see above; or of EU over the mean convex part
        bool is_relative;
        T least_size;            // of the mean convex part, to which the threshold is relative
        ptrdiff_t first_regret;  // in a row of regrets
        Entropy<T> entropy;      // of the new member, of a group of instances
        V<T> epistemic, limit;   // EU or a bound of it, and the threshold
        Bits<T> is_bound, needs_divergences;
    };

    // Some instances that are computed together: a group side by side, or one across.
    struct Unit {
        int lane;  // of the instance in its group; 0 side by side
        Row<T> row;
        ptrdiff_t at;      // its first class in the state
        ptrdiff_t regret;  // its first regret
        V<T> share, previous_share;  // of the new member, and of those before it
        Bits<T> is_heavier;
    };

    // A class of the member, of the means before and after it, and θ − μ₁.
    struct ClassValues {
        V<T> own, old_mean, mean, change;
    };

    // What the loops over the classes of a unit find besides the new mean.
    enum Quantity {
        OWN_TOTAL, OWN_TOP, OWN_SQUARES, OWN_DOUBT, OWN_NEGATIVE,  // of the member, as in Sums
        PATH,                                                      // Σ|θ − μ₁|
        DISTANCE, ALONG, MEAN_SQUARES,                             // Σ(θ − μ₁)², Σ(θ − μ₁)·μ, Σμ²
        MEAN_TOP,                                                  // max μ
        LEAST_REGRET,                                              // mean regret under zero-one
        N_QUANTITIES
    };
    struct Quantities {
        V<T> at[N_QUANTITIES];
        INLINE Sums<T> sums() const { return {at[OWN_TOTAL], at[OWN_SQUARES], at[OWN_DOUBT], at[OWN_NEGATIVE], at[OWN_TOP]}; }
        INLINE void set_sums(const Sums<T> &s) {
            at[OWN_TOTAL] = s.total, at[OWN_TOP] = s.top;
            at[OWN_SQUARES] = s.squares, at[OWN_DOUBT] = s.doubt, at[OWN_NEGATIVE] = s.negative;
        }
    };
    template <bool WITH_LOG, bool SQUARED, bool WITH_ZERO_ONE> static constexpr bool is_computed(int i) {
        if (i <= OWN_TOP) return true;
        if (i == OWN_NEGATIVE || i == PATH) return WITH_LOG;
        return i < MEAN_TOP ? SQUARED : WITH_ZERO_ONE;
    }

  public:
    // Of members or, without any, of the state itself.
    Accumulation(const Job &job, const State &state, Arena &arena)
        : job_(job), state_(state), members_(job, arena, true), n_(members_.n),
          step_(SIDE ? LANE_BLOCK : LANES<T>), row_length_(row_length(job.n_classes, SIDE)) {
        mean_ = arena.take<V<T>>(n_);
        class_values_ = arena.take<ClassValues>(SIDE ? n_ : n_ * LANES<T>);
        scaled_ = arena.take<V<T>>(n_);
        others_ = arena.take<Other>(job.n_rules);
        ptrdiff_t first_regret = 0;
        n_convex_ = 0;
        for (int i = 0; i < job.n_rules; i++) {
            const Rule &rule = job.rules[i];
            if (rule.structure > Structure::SPHERICAL) {
                Other &other = others_[n_others_++];
                other.rule = R::read(rule, n_, arena);
                other.place = i;
                other.convex = has_convex(rule) ? n_convex_ : -1;
                other.is_relative = has_relative_size(rule);
                other.least_size = rule.structure == Structure::TWO_CLASS ? TwoClass<T>(other.rule.doubles, other.rule.numbers).size() : T(0);
                other.threshold = T(threshold_of(rule));
                if (R::has_tangent(other.rule)) other.rule.tangent = new_tangent<T>(n_, arena);
                other.first_regret = first_regret;
            } else {
                place_[rule.structure] = i;
                if (rule.structure == Structure::ZERO_ONE) first_regret_ = first_regret;
                if (rule.structure == Structure::LOG) log_place_ = n_convex_;
                if (rule.structure == Structure::ZERO_ONE) top_place_ = n_convex_;
            }
            n_convex_ += has_convex(rule);
            first_regret += regrets_of(rule, row_length_);
        }
        log_threshold_ = T(FAR * (1 + __builtin_log(double(job.n_classes))));
    }

    Status add_members() {
        if (!wants(Structure::LOG)) return add_with<false, false>();
        return job_.kind == LOGITS ? add_with<true, true>() : add_with<true, false>();
    }

    // Write the totals H(μ), and bring EU up to date.
    Status update_results() {
        for (ptrdiff_t first = job_.start; first < job_.stop; first += LANES<T>) update_results_of_group(first);
        return DONE;
    }

  private:
    bool wants(Structure rule) const { return place_[rule] >= 0; }

    // Whether the rounding errors of the convex part are in proportion to it; see Entropy::size.
    static bool has_relative_size(const Rule &rule) {
        if (rule.structure == Structure::SEPARABLE) return rule.parameter >= 0.5 && rule.parameter <= 3;
        return rule.structure == Structure::NORM || rule.structure == Structure::TWO_CLASS;
    }
    // Above which EU a difference keeps enough digits, whatever the mean; infinite if none is taken.
    double threshold_of(const Rule &rule) const {
        if (rule.structure == Structure::NORM || rule.structure == Structure::TWO_CLASS) return FAR;
        if (rule.structure != Structure::SEPARABLE) return __builtin_inf();
        if (has_relative_size(rule)) return FAR * (rule.parameter + 1);
        const double heaviest = rule.size > 0 ? rule.numbers[rule.size - 1] : 1, n = double(job_.n_classes);
        const double largest = rule.parameter > 0 ? 1 / rule.parameter : __builtin_inf(), log_n = __builtin_log(n);
        const double entropy = largest < log_n ? largest : log_n;
        return FAR * heaviest * (entropy > 0.25 ? entropy : 0.25);
    }

    static bool is_quadratic(const Other &other) {
        return other.rule.structure == Structure::QUADRATIC || other.rule.structure == Structure::CUMULATIVE;
    }

    T *classes(char *numbers) const { return reinterpret_cast<T *>(numbers); }

    // Go to a group. Statistics of a block of instances lie together, one rule after the other.
    INLINE void go_to(ptrdiff_t first) {
        const ptrdiff_t block = first / LANE_BLOCK, lane = first % LANE_BLOCK;
        const ptrdiff_t statistic = block * (2 * job_.n_rules) * LANE_BLOCK + lane;
        first_ = first;
        aleatoric_ = classes(state_.memory.aleatoric) + statistic;
        epistemics_ = classes(state_.memory.epistemic) + statistic;
        convexes_ = state_.memory.convex + block * n_convex_ * LANE_BLOCK + lane;
    }
    INLINE T *aleatoric(int place) const { return aleatoric_ + place * LANE_BLOCK; }
    INLINE T *epistemic(int place) const { return epistemics_ + place * LANE_BLOCK; }
    INLINE double *convex(int place) const { return convexes_ + place * LANE_BLOCK; }
    // Fetch the statistics of a later group.
    INLINE void fetch_statistics() const {
        const ptrdiff_t n = 2 * job_.n_rules, step = LANE_BLOCK * ptrdiff_t(sizeof(T));
        const uintptr_t statistics = address_of(aleatoric_) + n * AHEAD_IN_GROUPS * step;
        for (ptrdiff_t i = 0; i < n; i++) prefetch_from<1>(statistics + i * step);
        const ptrdiff_t convex_bytes = n_convex_ * LANE_BLOCK * ptrdiff_t(sizeof(double));
        const uintptr_t convex_parts = address_of(convexes_) + convex_bytes * AHEAD_IN_GROUPS;
        for (ptrdiff_t i = 0; i < convex_bytes; i += 64) prefetch_from<1>(convex_parts + i);
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
    static INLINE bool is_any(Bits<T> v, const Unit &unit) { return SIDE ? any(v) : v[unit.lane] != 0; }

    // -- a new member ---------------------------------------------------------------------------------

    template <bool WITH_LOG, bool FROM_LOGITS> Status add_with() {
        const bool with_squares = wants(Structure::SPHERICAL) || wants(Structure::BRIER), with_zero_one = wants(Structure::ZERO_ONE);
        if (with_squares && with_zero_one) return add_all<WITH_LOG, FROM_LOGITS, true, true>();
        if (with_squares) return add_all<WITH_LOG, FROM_LOGITS, true, false>();
        return with_zero_one ? add_all<WITH_LOG, FROM_LOGITS, false, true>() : add_all<WITH_LOG, FROM_LOGITS, false, false>();
    }

    template <bool WITH_LOG, bool FROM_LOGITS, bool SQUARED, bool WITH_ZERO_ONE> Status add_all() {
        const ptrdiff_t begin = state_.offset + job_.start, end = state_.offset + job_.stop;
        for (ptrdiff_t first = begin / LANES<T> * LANES<T>; first < end; first += LANES<T>) {
            const int from = int(begin > first ? begin - first : 0);
            const int to = int(end - first < LANES<T> ? end - first : LANES<T>);
            go_to(first);
            fetch_statistics();
            if (job_.n_members == 1) fetch_rows<T>(job_, first + from - state_.offset);
            if (SIDE) members_.locate(first + from - state_.offset, to - from, from);
            for (member_ = 0; member_ < job_.n_members; member_++)
                add_to_group<WITH_LOG, FROM_LOGITS, SQUARED, WITH_ZERO_ONE>(from, to);
        }
        return DONE;
    }

    // Add a member to the instances in some lanes of the group.
    template <bool WITH_LOG, bool FROM_LOGITS, bool SQUARED, bool WITH_ZERO_ONE> INLINE void add_to_group(int from, int to) {
        const bool is_same = job_.n_members == 1 && state_.share_stride == 0;  // shares as in the last group
        if (!has_shares_ || to - from < LANES<T> || !is_same) read_shares(from, to);
        find_what_needs_divergences();
        Quantities quantities;
        if constexpr (SIDE) {
            add_unit<WITH_LOG, FROM_LOGITS, SQUARED, WITH_ZERO_ONE>(unit_at(0), quantities);
        } else {
            for (int lane = from; lane < to; lane++) {
                members_.locate(first_ + lane - state_.offset, 1);
                add_unit<WITH_LOG, FROM_LOGITS, SQUARED, WITH_ZERO_ONE>(unit_at(lane), quantities);
                for (int i = 0; i < N_QUANTITIES; i++)
                    if (is_computed<WITH_LOG, SQUARED, WITH_ZERO_ONE>(i)) parts_[i][lane] = quantities.at[i];
            }
            combine<WITH_LOG, SQUARED, WITH_ZERO_ONE>(from, to, quantities);
        }
        if constexpr (WITH_ZERO_ONE) update_zero_one(quantities);
        if constexpr (SQUARED) update_squares(quantities);
        if constexpr (WITH_LOG) update_log(quantities);
        write<WITH_LOG, SQUARED>(quantities.sums());
    }

    // The unit in a lane of the group, or that of all lanes; the member is there.
    INLINE Unit unit_at(int lane) {
        const ptrdiff_t at = place_of(first_ + lane, row_length_), regret = place_of(first_ + lane, state_.n_regrets);
        if (SIDE) return {0, members_.row(member_), at, regret, share_, previous_share_, is_heavier_};
        return {lane, members_.row(member_), at, regret, fill<T>(share_[lane]), fill<T>(previous_share_[lane]), Bits<T>{} + is_heavier_[lane]};
    }

    // Combine the lanes of each unit, which then has one lane of the group. Lanes without a unit get
    // the numbers of the first.
    template <bool WITH_LOG, bool SQUARED, bool WITH_ZERO_ONE> INLINE void combine(int from, int to, Quantities &quantities) {
        for (int i = 0; i < N_QUANTITIES; i++) {
            if (!is_computed<WITH_LOG, SQUARED, WITH_ZERO_ONE>(i)) continue;
            for (int lane = 0; lane < LANES<T>; lane++)
                if (lane < from || lane >= to) parts_[i][lane] = parts_[i][from];
            if (i == OWN_TOP || i == MEAN_TOP) quantities.at[i] = combine_each<T>(parts_[i], Larger{});
            else if (i == LEAST_REGRET) quantities.at[i] = combine_each<T>(parts_[i], Smaller{});
            else quantities.at[i] = combine_each<T>(parts_[i], Add{});
        }
    }

    // In lanes that are no instances of the member it has no share, so that nothing changes there.
    __attribute__((noinline)) void read_shares(int from, int to) {
        const Bits<T> lanes = lane_numbers<T>();
        is_there_ = (lanes >= from) & (lanes < to);
        V<T> parts[3] = {};
        for (int i = 0; i < 3; i++) {
            const char *place = state_.shares + i * state_.share_part_stride + member_ * state_.share_member_stride;
            for (int lane = 0; lane < LANES<T>; lane++) {
                const int here = lane < from ? from : lane < to ? lane : to - 1;
                T number;
                memcpy(&number, place + (first_ + here - state_.offset) * state_.share_stride, sizeof number);
                parts[i][lane] = number;
                if (state_.share_stride != 0) continue;
                parts[i] = fill<T>(double(number));
                break;
            }
        }
        has_shares_ = is_whole_ = to - from == LANES<T>;
        share_ = is_there_ ? parts[0] : V<T>{};
        previous_share_ = is_there_ ? parts[1] : fill<T>(1);
        is_heavier_ = is_there_ & (parts[2] > 0);
    }

    // Where the bound of EU will be too small for a difference, so that its divergences are needed now.
    // Where either side has no weight, EU does not change.
    INLINE void find_what_needs_divergences() {
        const Bits<T> both = both_ = is_there_ & (share_ > 0) & (previous_share_ > 0);
        needs_divergences_ = Bits<T>{};
        can_drop_anchor_ = is_there_;
        auto is_above = [&](V<T> epistemic, V<T> threshold) __attribute__((always_inline)) {
            const Bits<T> above = previous_share_ * epistemic > threshold;
            can_drop_anchor_ &= above;
            return above;
        };
        for (const Structure rule : FIRST_FOUR)
            if (wants(rule)) epistemic_[rule] = load<T>(epistemic(place_[rule]));
        if (wants(Structure::LOG)) {
            log_convex_ = load_wide(convex(log_place_));
            needs_divergences_ = log_needs_divergences_ = both & ~is_above(epistemic_[Structure::LOG], fill<T>(log_threshold_));
        }
        if (wants(Structure::BRIER)) is_above(epistemic_[Structure::BRIER], fill<T>(FAR_SQUARES));
        if (wants(Structure::SPHERICAL)) is_above(epistemic_[Structure::SPHERICAL], fill<T>(FAR_SQUARES));
        if (wants(Structure::ZERO_ONE)) {
            average_top_ = load_wide(convex(top_place_));
            needs_regrets_ = is_there_ & ~is_above(epistemic_[Structure::ZERO_ONE], narrow(average_top_) * T(FAR));
        }
        for (int j = 0; j < n_others_; j++) {
            Other &other = others_[j];
            const V<T> stored = load<T>(epistemic(other.place));
            other.is_bound = stored < 0;
            other.epistemic = absolute(stored);
            other.limit = fill<T>(other.threshold);
            if (other.is_relative)
                other.limit = larger(fill<T>(other.least_size), absolute(narrow(load_wide(convex(other.convex))))) * other.threshold;
            other.needs_divergences = both & ~is_above(other.epistemic, other.limit);
            if (R::has_regrets(other.rule)) other.needs_divergences = Bits<T>{};
            needs_divergences_ |= other.needs_divergences;
        }
    }

    // What is done for zero-one: nothing; finding max μ; or adding regrets, which needs the
    // largest class and so its sums before.
    enum Decision { NONE, TOP_ONLY, REGRET };
    // Plain: no anchor changes, and all lanes are instances of the member. No anchor: plain, and the
    // anchor is 0. Divergences need both means and θ − μ₁, which are kept for a while.
    enum How { NO_ANCHOR, PLAIN, PLAIN_KEEP, ANY_KEEP };

    // What regrets are computed from: the largest class, where they were not kept, and E max θ.
    struct RegretInputs {
        V<T> top;
        Bits<T> is_lost;
        V<T> average_top;
    };

    // Write numbers of instances side by side, but of no others.
    template <bool IS_PLAIN> INLINE void keep(T *to, V<T> numbers) const {
        if (SIDE && !IS_PLAIN && !is_whole_) numbers = is_there_ ? numbers : load<T>(to);
        store(to, numbers);
    }

    // Move the mean of some classes, and add regrets; or else sum over the member.
    //
    // A function of its own: in a larger one, the compiler keeps sums in memory instead of registers.
    template <bool WITH_LOG, bool SQUARED, Decision DECISION, How HOW>
    __attribute__((noinline)) void move_block(const Unit &unit, const RegretInputs &inputs, int start, int stop, Quantities &quantities) {
        constexpr bool ADD = DECISION == REGRET, IS_PLAIN = HOW != ANY_KEEP, KEEP = HOW >= PLAIN_KEEP, HAS_ANCHOR = HOW != NO_ANCHOR;
        T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
        T *regrets = regrets_at(unit);
        const V<T> share = unit.share, previous_share = unit.previous_share;
        const ptrdiff_t ahead = (n_ * step_ > AHEAD_IN_STATE ? n_ * step_ : AHEAD_IN_STATE) * ptrdiff_t(sizeof(T));
        ClassValues *values = class_values_ + (SIDE ? 0 : unit.lane * n_);
        Sums<T> own{};
        Bits<T> own_top{};
        V<T> least = fill<T>(__builtin_inf()), path{}, largest{}, distance{}, along{}, squares{};
        for (int r = start; r < stop; r++) {
            const V<T> p = unit.row[r], anchor = HAS_ANCHOR ? load<T>(anchors + r * step_) : V<T>{};
            const V<T> shift = load<T>(deviations + r * step_), change = (HAS_ANCHOR ? p - anchor : p) - shift;
            V<T> new_anchor = anchor, new_shift = fma(share, change, shift);
            if constexpr (!IS_PLAIN) {  // the anchor is the heaviest member
                new_anchor = unit.is_heavier ? p : anchor;
                new_shift = unit.is_heavier ? -(previous_share * change) : new_shift;
                keep<IS_PLAIN>(anchors + r * step_, new_anchor);
            }
            keep<IS_PLAIN>(deviations + r * step_, new_shift);
            if constexpr (HAS_ANCHOR) prefetch_from(address_of(anchors + r * step_) + ahead);
            prefetch_from<1>(address_of(deviations + r * step_) + ahead);
            unit.row.prefetch(r);
            path += absolute(change);
            if constexpr (!ADD) {  // as in sums_over_classes
                own.total += p;
                own_top = larger(to_bits(p), own_top);
                if constexpr (SQUARED) {
                    own.squares = fma(p, p, own.squares);
                    own.doubt = fma(p, T(1) - p, own.doubt);
                }
                if constexpr (WITH_LOG) own.negative = fma(p, cheap_log(p), own.negative);
            }
            if constexpr (KEEP || SQUARED || DECISION == TOP_ONLY) {
                const V<T> q = at_least_zero(HAS_ANCHOR ? new_anchor + new_shift : new_shift);
                if constexpr (KEEP) values[r] = {p, at_least_zero(anchor + shift), q, change};
                if constexpr (SQUARED) {
                    distance = fma(change, change, distance);
                    along = fma(change, q, along);
                    squares = fma(q, q, squares);
                }
                if constexpr (DECISION == TOP_ONLY) largest = larger(q, largest);
            }
            if constexpr (ADD) {
                V<T> regret = load<T>(regrets + r * step_);
                if constexpr (!IS_PLAIN)  // where it was not kept it is large, and this has all its digits
                    regret = inputs.is_lost ? inputs.average_top - at_least_zero(anchor + shift) : regret;
                regret = fma(share, inputs.top - p, previous_share * regret);
                least = smaller(regret, least);
                keep<IS_PLAIN>(regrets + r * step_, regret);
            }
        }
        if constexpr (!ADD) {
            own.top = from_bits(own_top);
            quantities.set_sums(own);
        }
        quantities.at[PATH] = path;
        quantities.at[DISTANCE] = distance, quantities.at[ALONG] = along, quantities.at[MEAN_SQUARES] = squares;
        quantities.at[MEAN_TOP] = largest;
        quantities.at[LEAST_REGRET] = least;
    }

    // All classes of a unit. Blocks are summed in T, and these sums in float64.
    template <bool WITH_LOG, bool SQUARED, Decision DECISION, How HOW>
    INLINE void move(const Unit &unit, const RegretInputs &inputs, Quantities &quantities) {
        if (n_ <= BLOCK) return move_block<WITH_LOG, SQUARED, DECISION, HOW>(unit, inputs, 0, n_, quantities);
        move_long<WITH_LOG, SQUARED, DECISION, HOW>(unit, inputs, quantities);
    }
    template <bool WITH_LOG, bool SQUARED, Decision DECISION, How HOW>
    __attribute__((noinline)) void move_long(const Unit &unit, const RegretInputs &inputs, Quantities &quantities) {
        constexpr bool ADD = DECISION == REGRET;
        LongSum<T> sums[N_QUANTITIES];
        V<T> own_top{}, mean_top{}, least = fill<T>(__builtin_inf());
        Quantities part;
        for (int start = 0; start < n_; start += BLOCK) {
            move_block<WITH_LOG, SQUARED, DECISION, HOW>(unit, inputs, start, start + BLOCK < n_ ? start + BLOCK : n_, part);
            for (int i = 0; i < N_QUANTITIES; i++)
                if (i == PATH || (is_computed<WITH_LOG, SQUARED, false>(i) && i != OWN_TOP && i >= (ADD ? int(PATH) : 0)))
                    sums[i].add(part.at[i]);
            if (!ADD) own_top = larger(part.at[OWN_TOP], own_top);
            mean_top = larger(part.at[MEAN_TOP], mean_top);
            least = smaller(part.at[LEAST_REGRET], least);
        }
        for (int i = ADD ? PATH : 0; i < N_QUANTITIES; i++) quantities.at[i] = sums[i].value();
        if (!ADD) quantities.at[OWN_TOP] = own_top;
        quantities.at[MEAN_TOP] = mean_top;
        quantities.at[LEAST_REGRET] = least;
    }

    template <bool WITH_LOG, bool SQUARED, Decision DECISION>
    INLINE void move_with(const Unit &unit, const RegretInputs &inputs, bool is_plain, bool needs_divergences, Quantities &quantities) {
        if constexpr (DECISION != REGRET)
            if (is_plain && can_drop_anchor(unit)) {
                drop_anchor(unit);
                return move<WITH_LOG, SQUARED, DECISION, NO_ANCHOR>(unit, inputs, quantities);
            }
        if (!is_plain) memset(state_.memory.has_zero_anchor + first_ + unit.lane, 0, INSTANCES_PER_UNIT);
        if (!is_plain) return move<WITH_LOG, SQUARED, DECISION, ANY_KEEP>(unit, inputs, quantities);
        if (needs_divergences) return move<WITH_LOG, SQUARED, DECISION, PLAIN_KEEP>(unit, inputs, quantities);
        move<WITH_LOG, SQUARED, DECISION, PLAIN>(unit, inputs, quantities);
    }

    static constexpr int INSTANCES_PER_UNIT = SIDE ? LANES<T> : 1;  // instances of a unit

    INLINE bool can_drop_anchor(const Unit &unit) const { return SIDE ? all(can_drop_anchor_) : can_drop_anchor_[unit.lane] != 0; }

    // Let the anchor be 0.
    INLINE void drop_anchor(const Unit &unit) const {
        const unsigned char *has_zero_anchor = state_.memory.has_zero_anchor + first_ + unit.lane;
        unsigned char all_are = 1;
        for (int i = 0; i < INSTANCES_PER_UNIT; i++) all_are &= has_zero_anchor[i];
        if (__builtin_expect(!all_are, false)) move_anchor(unit);
    }
    __attribute__((noinline)) void move_anchor(const Unit &unit) const {
        T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
        for (int r = 0; r < n_; r++) {
            store(deviations + r * step_, load<T>(anchors + r * step_) + load<T>(deviations + r * step_));
            store(anchors + r * step_, V<T>{});
        }
        memset(state_.memory.has_zero_anchor + first_ + unit.lane, 1, INSTANCES_PER_UNIT);
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
    template <bool WITH_LOG, bool SQUARED> static __attribute__((noinline)) Sums<T> sums_of(Row<T> row) {
        Bits<T> signs{};
        return sums_over_classes<T, WITH_LOG, SQUARED, false>(row, nullptr, V<T>{}, signs);
    }

    template <bool WITH_LOG, bool FROM_LOGITS, bool SQUARED, bool WITH_ZERO_ONE> INLINE void add_unit(const Unit &unit, Quantities &quantities) {
        constexpr bool OWN_LOG = WITH_LOG && !FROM_LOGITS;
        const bool needs_divergences = is_any(needs_divergences_, unit);
        bool is_plain = (is_whole_ || !SIDE) && !any(unit.is_heavier), needs_regrets = false;
        RegretInputs inputs{};
        if constexpr (WITH_ZERO_ONE) {
            needs_regrets = is_any(needs_regrets_, unit);
            inputs.is_lost = without_regrets(unit);
            if (!needs_regrets && !all(inputs.is_lost)) lose_regrets(unit);
        }
        if (WITH_ZERO_ONE && needs_regrets) {
            quantities.set_sums(sums_of<OWN_LOG, SQUARED>(unit.row));
            inputs.top = across_max<T, SIDE>(quantities.at[OWN_TOP]);
            if (any(inputs.is_lost)) {
                is_plain = false;
                inputs.average_top = of_unit(narrow(average_top_), unit);
            }
            move_with<false, SQUARED, REGRET>(unit, inputs, is_plain, needs_divergences, quantities);
        } else {
            move_with<OWN_LOG, SQUARED, WITH_ZERO_ONE ? TOP_ONLY : NONE>(unit, inputs, is_plain, needs_divergences, quantities);
        }
        if constexpr (WITH_LOG && FROM_LOGITS) {
            const V<T> negative = members_.negative(member_) * T(1 / LOG_UNIT<T>);
            quantities.at[OWN_NEGATIVE] = SIDE ? negative : (lane_numbers<T>() == 0 ? negative : V<T>{});
        }
        if (n_others_ == 0) return;
        const V<T> total = across_sum<T, SIDE>(quantities.at[OWN_TOTAL]), top = across_max<T, SIDE>(quantities.at[OWN_TOP]);
        for (int j = 0; j < n_others_; j++) {
            find_entropy(others_[j], unit, total, top);
            update_other(others_[j], unit);
        }
    }

    // -- EU of a group, one instance in each lane --------------------------------------------------------

    // Where members are far apart, EU is E max θ − max μ.
    INLINE void update_zero_one(const Quantities &quantities) {
        const Bits<T> has_regrets = SIDE && any(needs_regrets_) ? ~Bits<T>{} : needs_regrets_;
        const Wide<T> after = fma(widen(share_), widen(quantities.at[OWN_TOP]) - average_top_, average_top_);
        const V<T> difference = narrow(after - widen(quantities.at[MEAN_TOP])), bound = previous_share_ * epistemic_[Structure::ZERO_ONE];
        epistemic_[Structure::ZERO_ONE] = has_regrets ? quantities.at[LEAST_REGRET] : larger(difference, bound);
    }

    // EU is (1 − s)·EU₁ + s·(1 − s)·Σ(θ − μ₁)² for Brier. For spherical only the part of θ − μ₁ that
    // is not parallel to μ counts; where most of it is parallel it is summed class by class.
    INLINE void update_squares(const Quantities &quantities) {
        const V<T> distance = quantities.at[DISTANCE], both = share_ * previous_share_;
        if (wants(Structure::BRIER)) epistemic_[Structure::BRIER] = fma(both, distance, previous_share_ * epistemic_[Structure::BRIER]);
        if (!wants(Structure::SPHERICAL)) return;
        V<T> epistemic = previous_share_ * epistemic_[Structure::SPHERICAL];
        if (any(both > 0)) {
            const V<T> along = quantities.at[ALONG], squares = quantities.at[MEAN_SQUARES];
            const V<T> parallel = along / squares, norm = sqrt(squares);
            V<T> across = distance - along * parallel;
            const Bits<T> is_parallel = is_there_ & (across < distance * T(0.1));
            if (any(is_parallel)) across = distance_across(is_parallel, across, parallel);
            // D(μ, μ + t·(θ − μ₁)) without the factor t²
            auto divergence = [&](V<T> t) __attribute__((always_inline)) {
                const V<T> end = sqrt(at_least_zero(fma(t * t, distance, fma(t + t, along, squares))));
                return across / (end + norm * fma(t, parallel, fill<T>(1)));
            };
            const V<T> divergences = previous_share_ * divergence(previous_share_) + share_ * divergence(-share_);
            epistemic = both > 0 ? fma(both, divergences, epistemic) : epistemic;
        }
        epistemic_[Structure::SPHERICAL] = epistemic;
    }

    // Σ(θ − μ₁ − t·μ)². As θ − μ is (1 − s)·(θ − μ₁), both follow from the state.
    __attribute__((noinline)) V<T> distance_across(Bits<T> wanted, V<T> other, V<T> t) {
        return sum_of_units(wanted, other, [&](int lane) __attribute__((always_inline)) {
            if (!SIDE) members_.locate(first_ + lane - state_.offset, 1);
            const Unit unit = unit_at(lane);
            const T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
            const V<T> scale = T(1) / unit.previous_share, own_t = of_unit(t, unit);
            return sum_in_lanes([&](int r, V<T> sum) __attribute__((always_inline)) {
                const V<T> anchor = load<T>(anchors + r * step_), shift = load<T>(deviations + r * step_);
                const V<T> d = ((unit.row[r] - anchor) - shift) * scale - at_least_zero(anchor + shift) * own_t;
                return fma(d, d, sum);
            });
        });
    }

    // By Pinsker's inequality D(p, q) is at least ½(Σ|p − q|)², and so
    //   EU ≥ (1 − s)·EU₁ + ½·s·(1 − s)·(Σ|θ − μ₁|)².
    // A little less is taken, as sums are not exactly 1.
    INLINE void update_log(const Quantities &quantities) {
        const V<T> path = quantities.at[PATH], more = share_ * previous_share_ * path * path * T(0.48);
        const V<T> bound = fma(previous_share_, epistemic_[Structure::LOG], more);
        const Bits<T> needs_divergences = log_needs_divergences_ & ~(bound > log_threshold_);
        if (any(needs_divergences)) update_near_log(needs_divergences, bound, more, quantities.at[OWN_NEGATIVE]);
        else epistemic_[Structure::LOG] = bound;
    }

    __attribute__((noinline)) void update_near_log(Bits<T> needs_divergences, V<T> bound, V<T> more, V<T> negative) {
        const Bits<T> may_be_far = needs_divergences & (bound > log_threshold_ * T(0.25));
        if (any(may_be_far)) {  // a difference costs less than two divergences
            const Wide<T> after = fma(widen(share_), widen(negative * T(LOG_UNIT<T>)) - log_convex_, log_convex_);
            // side by side those of other lanes too, which need it soon
            const Bits<T> lanes = SIDE ? both_ & (may_be_far | (bound > log_threshold_)) : may_be_far;
            const V<T> difference = narrow(after - widen(negative_of(lanes, &ClassValues::mean)));
            bound = (lanes & (difference > log_threshold_)) ? larger(difference, bound) : bound;
            needs_divergences &= ~(bound > log_threshold_);
        }
        V<T> before = epistemic_[Structure::LOG];
        const Bits<T> was_far = needs_divergences & (before > log_threshold_);
        if (any(was_far)) {  // until now there was only a bound
            const V<T> difference = narrow(log_convex_ - widen(negative_of(was_far, &ClassValues::old_mean)));
            before = was_far ? larger(difference, before) : before;
            bound = was_far ? fma(previous_share_, before, more) : bound;
            needs_divergences &= ~(bound > log_threshold_);
        }
        V<T> epistemic = bound;
        if (any(needs_divergences)) {
            const V<T> divergences = sum_of_units(needs_divergences, V<T>{}, [&](int lane) __attribute__((always_inline)) {
                const ClassValues *values = class_values_ + lane * n_;
                const V<T> share = SIDE ? share_ : fill<T>(share_[lane]);
                const V<T> previous_share = SIDE ? previous_share_ : fill<T>(previous_share_[lane]);
                return sum_in_lanes([&](int r, V<T> sum) __attribute__((always_inline)) {
                    const ClassValues k = values[r];
                    sum = fma(share, relative_entropy<T>(k.mean, k.own, previous_share * k.change), sum);
                    return fma(previous_share, relative_entropy<T>(k.mean, k.old_mean, -(share * k.change)), sum);
                });
            });
            epistemic = needs_divergences ? previous_share_ * before + divergences : epistemic;
        }
        epistemic_[Structure::LOG] = epistemic;
    }

    // What `sum` finds in the lanes of each unit, combined; `other` where it is not wanted.
    template <class Sum> INLINE V<T> sum_of_units(Bits<T> wanted, V<T> other, Sum sum) {
        if constexpr (SIDE) {
            return wanted ? sum(0) : other;
        } else {
            V<T> sums[LANES<T>];
            for (int lane = 0; lane < LANES<T>; lane++) sums[lane] = wanted[lane] != 0 ? sum(lane) : V<T>{};
            return wanted ? combine_each<T>(sums, Add{}) : other;
        }
    }
    // As R::sum_over_classes, but lanes are not combined.
    template <class Term> INLINE V<T> sum_in_lanes(Term term) const {
        Wide<T> sum{};
        for (int start = 0; start < n_; start += BLOCK) {
            V<T> part{};
            for (int r = start; r < n_ && r < start + BLOCK; r++) part = term(r, part);
            if (n_ <= BLOCK) return part;
            sum = sum + widen(part);
        }
        return narrow(sum);
    }
    // Σμ·log μ of one of the means that were kept.
    V<T> negative_of(Bits<T> wanted, V<T> ClassValues::*mean) {
        return sum_of_units(wanted, V<T>{}, [&](int lane) __attribute__((always_inline)) {
            return sums_of<true, false>(row_of(lane, mean)).negative * T(LOG_UNIT<T>);
        });
    }
    Row<T> row_of(int lane, V<T> ClassValues::*numbers) const {
        const char *base = reinterpret_cast<const char *>(&(class_values_[lane * n_].*numbers));
        return {base, sizeof(ClassValues), base + (n_ - 1) * ptrdiff_t(sizeof(ClassValues)), n_, address_of(base), false};
    }

    void find_entropy(Other &other, const Unit &unit, V<T> total, V<T> top) {
        const Entropy<T> h = R::entropy(other.rule, unit.row, Sums<T>{total, V<T>{}, V<T>{}, V<T>{}, top});
        put(other.entropy.value, unit, h.value);
        put(other.entropy.convex, unit, h.convex);
    }

    void update_other(Other &other, const Unit &unit) {
        if (R::has_regrets(other.rule)) return add_regrets(other, unit);
        const V<T> previous_share = unit.previous_share;
        Bits<T> needs_divergences = of_unit(other.needs_divergences, unit), is_bound = of_unit(other.is_bound, unit);
        const Bits<T> both = of_unit(both_, unit), was_bound = needs_divergences & is_bound;
        V<T> before = of_unit(other.epistemic, unit);
        if (any(was_bound)) {
            const Row<T> old_mean = row_of(unit.lane, &ClassValues::old_mean);
            const Entropy<T> h = R::entropy(other.rule, old_mean, combined_sums(old_mean));
            const V<T> average = of_unit(narrow(load_wide(convex(other.convex)) - widen(h.convex)), unit);
            before = is_bound ? larger(average, before) : before;  // of other lanes too, which need it soon
            needs_divergences &= ~(previous_share * before > of_unit(other.limit, unit));
        }
        V<T> epistemic = previous_share * before;
        if (any(needs_divergences)) {
            const V<T> divergences = divergences_from_mean(other, unit);
            epistemic = needs_divergences ? epistemic + at_least_zero(divergences) : epistemic;
        }
        is_bound = ((both & ~needs_divergences) | (~both & is_bound)) & (epistemic > 0);
        if (other.convex >= 0) epistemic = is_bound ? -epistemic : epistemic;
        put(other.epistemic, unit, epistemic);
    }

    // s·D(μ, θ) + (1 − s)·D(μ, μ₁), with θ = μ + (1 − s)·(θ − μ₁) and μ₁ = μ − s·(θ − μ₁).
    V<T> divergences_from_mean(const Other &other, const Unit &unit) {
        const V<T> share = unit.share, previous_share = unit.previous_share;
        const Row<T> mean = row_of(unit.lane, &ClassValues::mean), old_mean = row_of(unit.lane, &ClassValues::old_mean);
        const Row<T> change = row_of(unit.lane, &ClassValues::change);
        if (is_quadratic(other)) return share * previous_share * R::divergence(other.rule, mean, unit.row, change);
        if (R::has_tangent(other.rule)) {
            Tangent<T> &tangent = *other.rule.tangent;
            tangent.is_current = false;
            R::find_tangent(other.rule, mean);
            auto relative = [&](int r) __attribute__((always_inline)) { return change[r] * tangent.inverse[r]; };
            V<T> of_member, of_others;
            if (R::divergence_from_mean(other.rule, n_, previous_share, relative, of_member) &&
                R::divergence_from_mean(other.rule, n_, -share, relative, of_others))
                return share * of_member + previous_share * of_others;
        }
        for (int r = 0; r < n_; r++) scaled_[r] = previous_share * change[r];
        const V<T> of_member = R::divergence(other.rule, mean, unit.row, Row<T>::of(scaled_, n_));
        for (int r = 0; r < n_; r++) scaled_[r] = -(share * change[r]);
        return share * of_member + previous_share * R::divergence(other.rule, mean, old_mean, Row<T>::of(scaled_, n_));
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
            other.rule.sums[i] = unit.previous_share * load<T>(regret_at(state_.memory, other, unit.regret, i));
        R::add_regrets(other.rule, unit.row, unit.share);
        for (int i = 0; i < n_regrets; i++)
            keep<false>(regret_at(state_.memory, other, unit.regret, i), other.rule.sums[i]);
    }

    template <bool WITH_LOG, bool SQUARED> INLINE void write(const Sums<T> &s) {
        const Values<T> v = values_of<T, WITH_LOG, SQUARED>(s);
        if (wants(Structure::ZERO_ONE)) {
            average(place_[Structure::ZERO_ONE], v.at[MISS]);
            average_convex(top_place_, v.at[TOP]);
            write_epistemic(place_[Structure::ZERO_ONE], epistemic_[Structure::ZERO_ONE]);
        }
        if constexpr (WITH_LOG) {
            average(place_[Structure::LOG], v.at[SURPRISE]);
            average_convex(log_place_, v.at[NEGATIVE]);
            write_epistemic(place_[Structure::LOG], epistemic_[Structure::LOG]);
        }
        if constexpr (SQUARED) {
            if (wants(Structure::BRIER)) {
                average(place_[Structure::BRIER], v.at[GINI]);
                write_epistemic(place_[Structure::BRIER], epistemic_[Structure::BRIER]);
            }
            if (wants(Structure::SPHERICAL)) {
                average(place_[Structure::SPHERICAL], v.at[GAP]);
                write_epistemic(place_[Structure::SPHERICAL], epistemic_[Structure::SPHERICAL]);
            }
        }
        for (int j = 0; j < n_others_; j++) {
            const Other &other = others_[j];
            average(other.place, other.entropy.value);
            if (other.convex >= 0) average_convex(other.convex, other.entropy.convex);
            write_epistemic(other.place, other.epistemic);
        }
    }
    INLINE void average(int place, V<T> entropy) {
        const V<T> before = load<T>(aleatoric(place));
        // not before + share·(entropy − before), which has the errors of a light member's large entropy
        write_there(aleatoric(place), fma(share_, entropy, previous_share_ * before));
    }
    // In float64: EU is a small difference, in which the rounding errors of many members would count.
    INLINE void average_convex(int place, V<T> value) {
        const Wide<T> before = load_wide(convex(place));
        const Wide<T> after = fma(widen(share_), widen(value) - before, before);
        double *to = convex(place);
        if (is_whole_) return store(to, after);
        for (int lane = 0; lane < LANES<T>; lane++)
            if (is_there_[lane]) memcpy(to + lane, reinterpret_cast<const double *>(&after) + lane, sizeof *to);
    }
    INLINE void write_epistemic(int place, V<T> value) {
        write_there(epistemic(place), value);
    }
    INLINE void write_there(T *to, V<T> value) { store(to, is_whole_ ? value : is_there_ ? value : load<T>(to)); }

    // -- totals and EU of the members so far -------------------------------------------------------------

    void update_results_of_group(ptrdiff_t first) {
        go_to(first);
        for (int lane = 0; lane < (SIDE ? 1 : LANES<T>); lane++) {
            const Unit unit = {lane, Row<T>::of(mean_, n_), place_of(first + lane, row_length_),
                               place_of(first + lane, state_.n_regrets), V<T>{}, V<T>{}, Bits<T>{}};
            const T *anchors = classes(state_.memory.anchor) + unit.at, *deviations = classes(state_.memory.deviation) + unit.at;
            for (int r = 0; r < n_; r++)
                mean_[r] = at_least_zero(load<T>(anchors + r * step_) + load<T>(deviations + r * step_));
            update_results_of_unit(unit);
        }
    }

    void update_results_of_unit(const Unit &unit) {
        Sums<T> s = sums_of<true, true>(unit.row);
        s = {across_sum<T, SIDE>(s.total), across_sum<T, SIDE>(s.squares), across_sum<T, SIDE>(s.doubt),
             across_sum<T, SIDE>(s.negative), across_max<T, SIDE>(s.top)};
        const Values<T> v = values_of<T, true, true>(s);
        const V<T> nan_if_unchecked = s.total - s.total;  // 0, or NaN where a member that was not checked is NaN
        if (wants(Structure::LOG)) {
            write_total(place_[Structure::LOG], unit, v.at[SURPRISE]);
            update_difference(place_[Structure::LOG], log_place_, unit, log_threshold_, v.at[NEGATIVE], nan_if_unchecked);
        }
        if (wants(Structure::BRIER)) write_total(place_[Structure::BRIER], unit, v.at[GINI]);
        if (wants(Structure::SPHERICAL)) write_total(place_[Structure::SPHERICAL], unit, v.at[GAP]);
        if (wants(Structure::ZERO_ONE)) {
            write_total(place_[Structure::ZERO_ONE], unit, v.at[MISS]);
            update_regrets(unit, s.top, nan_if_unchecked);
        }
        for (int j = 0; j < n_others_; j++) {
            const Other &other = others_[j];
            const Entropy<T> h = R::entropy(other.rule, unit.row, s);
            write_total(other.place, unit, h.value);
            if (R::has_regrets(other.rule)) {
                const int n_regrets = R::n_regrets(other.rule, n_);
                for (int i = 0; i < n_regrets; i++) other.rule.sums[i] = load<T>(regret_at(state_.memory, other, unit.regret, i));
                write_epistemic(other.place, unit, R::least_regret(other.rule, n_) + nan_if_unchecked);
            } else if (other.convex < 0) {
                const V<T> own = of_unit(load<T>(epistemic(other.place)), unit);
                write_epistemic(other.place, unit, own + nan_if_unchecked);
            } else {
                update_bound(other, unit, h.convex, nan_if_unchecked);
            }
        }
    }

    // EU of zero-one from regrets, or the regrets where they were not kept.
    void update_regrets(const Unit &unit, V<T> top, V<T> nan_if_unchecked) {
        T *regrets = regrets_at(unit), *own_epistemic = epistemic(place_[Structure::ZERO_ONE]);
        V<T> own = of_unit(load<T>(own_epistemic), unit);
        if (state_.wanted == CONVEX) {
            own = load<T>(regrets);
            for (int r = 1; r < n_; r++) own = smaller(load<T>(regrets + r * step_), own);
            own = across_min<T, SIDE>(own);
            write_convex(top_place_, unit, widen(own) + widen(top));
        }
        const Bits<T> is_lost = without_regrets(unit);
        if (state_.wanted == REGRETS && any(is_lost)) {
            const V<T> average_top = of_unit(narrow(load_wide(convex(top_place_))), unit);
            for (int r = 0; r < n_; r++) {
                T *regret = regrets + r * step_;
                store(regret, is_lost ? average_top - mean_[r] : load<T>(regret));
            }
        }
        write_lanes(own_epistemic, unit, own + nan_if_unchecked);
    }
    void write_convex(int place, const Unit &unit, Wide<T> value) {
        for (int lane = 0; lane < LANES<T>; lane++)
            if (SIDE || lane == unit.lane)
                memcpy(convex(place) + lane, reinterpret_cast<const double *>(&value) + lane, sizeof(double));
    }

    // EU from the mean convex function where there was only a bound; or that function from EU.
    void update_difference(int place, int convex_place, const Unit &unit, T threshold, V<T> of_mean, V<T> nan_if_unchecked) {
        const V<T> before = load<T>(epistemic(place));
        const Wide<T> average = load_wide(convex(convex_place));
        if (state_.wanted == CONVEX) return write_convex(convex_place, unit, widen(before) + widen(of_mean));
        const V<T> difference = narrow(average - widen(of_mean));
        write_epistemic(place, unit, (before > threshold ? larger(difference, before) : before) + nan_if_unchecked);
    }
    void update_bound(const Other &other, const Unit &unit, V<T> of_mean, V<T> nan_if_unchecked) {
        const V<T> stored = load<T>(epistemic(other.place));
        if (state_.wanted == CONVEX) return write_convex(other.convex, unit, widen(stored) + widen(of_mean));
        const V<T> difference = narrow(load_wide(convex(other.convex)) - widen(of_mean));
        write_epistemic(other.place, unit, (stored < 0 ? larger(difference, -stored) : stored) + nan_if_unchecked);
    }
    void write_epistemic(int place, const Unit &unit, V<T> value) {
        write_lanes(epistemic(place), unit, value);
    }
    void write_total(int place, const Unit &unit, V<T> value) {
        write_lanes(reinterpret_cast<T *>(job_.results + place * job_.part_stride) + first_, unit, value);
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
    OfFirstFour<int> place_ = {{-1, -1, -1, -1}};  // in the list of rules
    ptrdiff_t first_regret_ = 0;
    int n_convex_, log_place_ = 0, top_place_ = 0;  // the mean convex parts, and two of them: of log, and E max θ
    int n_others_ = 0;
    Other *others_;
    V<T> *mean_, *scaled_;
    ClassValues *class_values_;                      // of each unit
    V<T> parts_[N_QUANTITIES][LANES<T>];  // quantities in the lanes of each unit
    T log_threshold_;
    ptrdiff_t first_ = 0;   // instance of the group
    ptrdiff_t member_ = 0;  // that is added
    T *aleatoric_, *epistemics_;  // of the group, under the first rule
    double *convexes_;
    V<T> share_, previous_share_;
    OfFirstFour<V<T>> epistemic_;
    Wide<T> log_convex_;
    Bits<T> is_there_, both_, is_heavier_, needs_divergences_, log_needs_divergences_, can_drop_anchor_;
    Wide<T> average_top_;
    Bits<T> needs_regrets_;
    bool has_shares_ = false;
    bool is_whole_ = false;  // whether all lanes are instances of the member
};

// Add members, one after the other, to the instances from `start` to `stop`.
template <class T> Status accumulate(const Job &job, const State &state) {
    try {
        Arena arena;
        if (state.is_side_by_side) return Accumulation<T, true>(job, state, arena).add_members();
        return Accumulation<T, false>(job, state, arena).add_members();
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

// Write the totals of the instances from `start` to `stop`, and bring their EU up to date.
template <class T> Status update_results(const Job &job, const State &state) {
    try {
        Arena arena;
        if (state.is_side_by_side) return Accumulation<T, true>(job, state, arena).update_results();
        return Accumulation<T, false>(job, state, arena).update_results();
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    }
}

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
