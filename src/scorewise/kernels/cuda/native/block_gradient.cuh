// Gradients of large instances: what lanes make of a row goes to global memory.
#pragma once

#include "block_tiles.cuh"
#include "slopes.cuh"

class BlockGradient : BlockTiles {
  public:
    INLINE BlockGradient(const Job &job) : BlockTiles(job) {}

    INLINE void run(char *memory) {
        shapes_ = take<MeanShape>(memory, job_.instances);
        upstreams_ = take<Upstream>(memory, job_.instances);
        tile_ = take<float>(memory, n_places_ * ROW_SPACING);
        mean_ = take<float>(memory, job_.instances * N_CLASSES);
        inverses_ = take<float>(memory, job_.instances * N_CLASSES);
        logs_ = take<float>(memory, job_.instances * N_CLASSES);
        each_tile([&] {
            n_rows_ = n_ * job_.n_members;
            read(0);
            if (KIND != PROBABILITIES) {
                each_row([&](SharedRow<ROW_LANES> row, int, bool) {
                    float nothing[NoRule::N_VALUES];
                    summarize_shared<NoRule>(row, nothing);
                });
            }
            __syncthreads();
            add_to_mean(0);
            __syncthreads();
            each_column([&](int b, int k) {
#pragma unroll
                for (int i = b * N_CLASSES + k; i < b * N_CLASSES + k + VECTOR; i++)
                    inverses_[i] = inverse_of(mean_[i]), logs_[i] = log_2_of(mean_[i]);
            });
            each_instance([&](int b, bool is_one, int lane) {
                const MeanShape shape = mean_shape(mean_of(b, lane));
                if (lane == 0 && is_one) shapes_[b] = shape, upstreams_[b] = Upstream(job_, first_ + b);
            });
            __syncthreads();
            each_row([&](SharedRow<ROW_LANES> row, int r, bool is_row) { differentiate(row, r, is_row); });
            if (HAS_OWN_ROWS) {
                end_copies();
            } else {
                __syncwarp();
                refill();
            }
        });
    }

  private:
    using MeanRow = SharedRow<ROW_LANES>;

    INLINE void differentiate(const SharedRow<ROW_LANES> &shared, int r, bool is_row) const {
        const int b = is_row ? instance_of(r) : 0, m = r - b * job_.stage, start = b * N_CLASSES;
        const MeanRows<MeanRow> mean{{mean_ + start, shared.lane}, {inverses_ + start, shared.lane}, {logs_ + start, shared.lane}};
        const MeanShape shape = shapes_[b];
        WorkRow row;
        load(row, shared);
        const Top top = top_of(row, shared, start);
        const float there = shared.numbers[shape.top];
        const Slopes slopes(row, mean, top, there, upstreams_[b], shape, is_row ? weight(b, m) : 0.f);
        __syncwarp();
        if (HAS_OWN_ROWS) refill_group(r - lane_ / ROW_LANES);
        ::differentiate(row, mean, slopes);
        const Strides &strides = job_.gradient_strides;
        Element *gradient = static_cast<Element *>(job_.gradient) + first_ * strides.instance +
                            (ORDER == BY_INSTANCE ? r * (long long)(N_CLASSES) : b * strides.instance + m * strides.member);
        const long long of_class = ORDER == BY_INSTANCE ? 1 : strides.of_class;
        if (is_row) write(row, gradient, of_class);
        if (!HAS_ZERO_ONE) return;
        __syncwarp();
        if (!is_row || shared.lane != 0) return;
        gradient[top.place * of_class] = Element(slopes.in_top);
        if (slopes.in_top_of_mean != 0) gradient[shape.top * of_class] = Element(slopes.gradient_in_top_of_mean(there, shape));
    }

    // The top class of a row: first the piece that has it, then the class in this piece.
    INLINE Top top_of(const WorkRow &row, const SharedRow<ROW_LANES> &shared, int start) const {
        Top top;
        row.pieces(row, [&](const auto &numbers, const auto &, int first, int, bool is_piece) {
            float largest = numbers.at[0];
#pragma unroll
            for (int i = 1; i < VECTOR; i++) largest = larger(largest, numbers.at[i]);
            if (is_piece) top.see(largest, 0, first);
        });
        top.combine<WorkRow>();
        int place = top.place;
#pragma unroll
        for (int i = VECTOR - 1; i >= 0; i--) place = shared.numbers[top.place + i] == top.value ? top.place + i : place;
        top.place = place;
        top.other = mean_[start + place];
        return top;
    }

    // Write the numbers of this lane, as many at once as are aligned.
    static INLINE void write(const WorkRow &row, Element *gradient, long long of_class) {
        constexpr int N = VECTOR < COPY ? VECTOR : COPY;
        row.pieces(row, [&](const auto &numbers, const auto &, int first, int, bool is_piece) {
            if (!is_piece) return;
#pragma unroll
            for (int i = 0; i < VECTOR; i += N) {
                Some<N, Element> to;
#pragma unroll
                for (int j = 0; j < N; j++) to.at[j] = Element(numbers.at[i + j]);
                *reinterpret_cast<Some<N, Element> *>(gradient + (first + i) * of_class) = to;
            }
        });
    }

    float *inverses_, *logs_;
    MeanShape *shapes_;
    Upstream *upstreams_;
};
