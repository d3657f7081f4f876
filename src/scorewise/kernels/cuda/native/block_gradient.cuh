// Gradients of large instances: rows become their gradients in shared memory, and go from there to global memory.
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
            if (KIND != PROBABILITIES) each_row([&](SharedRow<ROW_LANES> row, int, bool) { prepare(row); });
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
            each_row([&](SharedRow<ROW_LANES> row, int r, bool is_row) {
                const int b = is_row ? instance_of(r) : 0;
                const MeanRows<SharedRow<ROW_LANES>> mean = rows_of_mean<ROW_LANES>(b, row.lane);
                const float w = is_row ? weight(b, r - b * job_.stage) : 0.f;
                const Slopes slopes(row, mean.numbers, upstreams_[b], shapes_[b], w);
                const float average = differentiate(row, mean, slopes);
                __syncwarp();
                if (HAS_ZERO_ONE && is_row && row.lane == 0) slopes.add_zero_one(row.numbers, average);
            });
            __syncwarp();
            write();
            __syncwarp();
            refill();
        });
    }

  private:
    template <int N> INLINE MeanRows<SharedRow<N>> rows_of_mean(int b, int lane) const {
        const int place = b * N_CLASSES;
        return {{mean_ + place, lane}, {inverses_ + place, lane}, {logs_ + place, lane}};
    }

    // Write the rows that this warp works on.
    INLINE void write() const {
        constexpr int N = N_CLASSES % 4 == 0 && COPY % 4 == 0 ? 4 : N_CLASSES % 2 == 0 && COPY % 2 == 0 ? 2 : 1;
        constexpr int PIECES = N_CLASSES / N;
        const Strides &strides = job_.gradient_strides;
        Element *gradient = static_cast<Element *>(job_.gradient) + first_ * strides.instance;
        for (int first = warp_ * ROWS_PER_WARP; first < n_rows_; first += n_warps_ * ROWS_PER_WARP) {
            const int count = n_rows_ - first < ROWS_PER_WARP ? n_rows_ - first : ROWS_PER_WARP;
#pragma unroll 4
            for (int i = lane_; i < count * PIECES; i += 32) {
                const int r = first + i / PIECES, k = i % PIECES * N;
                const Piece<N> from = *reinterpret_cast<const Piece<N> *>(tile_ + r * ROW_SPACING + k);
                Some<N, Element> to;
#pragma unroll
                for (int j = 0; j < N; j++) to.at[j] = Element(from.at[j]);
                Element *place = gradient + first * N_CLASSES + i * N;
                if (ORDER != BY_INSTANCE) {
                    const int b = instance_of(r);
                    place = gradient + b * strides.instance + (r - b * job_.stage) * strides.member + k * strides.of_class;
                }
                *reinterpret_cast<Some<N, Element> *>(place) = to;
            }
        }
    }

    float *inverses_, *logs_;
    MeanShape *shapes_;
    Upstream *upstreams_;
};
