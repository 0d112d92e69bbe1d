/** Vectors that are made: the same ones each time. */

const [dimensions, clouds, width] = [384, 200, 0.6] as const;

/** Numbers between 0 and 1 in a sequence that the seed decides (mulberry32). */
const randomFrom = (seed: number): (() => number) => {
  let state = seed;
  return () => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
};

/** Normally distributed, by Box and Muller. */
const gaussFrom =
  (random: () => number): (() => number) =>
  () =>
    Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

export interface Cloud {
  readonly dimensions: number;
  readonly vectors: readonly Float32Array[];
  readonly queries: readonly Float32Array[];
}

export const cloudNote = `made data: ${dimensions} dimensions in ${clouds} Gaussian clouds, centres of width 1, clouds of width ${width}`;

/** Vectors around 200 centres, and further ones of the same kind to ask with. */
export const makeCloud = (count: number, queries: number): Cloud => {
  const random = randomFrom(7);
  const gauss = gaussFrom(random);
  const centres = Array.from({ length: clouds }, () => Float32Array.from({ length: dimensions }, gauss));
  const make = (): Float32Array => {
    const centre = centres[Math.floor(random() * clouds)] ?? new Float32Array(dimensions);
    return centre.map((value) => value + width * gauss());
  };
  return {
    dimensions,
    vectors: Array.from({ length: count }, make),
    queries: Array.from({ length: queries }, make),
  };
};

const normalized = (vector: Float32Array): Float32Array => {
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
};

/** The numbers of the nearest by cosine, every vector looked at. */
export const nearestTo = (query: Float32Array, vectors: readonly Float32Array[], count: number): number[] => {
  const wanted = normalized(query);
  const scored = vectors.map((vector, index) => {
    let [dot, square] = [0, 0];
    for (let at = 0; at < vector.length; at += 1) {
      const value = vector[at] ?? 0;
      dot += value * (wanted[at] ?? 0);
      square += value * value;
    }
    return { index, cosine: dot / Math.sqrt(square) };
  });
  return scored
    .toSorted((a, b) => b.cosine - a.cosine)
    .slice(0, count)
    .map(({ index }) => index);
};
