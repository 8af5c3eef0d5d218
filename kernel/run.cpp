// One call, shared out: which code runs it, what is packed when, which rows go together, and partial sums put together.
//
// Some KV heads at a time are packed and then attended to, so that packed memory stays small and near. A head's rows
// are cut into parts where there are fewer heads than the threads need; what the parts add up for the keys goes to a
// buffer of each part, and the buffers are summed in order: the same numbers for the same number of threads.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "headwise.h"

namespace headwise {
namespace {

constexpr size_t CELLS = 192 * 1024;       // scores of a block: 768 KiB, which a core's second cache holds
constexpr size_t LEAST_PACKED = 1 << 18;   // floats packed at a time, where the threads need no more
constexpr size_t MOST_PACKED = 8 << 20;
constexpr int ITEMS_PER_THREAD = 4;

int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Free {
    void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float, Free>;

Floats floats(size_t count) {
    void* p = std::aligned_alloc(64, up(std::max<size_t>(count, 1) * sizeof(float), 64));
    if (p == nullptr) throw std::bad_alloc();
    return Floats(static_cast<float*>(p));
}

struct Call {
    const Job& job;
    const Code& code;
    Prepared pre;
    int groups;             // query heads of a KV head
    int64_t slice, first;   // KV heads (over batch and heads) packed at a time, and the first of them
    int parts;              // of a head's rows
    size_t k_size, v_size;  // floats of a packed KV head
    Floats packed, scratch, partial, barred;
    std::vector<int32_t> key_cell;
    std::vector<int> bounds;  // [batch or 1, parts + 1]: where the parts of the rows begin
    size_t scratch_size, partial_size;
};

int64_t key_length(const Job& job, int batch) {
    return job.key_lengths ? job.key_lengths[batch] : job.keys;
}

void prepare_keys(Call& c) {
    const Job& job = c.job;
    const int64_t padded = c.pre.padded_keys;
    if (job.top && job.eligible != nullptr) {
        const int sequences = job.eligible_batch ? job.batch : 1;
        c.barred = floats(sequences * padded);
        for (int b = 0; b < sequences; b++)
            for (int64_t j = 0; j < padded; j++)
                c.barred.get()[b * padded + j] =
                    j < job.keys && job.eligible[b * job.eligible_batch + j] ? 0.f : -INFINITY;
        c.pre.barred = c.barred.get();
        c.pre.barred_batch = sequences > 1 ? padded : 0;
    }
    if (job.pool) {
        const int sequences = job.key_lengths ? job.batch : 1;
        c.key_cell.resize(sequences * padded);
        for (int b = 0; b < sequences; b++)
            for (int64_t j = 0; j < padded; j++)
                c.key_cell[b * padded + j] = static_cast<int32_t>(
                    j < key_length(job, b) ? j * job.pool / key_length(job, b) : job.pool - 1);
        c.pre.key_cell = c.key_cell.data();
        c.pre.cell_batch = sequences > 1 ? padded : 0;
    }
}

// Cut the rows where about as much work lies in each part.
void cut_rows(Call& c) {
    const Job& job = c.job;
    const int sequences = job.span_batch ? job.batch : 1;
    c.bounds.assign(static_cast<size_t>(sequences) * (c.parts + 1), job.queries);
    for (int b = 0; b < sequences; b++) {
        const int32_t *lo = job.lo + b * job.span_batch, *hi = job.hi + b * job.span_batch;
        int* bound = &c.bounds[static_cast<size_t>(b) * (c.parts + 1)];
        bound[0] = 0;
        if (c.parts == 1) continue;
        double all = 0, done = 0;
        for (int i = 0; i < job.queries; i++) all += std::max(0, hi[i] - lo[i]) + ALIGN;
        int part = 1;
        for (int i = 0; i < job.queries && part < c.parts; i++) {
            done += std::max(0, hi[i] - lo[i]) + ALIGN;
            while (part < c.parts && done >= all * part / c.parts) bound[part++] = i + 1;
        }
    }
}

void plan(Call& c) {
    const Job& job = c.job;
    const int64_t kv_heads = static_cast<int64_t>(job.batch) * job.kv_heads;
    c.groups = job.heads / job.kv_heads;
    c.k_size = static_cast<size_t>(c.pre.padded_keys) * job.dim;
    c.v_size = static_cast<size_t>(c.pre.padded_keys) * c.pre.padded_v;
    const int64_t size = std::max<int64_t>(1, c.k_size + c.v_size);
    const int64_t items = job.threads > 1 ? job.threads * ITEMS_PER_THREAD : 1;
    const int64_t wished = std::max<int64_t>((items + c.groups - 1) / c.groups, LEAST_PACKED / size);
    const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(MOST_PACKED) / size);
    c.slice = std::max<int64_t>(1, std::min({kv_heads, wished, most}));
    const int64_t heads = c.slice * c.groups;
    const int64_t row_groups = (job.queries + 5) / 6;
    c.parts = static_cast<int>(std::max<int64_t>(1, std::min(row_groups, (items + heads - 1) / heads)));
    cut_rows(c);
    c.packed = floats(c.slice * size);
    c.scratch_size = up(scratch_floats(job, c.pre), ALIGN);
    c.scratch = floats(c.scratch_size * std::max(1, job.threads));
    c.partial_size = (job.received ? job.keys : 0) + 2 * static_cast<size_t>(job.pool) * job.pool;
    if (c.parts > 1) c.partial = floats(heads * c.parts * c.partial_size);
}

void pack_one(void* of, int64_t i, int) {
    Call& c = *static_cast<Call*>(of);
    const int blocks = c.pre.padded_keys / ALIGN;
    const int64_t local = i / blocks, kv = c.first + local;
    float* k = c.packed.get() + local * (c.k_size + c.v_size);
    c.code.pack(c.job, c.pre, static_cast<int>(kv / c.job.kv_heads), static_cast<int>(kv % c.job.kv_heads),
                static_cast<int>(i % blocks), k, k + c.k_size);
}

// Where one part of one head adds up: in the results themselves where the head is one part.
void targets(const Call& c, int64_t local_head, int part, Item& item) {
    const Job& job = c.job;
    const int64_t head = static_cast<int64_t>(item.batch) * job.heads + item.head;
    const size_t cells = static_cast<size_t>(job.pool) * job.pool;
    if (c.parts == 1) {
        if (job.received) item.received = job.received + head * job.keys;
        if (job.pool) item.pooled = job.pooled + head * cells;
        if (job.pool) item.pooled_max = job.pooled_max + head * cells;
        return;
    }
    float* at = c.partial.get() + (local_head * c.parts + part) * c.partial_size;
    if (job.received) item.received = at;
    if (job.pool) item.pooled = at + (job.received ? job.keys : 0);
    if (job.pool) item.pooled_max = item.pooled + cells;
}

Item item_of(const Call& c, int64_t local_head, int part) {
    const Job& job = c.job;
    const int64_t kv = c.first + local_head / c.groups;
    Item item;
    item.batch = static_cast<int>(kv / job.kv_heads);
    item.head = static_cast<int>(kv % job.kv_heads * c.groups + local_head % c.groups);
    const int* bound = &c.bounds[(job.span_batch ? item.batch : 0) * static_cast<size_t>(c.parts + 1)];
    item.first = bound[part];
    item.last = bound[part + 1];
    item.k = c.packed.get() + local_head / c.groups * (c.k_size + c.v_size);
    item.v = item.k + c.k_size;
    targets(c, local_head, part, item);
    return item;
}

void attend_one(void* of, int64_t i, int worker) {
    Call& c = *static_cast<Call*>(of);
    const Item item = item_of(c, i / c.parts, static_cast<int>(i % c.parts));
    const size_t cells = static_cast<size_t>(c.job.pool) * c.job.pool;
    if (item.received) std::fill_n(item.received, c.job.keys, 0.f);
    if (item.pooled) std::fill_n(item.pooled, cells, 0.f);
    if (item.pooled_max) std::fill_n(item.pooled_max, cells, 0.f);
    c.code.rows(c.job, c.pre, item, c.scratch.get() + worker * c.scratch_size);
}

float greater(float a, float b) { return b > a || b != b ? b : a; }

// The parts of one head summed in order, and the pooled map's sums over queries made means.
void finish_one(void* of, int64_t local_head, int) {
    Call& c = *static_cast<Call*>(of);
    const Job& job = c.job;
    const Item first = item_of(c, local_head, 0);
    const int64_t head = static_cast<int64_t>(first.batch) * job.heads + first.head;
    const size_t cells = static_cast<size_t>(job.pool) * job.pool;
    for (int part = 0; c.parts > 1 && part < c.parts; part++) {
        const Item from = item_of(c, local_head, part);
        for (int64_t j = 0; from.received && j < job.keys; j++)
            job.received[head * job.keys + j] =
                part ? job.received[head * job.keys + j] + from.received[j] : from.received[j];
        for (size_t j = 0; from.pooled && j < cells; j++) {
            float &sum = job.pooled[head * cells + j], &peak = job.pooled_max[head * cells + j];
            sum = part ? sum + from.pooled[j] : from.pooled[j];
            peak = part ? greater(peak, from.pooled_max[j]) : from.pooled_max[j];
        }
    }
    if (!job.pool) return;
    const int64_t real = job.query_lengths ? job.query_lengths[first.batch] : job.queries;
    std::vector<int64_t> counts(job.pool, 0);
    for (int64_t i = 0; i < std::min<int64_t>(real, job.queries); i++)
        counts[std::min<int64_t>(job.pool - 1, i * job.pool / real)]++;
    for (int row = 0; row < job.pool; row++)
        for (int column = 0; column < job.pool; column++)
            job.pooled[head * cells + static_cast<size_t>(row) * job.pool + column] /=
                static_cast<float>(std::max<int64_t>(1, counts[row]));
}

const Code* code_of(Set set) {
#ifdef HEADWISE_X86
    if (set == Set::avx512) return &AVX512;
    if (set == Set::avx2) return &AVX2;
#endif
    (void)set;
    return nullptr;
}

}  // namespace

size_t scratch_floats(const Job& job, const Prepared& pre) {
    const size_t queries = up(static_cast<int64_t>(MOST_ROWS) * job.dim, ALIGN);
    return pre.cells + queries + static_cast<size_t>(MOST_ROWS) * pre.padded_v + pre.padded_keys + ALIGN;
}

bool built(Set set) { return code_of(set) != nullptr; }

bool runs_here(Set set) {
#ifdef HEADWISE_X86
    __builtin_cpu_init();
    const bool fma = __builtin_cpu_supports("fma");
    if (set == Set::avx2) return fma && __builtin_cpu_supports("avx2");
    if (set == Set::avx512)
        return fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
    (void)set;
    return false;
}

void run(const Job& job, Set set) {
    const Code* code = code_of(set);
    if (code == nullptr || job.batch == 0 || job.heads == 0) return;
    Call c{job, *code, {}, 1, 1, 0, 1, 0, 0, {}, {}, {}, {}, {}, {}, 0, 0};
    c.pre.padded_keys = static_cast<int>(up(job.keys, ALIGN));
    c.pre.padded_v = static_cast<int>(up(job.v_dim, 16));
    c.pre.cells = std::max<size_t>(CELLS, 6 * (static_cast<size_t>(c.pre.padded_keys) + 16));
    c.pre.cells = std::min<size_t>(c.pre.cells, MOST_ROWS * (static_cast<size_t>(c.pre.padded_keys) + 16));
    prepare_keys(c);
    plan(c);
    const int64_t kv_heads = static_cast<int64_t>(job.batch) * job.kv_heads;
    const int blocks = c.pre.padded_keys / ALIGN;
    for (c.first = 0; c.first < kv_heads; c.first += c.slice) {
        const int64_t count = std::min(c.slice, kv_heads - c.first), heads = count * c.groups;
        parallel(job.threads, count * blocks, pack_one, &c);
        parallel(job.threads, heads * c.parts, attend_one, &c);
        if (job.pool || (c.parts > 1 && job.received)) parallel(job.threads, heads, finish_one, &c);
    }
}

}  // namespace headwise
