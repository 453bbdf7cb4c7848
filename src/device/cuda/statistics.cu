// Maximum, minimum, mean and norm of a tensor of the device in one pass over it. tools/dev/make_ptx.py
// translates this file into statistics.ptx, which is what the build uses: building needs no CUDA.
// The driver's compiler reads that when the first tensor is reduced.
//
// Sums are in float64. How many blocks there are, which elements each takes, and the order in which
// their sums are added depend on the tensor's dtype, shape, strides and alignment alone: the same
// bits on every device and in every run.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum { kThreads = 256, kMostDims = 6 };

// As Layout of cuda_statistics.cpp. Strides are in elements. in_vectors: the last dim counts vectors
// of 16 bytes, all of them aligned.
struct Layout {
  u64 sizes[kMostDims];
  long long strides[kMostDims];
  int dims;
  int in_vectors;
};

// What one block, and at the end the tensor, comes to. NaN is kept apart: comparisons lose it.
struct Part {
  double high;
  double low;
  double sum;
  double squares;
  double nans;
};

// ---- dtypes: how an element is stored, and the type that its extremes are compared in ----

struct Float32 {
  typedef u32 Stored;
  typedef float Value;
  static __device__ float Read(u32 bits) { return __uint_as_float(bits); }
};
struct Float64 {
  typedef u64 Stored;
  typedef double Value;
  static __device__ double Read(u64 bits) { return __longlong_as_double((long long)bits); }
};
struct Float16 {
  typedef u16 Stored;
  typedef float Value;
  static __device__ float Read(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
struct BFloat16 {
  typedef u16 Stored;
  typedef float Value;
  static __device__ float Read(u16 bits) { return __uint_as_float((u32)bits << 16); }
};
struct Float8E5M2 {  // the upper half of a float16
  typedef u8 Stored;
  typedef float Value;
  static __device__ float Read(u8 bits) { return Float16::Read((u16)(bits << 8)); }
};
struct Float8E4M3 {  // the one without infinities: exponent bias 7, NaN is all ones
  typedef u8 Stored;
  typedef float Value;
  static __device__ float Read(u8 bits) {
    const u32 size = bits & 0x7FU;
    float value = size < 8 ? (float)size * (1.0f / 512.0f)
                           : __uint_as_float(((size >> 3) + 120U) << 23 | (size & 7U) << 20);
    if (size == 0x7FU) value = __uint_as_float(0x7FC00000U);
    return (bits & 0x80U) != 0 ? -value : value;
  }
};
template <typename Integer>
struct Whole {
  typedef Integer Stored;
  typedef long long Value;
  static __device__ long long Read(Integer value) { return (long long)value; }
};

__device__ double Lowest(double) { return __longlong_as_double(0xFFF0000000000000LL); }
__device__ float Lowest(float) { return __uint_as_float(0xFF800000U); }
__device__ long long Lowest(long long) { return (long long)0x8000000000000000ULL; }
__device__ double Highest(double) { return __longlong_as_double(0x7FF0000000000000LL); }
__device__ float Highest(float) { return __uint_as_float(0x7F800000U); }
__device__ long long Highest(long long) { return 0x7FFFFFFFFFFFFFFFLL; }

template <typename Type>
struct Accumulated {
  typename Type::Value high = Lowest(typename Type::Value());
  typename Type::Value low = Highest(typename Type::Value());
  double sum = 0;
  double squares = 0;
  int nans = 0;

  __device__ void Add(typename Type::Stored stored) {
    const typename Type::Value value = Type::Read(stored);
    high = value > high ? value : high;
    low = value < low ? value : low;
    nans |= value != value;
    const double wide = (double)value;
    sum += wide;
    squares = fma(wide, wide, squares);
  }
};

// ---- sums of threads and of blocks ----

__device__ __forceinline__ void Join(Part& into, const Part& other) {
  into.high = other.high > into.high ? other.high : into.high;
  into.low = other.low < into.low ? other.low : into.low;
  into.sum += other.sum;
  into.squares += other.squares;
  into.nans += other.nans;
}

__device__ Part OfNothing() {
  Part part;
  part.high = Lowest(0.0);
  part.low = Highest(0.0);
  part.sum = part.squares = part.nans = 0;
  return part;
}

// In the first thread: what all threads of the block have.
__device__ __noinline__ Part JoinThreads(Part mine) {
  __shared__ Part warps[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    Part other;
    other.high = __shfl_down_sync(0xFFFFFFFFU, mine.high, distance);
    other.low = __shfl_down_sync(0xFFFFFFFFU, mine.low, distance);
    other.sum = __shfl_down_sync(0xFFFFFFFFU, mine.sum, distance);
    other.squares = __shfl_down_sync(0xFFFFFFFFU, mine.squares, distance);
    other.nans = __shfl_down_sync(0xFFFFFFFFU, mine.nans, distance);
    Join(mine, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / 32; ++warp) Join(mine, warps[warp]);
  }
  __syncthreads();
  return mine;
}

__device__ void WriteRow(const Part& whole, u64 elements, double* row) {
  const double nan = __longlong_as_double(0x7FF8000000000000LL);
  row[0] = whole.nans != 0 ? nan : whole.high;
  row[1] = whole.nans != 0 ? nan : whole.low;
  row[2] = whole.sum / (double)elements;
  row[3] = sqrt(whole.squares);
}

// The block that is the last to be done adds up the parts of all, in their order.
__device__ void JoinBlocks(const Part& mine, u64 elements, double* row, Part* parts, u32* done) {
  if (gridDim.x == 1) {
    if (threadIdx.x == 0) WriteRow(mine, elements, row);
    return;
  }
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = mine;
    __threadfence();
    is_last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;  // 0 again for the next kernel
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  Part whole = OfNothing();
  for (u32 block = threadIdx.x; block < gridDim.x; block += kThreads) {
    const volatile Part* other = parts + block;
    Part part;
    part.high = other->high;
    part.low = other->low;
    part.sum = other->sum;
    part.squares = other->squares;
    part.nans = other->nans;
    Join(whole, part);
  }
  whole = JoinThreads(whole);
  if (threadIdx.x == 0) WriteRow(whole, elements, row);
}

// ---- the kernel ----

template <typename Type>
__device__ __forceinline__ void AddVector(uint4 vector, Accumulated<Type>& sums) {
  enum { kInVector = 16 / sizeof(typename Type::Stored) };
  __align__(16) typename Type::Stored values[kInVector];
  *(uint4*)values = vector;
#pragma unroll
  for (u32 k = 0; k < kInVector; ++k) sums.Add(values[k]);
}

template <typename Type>
__device__ void AddDense(const typename Type::Stored* data, u64 elements, Accumulated<Type>& sums) {
  typedef typename Type::Stored Stored;
  enum { kInVector = 16 / sizeof(Stored) };
  const u64 thread = (u64)blockIdx.x * kThreads + threadIdx.x;
  const u64 threads = (u64)gridDim.x * kThreads;
  const u64 until_aligned = ((16 - (u64)data % 16) % 16) / sizeof(Stored);
  const u64 head = until_aligned < elements ? until_aligned : elements;
  const u64 vectors = (elements - head) / kInVector;
  const uint4* body = (const uint4*)(data + head);
#pragma unroll 1
  for (u64 i = thread; i < vectors; i += threads) AddVector<Type>(body[i], sums);
  // What is left over at both ends.
  const u64 end = head + vectors * kInVector;
  const u64 rest = head + elements - end;
#pragma unroll 1
  for (u64 i = thread; i < rest; i += threads) sums.Add(data[i < head ? i : end + i - head]);
}

__device__ __noinline__ long long OffsetOf(const Layout& layout, u64 element) {
  long long offset = 0;
#pragma unroll 1
  for (int dim = layout.dims - 1; dim > 0; --dim) {
    const u64 size = layout.sizes[dim];
    // Half as wide where that is enough: several times as fast.
    const u64 next = (element | size) >> 32 == 0 ? (u64)((u32)element / (u32)size) : element / size;
    offset += (long long)(element - next * size) * layout.strides[dim];
    element = next;
  }
  return offset + (long long)element * layout.strides[0];
}

template <typename Type>
__device__ Part Accumulate(const void* data, const Layout& layout, u64 elements) {
  const typename Type::Stored* stored = (const typename Type::Stored*)data;
  Accumulated<Type> sums;
  if (layout.dims == 1 && layout.strides[0] == 1) {
    AddDense<Type>(stored, elements, sums);
  } else {
    const u64 threads = (u64)gridDim.x * kThreads;
    const u64 thread = (u64)blockIdx.x * kThreads + threadIdx.x;
    const u64 vectors = layout.in_vectors != 0 ? elements / (16 / sizeof(*stored)) : 0;
#pragma unroll 1
    for (u64 i = thread; i < vectors; i += threads) {
      AddVector<Type>(*(const uint4*)(stored + OffsetOf(layout, i)), sums);
    }
#pragma unroll 1
    for (u64 i = layout.in_vectors != 0 ? elements : thread; i < elements; i += threads) {
      sums.Add(stored[OffsetOf(layout, i)]);
    }
  }
  Part part;
  part.high = (double)sums.high;
  part.low = (double)sums.low;
  part.sum = sums.sum;
  part.squares = sums.squares;
  part.nans = sums.nans;
  return part;
}

// type: KernelType() of cuda_statistics.cpp. parts: room for a Part per block. done: 0, and 0 again
// afterwards.
extern "C" __global__ void __launch_bounds__(kThreads)
    msprobe_statistics(int type, const void* data, const Layout layout, u64 elements, double* row,
                       void* parts, u32* done) {
  Part mine;
  switch (type) {
    case 0:
      mine = Accumulate<Float32>(data, layout, elements);
      break;
    case 1:
      mine = Accumulate<Float64>(data, layout, elements);
      break;
    case 2:
      mine = Accumulate<Float16>(data, layout, elements);
      break;
    case 3:
      mine = Accumulate<BFloat16>(data, layout, elements);
      break;
    case 4:
      mine = Accumulate<Float8E4M3>(data, layout, elements);
      break;
    case 5:
      mine = Accumulate<Float8E5M2>(data, layout, elements);
      break;
    case 6:
      mine = Accumulate<Whole<signed char>>(data, layout, elements);
      break;
    case 7:
      mine = Accumulate<Whole<u8>>(data, layout, elements);
      break;
    case 8:
      mine = Accumulate<Whole<short>>(data, layout, elements);
      break;
    case 9:
      mine = Accumulate<Whole<int>>(data, layout, elements);
      break;
    default:
      mine = Accumulate<Whole<long long>>(data, layout, elements);
      break;
  }
  JoinBlocks(JoinThreads(mine), elements, row, (Part*)parts, done);
}
