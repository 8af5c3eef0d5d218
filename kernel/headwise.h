// Attention of every head with the statistics of its pattern, for one CPU: what a call is, free of Python and torch.
//
// Each query row sees one run of keys [lo, hi). z = softmax(scale * q k^T over the run) v; `src/headwise/core/
// streaming.py` says what the statistics mean. A row that sees nothing has z 0, statistics 0 and keys -1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise {

// [batch, head, row, dim] somewhere in memory: strides in elements, the last axis contiguous.
struct View {
    const void* data = nullptr;
    int64_t batch = 0, head = 0, row = 0;
};

struct Job {
    int batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, v_dim = 0;
    int offset = 0;  // position of the first query
    int threads = 1;
    float scale = 1.f;
    bool bf16 = false;  // q, k, v and z are bfloat16, else float32
    View q, k, v;
    const int32_t *lo = nullptr, *hi = nullptr;  // [batch or 1, query]
    int64_t span_batch = 0;                      // their batch stride, 0 where one is for all
    void* z = nullptr;                           // [batch, query, head, v_dim]

    // Statistics, float32 [batch, head, query, ...]; all null where only z is wanted.
    float *entropy = nullptr, *distance = nullptr, *largest = nullptr;
    int probes = 0;
    const int64_t* probe = nullptr;  // [batch or 1, probe, query]
    int64_t probe_batch = 0;
    float* mass = nullptr;  // [batch, head, probe, query]
    bool* hits = nullptr;
    int top = 0, apart = 0;
    int64_t* top_keys = nullptr;  // [batch, head, query, top]
    float* top_weights = nullptr;
    const bool* eligible = nullptr;  // [batch or 1, key]
    int64_t eligible_batch = 0;
    int pool = 0;
    float *pooled = nullptr, *pooled_max = nullptr;  // [batch, head, pool, pool]
    float* received = nullptr;                       // [batch, head, key]
    const int64_t *query_lengths = nullptr, *key_lengths = nullptr;  // [batch]
};

constexpr int ALIGN = 64;    // keys are padded to a multiple of this in packed memory
constexpr int MOST_ROWS = 96;  // query rows of a block
constexpr int MOST_TOP = 32;

// What `run` works out once for all heads.
struct Prepared {
    int padded_keys = 0, padded_v = 0;
    size_t cells = 0;                 // scores a block may hold
    const float* barred = nullptr;    // [batch or 1, padded_keys]: 0, or -inf where a key may not be among the top
    const int32_t* key_cell = nullptr;  // [batch or 1, padded_keys]: the column of the pooled map
    int64_t barred_batch = 0, cell_batch = 0;
};

// Some rows of one head, and where to add up what concerns its keys.
struct Item {
    int batch = 0, head = 0, first = 0, last = 0;
    const float *k = nullptr, *v = nullptr;  // packed
    float *received = nullptr, *pooled = nullptr, *pooled_max = nullptr;
};

// The code for one set of instructions.
struct Code {
    const char* name;
    // K transposed in panels and V padded, of 64 keys of one KV head
    void (*pack)(const Job&, const Prepared&, int batch, int kv_head, int block, float* k, float* v);
    void (*rows)(const Job&, const Prepared&, const Item&, float* scratch);
};

size_t scratch_floats(const Job& job, const Prepared& prepared);

extern const Code AVX512, AVX2;

enum class Set { none, avx2, avx512 };

bool built(Set set);
bool runs_here(Set set);         // built, and this CPU has the instructions
void run(const Job& job, Set set);

// body(context, i) for i in 0..count, shared out over threads; which thread takes which i is left open.
void parallel(int threads, int64_t count, void (*body)(void*, int64_t, int worker), void* context);
bool shares_openmp();

}  // namespace headwise
