import test from 'ava';
import { useHostileScene } from './hostile-scene.ts';

const { suffer, calm } = useHostileScene(test);

/** Each takes memory without end, one kind each. The engine may refuse it (an error) or the fence stop it. */
const bombs: Record<string, string> = {
  objects: 'const all = []; for (;;) all.push({ a: [Math.random()] })',
  arrays: 'const all = []; for (;;) all.push(new Array(100000).fill(all.length))',
  'one array of a thousand million': 'return Array(1e9).fill(1).length',
  'sparse arrays': 'const a = []; for (let i = 0; ; i += 97) a[i] = { i }',
  strings:
    'let s = "x".repeat(1 << 20); const all = []; for (let i = 0; ; i += 1) all.push((s + i).replace(/x/g, "yz"))',
  'a string that doubles': 'let s = "x"; for (;;) s += s',
  'strings that are split': 'const s = "a,".repeat(1 << 19); const all = []; for (;;) all.push(s.split(","))',
  'typed arrays': 'const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))',
  'one large buffer': 'return new Uint8Array(2 ** 31).fill(1).length',
  'buffers that grow':
    'const b = new ArrayBuffer(1, { maxByteLength: 2 ** 31 }); for (let n = 1; ; n *= 2) { b.resize(n); new Uint8Array(b).fill(1) }',
  'a map': 'const all = new Map(); for (let i = 0; ; i += 1) all.set(i, { i })',
  'a set of strings': 'const all = new Set(); for (let i = 0; ; i += 1) all.add(`${i}`.repeat(50))',
  JSON: 'let text = "1"; for (;;) { text = `[${text},${text}]`; JSON.parse(text) }',
  promises: 'const all = []; for (;;) all.push(new Promise(() => {}))',
  'promises that are waited for': 'const wait = async () => { await new Promise(() => {}) }; for (;;) wait()',
  closures: 'const all = []; for (let i = 0; ; i += 1) { const held = new Array(100).fill(i); all.push(() => held) }',
  'a big number': 'let n = 1n; for (;;) n <<= 1000000n',
  'regular expressions':
    'const all = []; for (let i = 0; ; i += 1) { const r = new RegExp(`(${i}|a{1,50}){1,50}`); r.test("a"); all.push(r) }',
  'functions made from text':
    'const all = []; for (let i = 0; ; i += 1) all.push(new Function(`return ${"1+".repeat(500)}${i}`))',
  'errors with stacks': 'const all = []; for (;;) all.push(new Error("x".repeat(1000)).stack)',
  symbols: 'const all = []; for (let i = 0; ; i += 1) all.push(Symbol.for(`symbol ${i}`))',
  'clones of clones': 'let o = { a: [1, 2, 3] }; for (;;) o = { left: structuredClone(o), right: structuredClone(o) }',
  timers: 'for (;;) setTimeout(() => {}, 60_000, new Array(1000).fill(1))',
  'log lines': 'for (;;) console.log("z".repeat(10000))',
};

for (const [what, code] of Object.entries(bombs)) {
  test.serial(`a bomb of ${what} is stopped before it holds its limit and 150 MB`, async (t) => {
    const hostile = `exports.handler = async () => { ${code} }`;
    await suffer(t, [hostile, 'memory_limit', 'error', 'timeout', 'crashed', 'cpu_limit'], { timeout_ms: 4000 });
  });
}

test.serial('no process and no memory of theirs stays behind', async (t) => {
  await calm();
  t.pass();
});
