// Random calls against a plain reference in double, for a build with -fsanitize=address,undefined.
//
//     fuzz SET ROUNDS SEED        SET is avx2 or avx512
//
// Every tensor has memory of its own, exactly as long as its last element needs, so that a step beside it is seen.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "headwise.h"

using namespace headwise;

namespace {

std::mt19937_64 source;

int between(int least, int most) { return least + static_cast<int>(source() % static_cast<uint64_t>(most - least + 1)); }
bool chance(int percent) { return between(1, 100) <= percent; }
float normal() { return std::normal_distribution<float>()(source); }

template <class T>
struct Memory {
    std::unique_ptr<T, decltype(&std::free)> data;
    size_t count;
    explicit Memory(size_t n)
        : data(static_cast<T*>(std::malloc(n * sizeof(T))), &std::free), count(n) {
        std::memset(static_cast<void*>(data.get()), 0xA5, n * sizeof(T));  // a NaN where nothing was written
    }
    T* get() const { return data.get(); }
    T& operator[](size_t i) const { return data.get()[i]; }
};

float real(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &wide, 4);
    return x;
}

// A tensor [batch, head, row, dim] with strides of its own, in float32 or bfloat16.
struct Input {
    View view;
    Memory<float> wide{1};
    Memory<uint16_t> narrow{1};
    bool bf16;
    int dim;

    Input(int batch, int heads, int rows, int d, bool half, float size) : bf16(half), dim(d) {
        const int64_t gap = chance(50) ? between(0, 7) : 0;
        if (chance(50)) {  // [batch, row, head, dim] in memory
            view.head = d + gap;
            view.row = view.head * heads + gap;
            view.batch = view.row * rows;
        } else {
            view.row = d + gap;
            view.head = view.row * rows + gap;
            view.batch = view.head * heads;
        }
        if (chance(10)) view.batch = 0;  // one sequence for all
        if (chance(5)) view.head = 0;
        const bool some = batch > 0 && heads > 0 && rows > 0;
        const size_t last = some ? (batch - 1) * view.batch + (heads - 1) * view.head + (rows - 1) * view.row + d : 0;
        if (half) narrow = Memory<uint16_t>(last);
        else wide = Memory<float>(last);
        for (size_t i = 0; i < last; i++) {
            const float x = normal() * size;
            uint32_t bits;
            std::memcpy(&bits, &x, 4);
            if (half) narrow[i] = static_cast<uint16_t>(bits >> 16);
            else wide[i] = x;
        }
        view.data = half ? static_cast<void*>(narrow.get()) : static_cast<void*>(wide.get());
    }
    double at(int b, int h, int i, int d) const {
        const size_t place = b * view.batch + h * view.head + i * view.row + d;
        return bf16 ? real(narrow[place]) : wide[place];
    }
};

int failures = 0;

void expect(double came, double right, double within, const char* what, const std::string& call) {
    if (std::fabs(came - right) <= within * (1 + std::fabs(right))) return;
    if (failures++ < 20) std::printf("%s: %g in place of %g in %s\n", what, came, right, call.c_str());
}

void spans(int kind, const Job& job, const Memory<int32_t>& lo, const Memory<int32_t>& hi, int sequences) {
    for (int b = 0; b < sequences; b++) {
        const int real_keys = between(0, job.keys), width = between(1, job.keys + 1);
        for (int i = 0; i < job.queries; i++) {
            int from = 0, to = job.keys;
            if (kind == 1) to = std::min(job.keys, std::max(0, i + job.offset + 1));
            if (kind == 2) from = std::max(0, i + job.offset - width), to = std::min(job.keys, i + job.offset + 1);
            if (kind == 3) to = real_keys;
            if (kind == 4) from = between(0, job.keys), to = between(0, job.keys);
            if (to <= from) from = to = 0;
            lo[static_cast<size_t>(b) * job.queries + i] = from;
            hi[static_cast<size_t>(b) * job.queries + i] = to;
        }
    }
}

void round_of(Set set) {
    Job job;
    job.batch = between(1, 2);
    job.kv_heads = between(1, 2);
    job.heads = job.kv_heads * between(1, chance(80) ? 1 : 3);
    job.keys = chance(3) ? 0 : chance(93) ? between(1, 40) : between(1, 300);
    job.queries = chance(3) ? 0 : chance(50) ? job.keys : between(1, chance(95) ? 20 : 120);
    job.dim = between(16, chance(93) ? 40 : 256);
    job.v_dim = between(16, chance(93) ? 40 : 256);
    job.offset = chance(70) ? job.keys - job.queries : between(-20, 300);
    job.threads = between(1, 3);
    job.bf16 = chance(30);
    job.scale = (chance(20) ? 3.f : 1.f) / std::sqrt(static_cast<float>(job.dim));
    const Input q(job.batch, job.heads, job.queries, job.dim, job.bf16, 1.f);
    const Input k(job.batch, job.kv_heads, job.keys, job.dim, job.bf16, chance(10) ? 0.f : 1.f);
    const Input v(job.batch, job.kv_heads, job.keys, job.v_dim, job.bf16, 1.f);
    job.q = q.view, job.k = k.view, job.v = v.view;
    const int kind = between(0, 4), sequences = kind >= 3 || chance(20) ? job.batch : 1;
    const size_t B = job.batch, H = job.heads, Q = job.queries, K = job.keys, rows = B * H * Q;
    Memory<int32_t> lo(sequences * Q), hi(sequences * Q);
    spans(kind, job, lo, hi, sequences);
    job.lo = lo.get(), job.hi = hi.get(), job.span_batch = sequences > 1 ? job.queries : 0;
    Memory<float> z(job.bf16 ? 0 : rows * job.v_dim);
    Memory<uint16_t> narrow_z(job.bf16 ? rows * job.v_dim : 0);
    job.z = job.bf16 ? static_cast<void*>(narrow_z.get()) : static_cast<void*>(z.get());

    const bool wanted = chance(85);
    job.probes = wanted && chance(60) ? between(1, 4) : 0;
    job.top = wanted && chance(70) ? between(1, MOST_TOP) : 0;
    job.apart = chance(30) ? between(0, 20) : 0;
    job.pool = wanted && chance(60) ? between(1, 40) : 0;
    Memory<float> entropy(wanted ? rows : 0), distance(wanted ? rows : 0), largest(wanted ? rows : 0);
    if (wanted) job.entropy = entropy.get(), job.distance = distance.get(), job.largest = largest.get();
    Memory<int64_t> probe(B * job.probes * Q);
    for (size_t i = 0; i < probe.count; i++) probe[i] = between(-1, std::max(0, job.keys - 1) + 1);
    Memory<float> mass(rows * job.probes);
    Memory<bool> hits(rows * job.probes);
    job.probe = probe.get(), job.probe_batch = static_cast<int64_t>(job.probes) * job.queries;
    job.mass = mass.get(), job.hits = hits.get();
    Memory<int64_t> top_keys(rows * job.top);
    Memory<float> top_weights(rows * job.top);
    Memory<bool> eligible(B * K);
    for (size_t i = 0; i < eligible.count; i++) eligible[i] = chance(70);
    if (job.top && chance(50)) job.eligible = eligible.get(), job.eligible_batch = job.keys;
    job.top_keys = top_keys.get(), job.top_weights = top_weights.get();
    const size_t cells = static_cast<size_t>(job.pool) * job.pool;
    Memory<float> pooled(B * H * cells), peaks(B * H * cells), received(wanted ? B * H * K : 0);
    if (job.pool) job.pooled = pooled.get(), job.pooled_max = peaks.get();
    if (wanted && chance(60)) job.received = received.get();
    Memory<int64_t> q_len(B), k_len(B);
    for (size_t b = 0; b < B; b++) q_len[b] = between(0, job.queries), k_len[b] = between(0, job.keys);
    if (chance(50)) job.query_lengths = q_len.get();
    if (chance(50)) job.key_lengths = k_len.get();

    run(job, set);

    char name[300];
    std::snprintf(name, sizeof name,
                  "batch %d heads %d/%d queries %d keys %d dim %d/%d offset %d threads %d bf16 %d spans %d top %d "
                  "apart %d pool %d probes %d scale %g",
                  job.batch, job.heads, job.kv_heads, job.queries, job.keys, job.dim, job.v_dim, job.offset,
                  job.threads, job.bf16, kind, job.top, job.apart, job.pool, job.probes, job.scale);
    const std::string call = name;
    const double tight = 1e-4;
    for (int b = 0; b < job.batch; b++)
        for (int h = 0; h < job.heads; h++) {
            const int g = h / (job.heads / job.kv_heads);
            std::vector<double> gets(K, 0), map(cells, 0), high(cells, 0), counts(job.pool, 0);
            const int64_t real_q = job.query_lengths ? q_len[b] : job.queries;
            const int64_t real_k = job.key_lengths ? k_len[b] : job.keys;
            for (int i = 0; i < job.queries; i++) {
                const size_t row = (static_cast<size_t>(b) * H + h) * Q + i;
                const int from = lo[(sequences > 1 ? b * Q : 0) + i], to = hi[(sequences > 1 ? b * Q : 0) + i];
                std::vector<double> w(K, 0);
                double most = -INFINITY, sum = 0, ent = 0, way = 0, big = 0;
                for (int j = from; j < to; j++) {
                    for (int d = 0; d < job.dim; d++) w[j] += q.at(b, h, i, d) * k.at(b, g, j, d);
                    w[j] *= job.scale;
                    most = std::max(most, w[j]);
                }
                for (int j = from; j < to; j++) sum += w[j] = std::exp(w[j] - most);
                for (int j = from; j < to; j++) {
                    w[j] /= sum;
                    if (w[j] > 0) ent -= w[j] * std::log(w[j]);
                    way += w[j] * std::abs(i + job.offset - j);
                    big = std::max(big, w[j]);
                }
                for (int d = 0; d < job.v_dim; d++) {
                    double right = 0;
                    for (int j = from; j < to; j++) right += w[j] * v.at(b, g, j, d);
                    const size_t at = ((static_cast<size_t>(b) * Q + i) * H + h) * job.v_dim + d;
                    expect(job.bf16 ? real(narrow_z[at]) : z[at], right, job.bf16 ? 5e-3 : tight, "z", call);
                }
                if (!wanted) continue;
                expect(entropy[row], ent, tight, "entropy", call);
                expect(distance[row], way, tight, "distance", call);
                expect(largest[row], big, tight, "largest", call);
                for (int p = 0; p < job.probes; p++) {
                    const int64_t key = probe[(static_cast<size_t>(b) * job.probes + p) * Q + i];
                    const size_t at = ((static_cast<size_t>(b) * H + h) * job.probes + p) * Q + i;
                    const double right = key >= from && key < to ? w[key] : 0;
                    expect(mass[at], right, tight, "mass", call);
                    if (right < big * (1 - 1e-3) || right == 0) expect(hits[at], 0, 0, "hit", call);
                    if (right > 0 && right == big) {
                        int rivals = 0;
                        for (int j = from; j < to; j++) rivals += w[j] > big * (1 - 1e-5);
                        if (rivals == 1) expect(hits[at], 1, 0, "no hit", call);
                    }
                }
                if (job.top) {
                    std::multiset<double, std::greater<double>> best;
                    for (int j = from; j < to; j++)
                        if ((!job.eligible || eligible[b * K + j]) && std::abs(i + job.offset - j) >= job.apart)
                            best.insert(w[j]);
                    std::set<int64_t> named;
                    auto next = best.begin();
                    for (int t = 0; t < job.top; t++) {
                        const int64_t key = top_keys[row * job.top + t];
                        const double right = next == best.end() ? 0 : *next;
                        expect(top_weights[row * job.top + t], right, tight, "top weight", call);
                        if (next == best.end()) {
                            expect(static_cast<double>(key), -1, 0, "a key too many", call);
                            continue;
                        }
                        ++next;
                        const bool fits = key >= from && key < to && (!job.eligible || eligible[b * K + key]) &&
                                          std::abs(i + job.offset - key) >= job.apart && named.insert(key).second;
                        expect(fits, 1, 0, "a key that may not be named", call);
                        if (fits) expect(w[key], right, tight, "top key", call);
                    }
                }
                if (i >= real_q) continue;
                const int64_t query_cell = job.pool ? std::min<int64_t>(job.pool - 1, i * int64_t(job.pool) / real_q) : 0;
                if (job.pool) counts[query_cell]++;
                for (int j = from; j < to; j++) {
                    gets[j] += w[j];
                    if (!job.pool) continue;
                    const int64_t key_cell = j < real_k ? j * int64_t(job.pool) / real_k : job.pool - 1;
                    const size_t cell = query_cell * job.pool + key_cell;
                    map[cell] += w[j];
                    high[cell] = std::max(high[cell], w[j]);
                }
            }
            const size_t head = static_cast<size_t>(b) * H + h;
            for (size_t j = 0; job.received && j < K; j++) expect(received[head * K + j], gets[j], tight, "received", call);
            for (size_t c = 0; c < cells; c++) {
                expect(pooled[head * cells + c], map[c] / std::max(1., counts[c / job.pool]), tight, "pooled", call);
                expect(peaks[head * cells + c], high[c], tight, "pooled max", call);
            }
        }
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) return 2;
    const Set set = std::string(words[1]) == "avx512" ? Set::avx512 : Set::avx2;
    if (!runs_here(set)) {
        std::printf("this CPU has no %s\n", words[1]);
        return 77;
    }
    source.seed(std::strtoull(words[3], nullptr, 10));
    for (int i = 0; i < std::atoi(words[2]) && failures < 20; i++) round_of(set);
    std::printf("%d failures\n", failures);
    return failures != 0;
}
