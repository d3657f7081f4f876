// Members as the kernel reads them: vectors of probabilities, from any layout.
//
// A vector holds one class of as many instances as it has lanes (*side by side*, for few classes),
// or as many classes of one instance (*across*). Loops over the vectors of a member are the same
// for both; only what they gathered in lanes must then be combined across the lanes of the instance.
#pragma once

#include <cstdlib>
#include <new>

#include "dispatch.hpp"
#include "functions.hpp"

namespace scorewise {
namespace SCOREWISE_ISA {

constexpr int AHEAD = 4096;            // bytes that are fetched before they are read
constexpr int AHEAD_OF_ROWS = 1024;    // the same where the rows of a member lie one after the other
constexpr int MOST_DEINTERLEAVED = 8;  // classes; a transposition is cheaper for more of them
constexpr int STAGE_BYTES = 1 << 18;   // copies of members that stay in a cache
constexpr int FIRST_CACHE = 1 << 15;   // bytes of the smallest cache

// Memory that is aligned to vectors, and freed together.
class Arena {
  public:
    Arena() = default;
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    ~Arena() {
        while (blocks_ != nullptr) {
            void *block = blocks_;
            memcpy(&blocks_, block, sizeof blocks_);
            free(block);
        }
    }

    // Room for `count` items, without values.
    template <class Item> Item *take(ptrdiff_t count) {
        constexpr size_t header = sizeof(void *) + BYTES;
        char *block = static_cast<char *>(malloc(header + size_t(count) * sizeof(Item)));
        if (block == nullptr) throw std::bad_alloc();
        memcpy(block, &blocks_, sizeof blocks_);
        blocks_ = block;
        return reinterpret_cast<Item *>((reinterpret_cast<uintptr_t>(block) + header - 1) / BYTES * BYTES);
    }

  private:
    void *blocks_ = nullptr;
};

// Fetch what is read, or written, soon. It may be beyond the end of the array, where no pointer may point: addresses to
// be fetched are computed as numbers.
INLINE uintptr_t address_of(const void *place) { return reinterpret_cast<uintptr_t>(place); }
template <int TO_WRITE = 0, int LOCALITY = 3> INLINE void prefetch_from(uintptr_t address) {
    __builtin_prefetch(reinterpret_cast<const void *>(address), TO_WRITE, LOCALITY);
}

// The vectors of one member: `step` bytes apart, the last one anywhere.
template <class T> struct Row {
    const char *base;
    ptrdiff_t step;
    const char *last;
    int n;
    uintptr_t fetched;     // address of what is worth fetching meanwhile, vectors as far apart; the base if nothing is
    bool to_second_cache;  // whether so much is read before it that the first cache would lose it

    INLINE V<T> operator[](int r) const { return load<T>(r == n - 1 ? last : base + r * step); }
    INLINE void prefetch(int r) const {
        if (to_second_cache) prefetch_from<0, 2>(fetched + r * step);
        else prefetch_from(fetched + r * step);
    }

    static Row of(const V<T> *vectors, int n, uintptr_t fetched = 0, bool to_second_cache = false) {
        const char *base = reinterpret_cast<const char *>(vectors);
        return {base, BYTES, base + ptrdiff_t(n - 1) * BYTES, n, fetched == 0 ? address_of(base) : fetched, to_second_cache};
    }
};

// Combine the lanes of an instance; nothing to do where each lane has an instance of its own.
template <class T, bool SIDE> INLINE V<T> across_sum(V<T> v) {
    return SIDE ? v : combine_lanes<T>(v, Add{});
}
template <class T, bool SIDE> INLINE V<T> across_max(V<T> v) {
    return SIDE ? v : combine_lanes<T>(v, Larger{});
}
template <class T, bool SIDE> INLINE V<T> across_min(V<T> v) {
    return SIDE ? v : combine_lanes<T>(v, Smaller{});
}

// Fetch rows that are read soon after an instance. Rows of one member are often far apart, and the
// processor does not foresee them.
template <class T> INLINE void fetch_rows(const Job &job, ptrdiff_t instance) {
    const ptrdiff_t length = job.n_classes * ptrdiff_t(sizeof(T));
    if (job.class_stride != ptrdiff_t(sizeof(T)) || job.instance_stride == length) return;
    const ptrdiff_t ahead = (length > 256 ? 32 : 96) * job.instance_stride;
    for (int lane = 0; lane < LANES<T>; lane++) {
        const uintptr_t row = address_of(job.members) + (instance + lane) * job.instance_stride + ahead;
        for (ptrdiff_t i = 0; i < length; i += 64) prefetch_from<0, 2>(row + i);
        prefetch_from<0, 2>(row + length - 1);
    }
}

// Whether what instances side by side have in memory is one run, as in (N, M, K), or one for each member,
// as in (M, N, K).
template <class T> bool is_in_runs(const Job &job) {
    const ptrdiff_t row = job.n_classes * ptrdiff_t(sizeof(T));
    if (job.class_stride != ptrdiff_t(sizeof(T))) return false;
    return job.instance_stride == row || (job.member_stride == row && job.instance_stride == job.n_members * row);
}

// Up to so many classes instances are side by side (measured): probabilities under the first four
// rules alone, and what combines lanes more often, which is logits and, most of all, other rules and
// extras. With more classes too if a cache has all members of a group, and they are fetched in time;
// not with the narrowest vectors, of which a transposition has more than it saves.
constexpr ptrdiff_t FEW_CLASSES = 48, FEW_CLASSES_OF_LOGITS = 160, FEW_CLASSES_OF_MORE_WORK = 400;
constexpr ptrdiff_t SMALL_GROUP = BYTES > 16 ? 200 << 10 : 0;

template <class T> bool is_side_by_side(const Job &job) {
    ptrdiff_t few = job.kind == LOGITS ? FEW_CLASSES_OF_LOGITS : FEW_CLASSES;
    if (job.extras != 0) few = FEW_CLASSES_OF_MORE_WORK;
    for (int i = 0; i < job.n_rules; i++) {
        if (job.rules[i].structure >= Structure::COSTS) return true;  // which need classes in their order
        if (job.rules[i].structure >= Structure::SEPARABLE) few = FEW_CLASSES_OF_MORE_WORK;
    }
    if (job.class_stride != ptrdiff_t(sizeof(T))) return true;
    if (is_in_runs<T>(job) && job.n_members * job.n_classes * BYTES <= SMALL_GROUP) few = FEW_CLASSES_OF_MORE_WORK;
    return job.n_classes <= few && 2 * job.n_instances * (1 + job.n_classes / LANES<T>) > job.n_classes;
}

// Which memory is fetched while a loop goes over the vectors of a member: what is read soon.
// Across, it is a later row, which may be one of the next instance. Side by side, what has the place of the
// member's vectors in the memory of the next group, so that each part of it is fetched once.
template <class T, bool SIDE> struct PrefetchPlan {
    ptrdiff_t ahead, stride;           // in bytes, from the first row of a group and from one member to the next
    ptrdiff_t first_of_next_instance;  // from this member on, what is fetched are rows of the next instance
    ptrdiff_t bytes_to_next_instance;  // by which these are farther away
    bool to_second_cache;              // whether so much is read before that the first cache would lose it

    explicit PrefetchPlan(const Job &job) : stride(job.member_stride), first_of_next_instance(job.n_members), bytes_to_next_instance(0) {
        const ptrdiff_t row = job.n_classes * ptrdiff_t(sizeof(T)), group = LANES<T> * job.instance_stride;
        if (!SIDE) {
            const ptrdiff_t rows = 1 + AHEAD / row, members = rows % job.n_members;
            ahead = rows / job.n_members * job.instance_stride + members * job.member_stride;
            first_of_next_instance -= members;
            bytes_to_next_instance = job.instance_stride - job.n_members * job.member_stride;
            to_second_cache = false;
        } else if (job.instance_stride == row) {  // a run for each member
            ahead = group > AHEAD_OF_ROWS ? group : AHEAD_OF_ROWS;
            to_second_cache = false;
        } else {
            ahead = group;
            stride = LANES<T> * row;
            to_second_cache = job.n_members * stride > FIRST_CACHE / 2;
        }
    }
    // What is fetched in the loop over member m of a group.
    INLINE uintptr_t address_for(const char *first_row, ptrdiff_t m) const {
        return address_of(first_row) + ahead + m * stride + (m < first_of_next_instance ? 0 : bytes_to_next_instance);
    }
};

template <class T, bool SIDE> class Members {
  public:
    static constexpr int GROUP = SIDE ? LANES<T> : 1;  // instances at a time
    const int n;                                       // vectors of a member

    // If loops over a member's vectors fetch later ones, copying them need not, and memory is read while
    // the processor computes.
    Members(const Job &job, Arena &arena, bool loops_fetch = false)
        : n(int(SIDE ? job.n_classes : (job.n_classes + LANES<T> - 1) / LANES<T>)), job_(job), prefetch_plan_(job) {
        const ptrdiff_t apart = job.member_stride / ptrdiff_t(sizeof(T));
        is_run_ = SIDE && job.n_members > 1 && is_run(apart) && job.n_members * apart * BYTES <= STAGE_BYTES;
        distance_ = is_run_ ? apart : n;
        loops_fetch_ = loops_fetch && (!SIDE || is_in_runs<T>(job));
        capacity_ = job.n_members * distance_ * BYTES <= STAGE_BYTES ? job.n_members : 1;
        stage_ = arena.take<V<T>>(capacity_ * distance_ + LANES<T>);  // a transposition may write beyond
        tail_ = arena.take<V<T>>(1);
        negatives_ = arena.take<V<T>>(job.n_members);
        is_ready_ = arena.take<char>(job.n_members);
        shared_weights_ = arena.take<T>(job.n_members + LANES<T>);
        for (ptrdiff_t m = 0; m < job.n_members + LANES<T>; m++) {
            T w = job.weights == nullptr ? T(1) / T(job.n_members) : T(0);
            if (m >= job.n_members) w = 0;
            else if (job.weights != nullptr && job.weight_instance_stride == 0) w = weight_of(0, m);
            shared_weights_[m] = w;
        }
        has_weightless_ = has_weightless_members();
        in_place_ = job.kind == PROBABILITIES && !has_weightless_ &&
                    (!SIDE || job.instance_stride == ptrdiff_t(sizeof(T)));
        const ptrdiff_t strides[] = {job.instance_stride, job.member_stride, job.class_stride};
        const ptrdiff_t sizes[] = {job.n_instances, job.n_members, job.n_classes};
        end_ = job.members + sizeof(T);
        for (int i = 0; i < 3; i++) end_ += strides[i] > 0 ? (sizes[i] - 1) * strides[i] : 0;
    }

    // Go to the instances from `first` on, in the lanes from `skip` on; others repeat the nearest.
    void locate(ptrdiff_t first, int count, int skip = 0) {
        bad = Bits<T>{};
        if (count == GROUP) {
            const char *start = job_.members + first * job_.instance_stride;
            for (int lane = 0; lane < GROUP; lane++) {
                instance_[lane] = first + lane;
                address_[lane] = start + lane * job_.instance_stride;
            }
            highest_ = address_[job_.instance_stride > 0 ? GROUP - 1 : 0];
        } else {
            locate_some(first, count, skip);
        }
        is_full_ = count == GROUP;
        use_in_place_ = in_place_ && is_full_;
        is_transposed_ = false;
        if (job_.n_members == 1) *is_ready_ = 0;
        else memset(is_ready_, 0, job_.n_members);
        if (SIDE && !use_in_place_ && is_run_) transpose_all();
    }

    // The probabilities of a member. Lanes without a class are 0.
    INLINE Row<T> row(ptrdiff_t m) {
        if (use_in_place_) return in_place(m);
        V<T> *copy = stage_ + (capacity_ > 1 ? m : 0) * distance_;
        if (!is_ready_[m]) {
            prepare(m, copy);
            is_ready_[m] = capacity_ == job_.n_members;
        }
        // Across, later logits are fetched where members become probabilities, which takes longest.
        const bool fetches = loops_fetch_ && (SIDE || job_.kind != LOGITS);
        return Row<T>::of(copy, n, fetches ? prefetch_plan_.address_for(address_[0], m) : 0, prefetch_plan_.to_second_cache);
    }

    // Σ p·log p of a member from logits, whose row was read.
    V<T> negative(ptrdiff_t m) const { return negatives_[m]; }

    // The weight of a member.
    INLINE V<T> weight(ptrdiff_t m) const {
        if (job_.weight_instance_stride == 0) return fill<T>(shared_weights_[m]);
        if (!SIDE) return fill<T>(weight_of(instance_[0], m));
        V<T> w{};
        for (int lane = 0; lane < GROUP; lane++) w[lane] = weight_of(instance_[lane], m);
        return w;
    }

    // The weights of members from `m` on, one in each lane; 0 beyond the last.
    INLINE V<T> weights_from(ptrdiff_t m) const {
        if (job_.weight_instance_stride == 0) return load<T>(shared_weights_ + m);
        V<T> w{};
        for (int lane = 0; lane < LANES<T> && m + lane < job_.n_members; lane++)
            w[lane] = weight_of(instance_[0], m + lane);
        return w;
    }

    // Copy the heaviest member of each instance.
    void copy_heaviest(V<T> *anchor) {
        ptrdiff_t heaviest[GROUP];
        bool shared = true;
        for (int lane = 0; lane < GROUP; lane++) {
            heaviest[lane] = lane > 0 && job_.weight_instance_stride == 0 ? heaviest[0] : heaviest_of(instance_[lane]);
            shared &= heaviest[lane] == heaviest[0];
        }
        Row<T> first = row(heaviest[0]);
        for (int r = 0; r < n; r++) anchor[r] = first[r];
        for (int lane = 1; lane < GROUP && !shared; lane++) {
            Row<T> own = row(heaviest[lane]);
            for (int r = 0; r < n; r++) anchor[r][lane] = own[r][lane];
        }
    }

    bool is_within(const char *start, ptrdiff_t length) const { return start + length <= end_; }

    // Whether a member's rows of a few classes lie one after the other, as in (M, N, K).
    bool are_rows_next_to_each_other() const {
        return n <= MOST_DEINTERLEAVED && job_.class_stride == ptrdiff_t(sizeof(T)) &&
               job_.instance_stride == n * ptrdiff_t(sizeof(T));
    }

    // A vector that may reach beyond the end of the array; lanes there are arbitrary.
    INLINE V<T> load_within(const char *place) const {
        if (__builtin_expect(place + BYTES <= end_, true)) return load<T>(place);
        V<T> v{};
        memcpy(&v, place, end_ - place);
        return v;
    }

    // Which lanes had logits or masses that cannot be probabilities.
    Bits<T> bad;

  private:
    __attribute__((noinline)) void locate_some(ptrdiff_t first, int count, int skip) {
        highest_ = job_.members;
        for (int lane = 0; lane < GROUP; lane++) {
            const int place = lane < skip ? 0 : lane - skip;
            instance_[lane] = first + (place < count ? place : count - 1);
            address_[lane] = job_.members + instance_[lane] * job_.instance_stride;
            highest_ = address_[lane] > highest_ ? address_[lane] : highest_;
        }
    }

    T weight_of(ptrdiff_t instance, ptrdiff_t m) const {
        T w;
        memcpy(&w, job_.weights + instance * job_.weight_instance_stride + m * job_.weight_member_stride, sizeof w);
        return w;
    }

    ptrdiff_t heaviest_of(ptrdiff_t instance) const {
        ptrdiff_t heaviest = 0;
        for (ptrdiff_t m = 1; job_.weights != nullptr && m < job_.n_members; m++)
            if (weight_of(instance, m) > weight_of(instance, heaviest)) heaviest = m;
        return heaviest;
    }

    const char *address(int lane, ptrdiff_t m) const {
        return address_[lane] + m * job_.member_stride;
    }

    // A member where it is in memory, with a filler in lanes without a class.
    INLINE Row<T> in_place(ptrdiff_t m, double filler = 0) {
        const char *start = address(0, m);
        if (SIDE) return {start, job_.class_stride, start + (n - 1) * job_.class_stride, n, address_of(start) + AHEAD, false};
        const char *last = start + ptrdiff_t(n - 1) * BYTES;
        const uintptr_t fetched = prefetch_plan_.address_for(address_[0], m);
        if (job_.n_classes % LANES<T> == 0) return {start, BYTES, last, n, fetched, false};
        *tail_ = load_tail(last, filler);
        return {start, BYTES, reinterpret_cast<const char *>(tail_), n, fetched, false};
    }

    // The last classes of a row.
    INLINE V<T> load_tail(const char *place, double filler) const {
        const int n_last = int(job_.n_classes - ptrdiff_t(n - 1) * LANES<T>);
        return lane_numbers<T>() < n_last ? load_within(place) : fill<T>(filler);
    }

    // Whether the members of an instance, each `apart` numbers after the one before, are transposed as one run,
    // together with what is between them. This pays if that is no more than what would fill up the last block
    // of each member, transposed alone.
    bool is_run(ptrdiff_t apart) const {
        return job_.class_stride == ptrdiff_t(sizeof(T)) && job_.member_stride == apart * ptrdiff_t(sizeof(T)) &&
               apart >= n && apart <= (n + LANES<T> - 1) / LANES<T> * LANES<T>;
    }

    // Write numbers of each lane's instance as vectors, one for each number.
    INLINE void transpose_block(ptrdiff_t offset, V<T> *to, int count) {
        V<T> block[LANES<T>];
        if (__builtin_expect(highest_ + offset + BYTES <= end_, true)) {
            const ptrdiff_t next_group = offset + LANES<T> * job_.instance_stride;
            for (int lane = 0; lane < LANES<T>; lane++) {
                block[lane] = load<T>(address_[lane] + offset);
                if (!loops_fetch_) prefetch_from(address_of(address_[lane]) + next_group);
            }
        } else {
            for (int lane = 0; lane < LANES<T>; lane++) block[lane] = load_within(address_[lane] + offset);
        }
        transpose<T>(block);
        for (int j = 0; j < count; j++) to[j] = block[j];
    }

    void transpose_run(ptrdiff_t offset, ptrdiff_t count, V<T> *to) {
        ptrdiff_t i = 0;
        for (; i + LANES<T> <= count; i += LANES<T>)
            transpose_block(offset + i * ptrdiff_t(sizeof(T)), to + i, LANES<T>);
        if (i < count) transpose_block(offset + i * ptrdiff_t(sizeof(T)), to + i, int(count - i));
    }

    void transpose_all() {
        transpose_run(0, (job_.n_members - 1) * distance_ + n, stage_);
        if (job_.kind == PROBABILITIES && !has_weightless_) memset(is_ready_, 1, job_.n_members);
        is_transposed_ = true;
    }

    // Copy a member, and turn it into probabilities.
    void prepare(ptrdiff_t m, V<T> *copy) {
        const bool has_logits = job_.kind == LOGITS;
        if constexpr (SIDE) {
            if (!is_transposed_) copy_side_by_side(m, copy);
            if (has_logits) exponentiate(m, Row<T>::of(copy, n), copy);
        } else {
            const Row<T> row = in_place(m, has_logits ? -__builtin_inf() : 0);
            if (has_logits) exponentiate(m, row, copy);
            else
                for (int r = 0; r < n; r++) copy[r] = row[r];
        }
        if (job_.kind == MASSES) normalize(copy);
        if (has_weightless_) replace_weightless(m, copy);
    }

    INLINE void deinterleave_rows(const char *place, V<T> *copy) {
        switch (n) {
            case 2: return deinterleave_rows<2>(place, copy);
            case 3: return deinterleave_rows<3>(place, copy);
            case 4: return deinterleave_rows<4>(place, copy);
            case 5: return deinterleave_rows<5>(place, copy);
            case 6: return deinterleave_rows<6>(place, copy);
            case 7: return deinterleave_rows<7>(place, copy);
            case 8: return deinterleave_rows<8>(place, copy);
        }
    }
    template <int K> INLINE void deinterleave_rows(const char *place, V<T> *copy) {
        V<T> rows[K];
        for (int i = 0; i < K; i++) {
            rows[i] = load<T>(place + i * BYTES);
            if (!loops_fetch_) prefetch_from(address_of(place) + i * BYTES + AHEAD_OF_ROWS);
        }
        deinterleave<T, K>(rows, copy);
    }

    void copy_side_by_side(ptrdiff_t m, V<T> *copy) {
        if (is_full_ && are_rows_next_to_each_other()) return deinterleave_rows(address(0, m), copy);
        if (job_.class_stride == ptrdiff_t(sizeof(T))) {
            transpose_run(m * job_.member_stride, n, copy);
            return;
        }
        for (int lane = 0; lane < GROUP; lane++) {
            const char *place = address(lane, m);
            for (int r = 0; r < n; r++) {
                T number;
                memcpy(&number, place + r * job_.class_stride, sizeof number);
                copy[r][lane] = number;
            }
        }
    }

    // The softmax of logits, and Σ p·log p. With e = exp(z − max z) and S = Σe, log p is
    // z − max z − log S: no logarithms of single classes are needed. Largest classes, whose e is 1, are
    // counted: sums of the others keep their digits, and an error of S moves all probabilities.
    void exponentiate(ptrdiff_t m, Row<T> z, V<T> *p) {
        V<T> top = z[0];
        for (int r = 1; r < n; r++) top = larger(top, z[r]);
        top = across_max<T, SIDE>(top);
        Wide<T> others{}, weighted{};
        V<T> part{}, part_weighted{}, n_largest{};
        for (int start = 0; start < n; start += 16) {
            part = part_weighted = V<T>{};
            for (int r = start; r < n && r < start + 16; r++) {
                const V<T> below = at_least_lowest<T>(z[r] - top), e = exp_within<T>(below);
                const Bits<T> is_largest = below == T(0);
                if constexpr (!SIDE) z.prefetch(r);
                p[r] = e;
                part = is_largest ? part : part + e;
                n_largest = is_largest ? n_largest + T(1) : n_largest;
                part_weighted = fma(e, below, part_weighted);
            }
            if (n <= 16) break;
            others = others + widen(part);
            weighted = weighted + widen(part_weighted);
        }
        if (n > 16) part = narrow(others), part_weighted = narrow(weighted);
        const V<T> beyond = across_sum<T, SIDE>(n_largest) - T(1) + across_sum<T, SIDE>(part);
        const V<T> sum = beyond + T(1), share = T(1) / sum;
        negatives_[m] = across_sum<T, SIDE>(part_weighted) * share - log1p<T>(beyond);
        for (int r = 0; r < n; r++) p[r] *= share;
        bad |= ~(sum < T(__builtin_inf()));  // NaN or +inf among the logits, or all are -inf
    }

    // Classes other than the largest are summed alone, as in `exponentiate`.
    void normalize(V<T> *p) {
        V<T> low = p[0], top = p[0];
        for (int r = 1; r < n; r++) {
            low = smaller(low, p[r]);
            top = larger(top, p[r]);
        }
        low = across_min<T, SIDE>(low);
        top = across_max<T, SIDE>(top);
        Wide<T> others{};
        V<T> n_largest{};
        for (int start = 0; start < n; start += 16) {
            V<T> part{};
            for (int r = start; r < n && r < start + 16; r++) {
                const Bits<T> is_largest = p[r] == top;
                part += is_largest ? V<T>{} : p[r];
                n_largest += is_largest ? fill<T>(1) : V<T>{};
            }
            others = others + widen(part);
        }
        const V<T> sum = fma(across_sum<T, SIDE>(n_largest), top, across_sum<T, SIDE>(narrow(others)));
        const V<T> share = T(1) / sum;
        for (int r = 0; r < n; r++) p[r] *= share;
        // The share is infinite for tiny masses, which the array path can divide.
        bad |= ~((sum > 0) & (share > 0) & (share < T(__builtin_inf())) & (low >= 0));
    }

    // Instances for which the member has weight 0 get a row that is certain of the first class.
    void replace_weightless(ptrdiff_t m, V<T> *p) {
        const V<T> w = weight(m);
        for (int r = 0; r < n; r++) {
            V<T> certain{};
            if (r == 0) certain = SIDE ? fill<T>(1) : (lane_numbers<T>() == 0 ? fill<T>(1) : V<T>{});
            p[r] = w > 0 ? p[r] : certain;
        }
        negatives_[m] = w > 0 ? negatives_[m] : V<T>{};
    }

    // Whether members that were not checked may have weight 0; they may even be NaN.
    bool has_weightless_members() const {
        if (job_.tolerance >= 0 || job_.weights == nullptr) return false;
        const ptrdiff_t stop = job_.weight_instance_stride == 0 ? job_.start + 1 : job_.stop;
        for (ptrdiff_t i = job_.start; i < stop; i++)
            for (ptrdiff_t m = 0; m < job_.n_members; m++)
                if (!(weight_of(i, m) > 0)) return true;
        return false;
    }

    const Job &job_;
    const PrefetchPlan<T, SIDE> prefetch_plan_;
    V<T> *stage_, *tail_, *negatives_;
    char *is_ready_;
    T *shared_weights_;
    const char *end_, *highest_;
    const char *address_[GROUP];  // of instances
    ptrdiff_t capacity_, distance_;  // copies of members that have room, and vectors from one to the next
    ptrdiff_t instance_[GROUP];
    bool is_run_, loops_fetch_, has_weightless_, in_place_, use_in_place_ = false, is_transposed_ = false, is_full_ = false;
};

}  // namespace SCOREWISE_ISA
}  // namespace scorewise
