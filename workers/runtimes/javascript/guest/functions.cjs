'use strict';
const { readFileSync, readdirSync, writeSync } = require('node:fs');
const { join } = require('node:path');

const MIB = 1024 * 1024;
const DEFAULT_MEMORY_MIB = 256;
/** Isolates kept in one process. */
const KEPT = 8;
/** An isolate that holds more than this makes room as soon as another function runs. */
const KEPT_MIB = 16;
/** Stands in every frame of ours on a stack, and is cut out before a user sees it. */
const OUR_FILE = 'plinth:runtime';

const OPENING = '(function (exports, require, module) {';

/** One version of one function: an isolate of its own, its compiled text, and a fresh context for each run. */
class LoadedFunction {
  #isolate;
  #inside;
  #script = null;
  #next = null;
  /** What it held at the end of its last run. */
  heldMib = 0;

  constructor(ivm, insideSource, memoryMib) {
    this.memoryMib = memoryMib;
    this.#isolate = new ivm.Isolate({
      memoryLimit: memoryMib,
      onCatastrophicError: (message) => {
        writeSync(2, `${message}: out of memory\n`);
        process.kill(process.pid, 'SIGKILL');
      },
    });
    this.#inside = this.#isolate.compileScriptSync(insideSource, { filename: OUR_FILE });
    this.prepare();
  }

  /** The text keeps its own line and column numbers: the opening stands left of its first column. */
  compile(code) {
    const origin = { filename: 'function.js', columnOffset: -OPENING.length };
    this.#script = this.#isolate.compileScriptSync(`${OPENING}${code}\n})`, origin);
  }

  prepare() {
    if (this.#isolate.isDisposed) return;
    this.#next ??= this.#makeContext();
  }

  /** A context that nothing has run in: `enter` is our function in it, `wrapper` the user's code, not yet called. */
  open() {
    const { context, enter } = this.#next ?? this.#makeContext();
    this.#next = null;
    const wrapper = this.#script.runSync(context, { reference: true });
    const close = () => {
      wrapper.release();
      enter.release();
      context.release();
    };
    return { enter, wrapper, close };
  }

  cpuMs() {
    return Number(this.#isolate.cpuTime) / 1e6;
  }

  measure() {
    const { used_heap_size: heap, externally_allocated_size: external } = this.#isolate.getHeapStatisticsSync();
    this.heldMib = (heap + external) / MIB;
    return this.heldMib;
  }

  dispose() {
    if (!this.#isolate.isDisposed) this.#isolate.dispose();
  }

  #makeContext() {
    const context = this.#isolate.createContextSync();
    return { context, enter: this.#inside.runSync(context, { reference: true }) };
  }
}

/** The functions that this process has compiled, the least recently used first. */
class FunctionStore {
  #ivm;
  #onDropped;
  #insideSource = insideSource();
  #loaded = new Map();
  /** An isolate with the default limit, ready before anyone asks. */
  #spare = null;

  constructor(ivm, onDropped) {
    this.#ivm = ivm;
    this.#onDropped = onDropped;
  }

  warm() {
    this.#spare ??= this.#make(DEFAULT_MEMORY_MIB);
  }

  get(name) {
    const found = this.#loaded.get(name);
    if (found === undefined) return undefined;
    this.#makeRoom(name);
    this.#loaded.delete(name);
    this.#loaded.set(name, found);
    return found;
  }

  load(name, code, memoryMib) {
    this.#makeRoom(name);
    const spare = this.#spare?.memoryMib === memoryMib ? this.#spare : null;
    if (spare !== null) this.#spare = null;
    const loaded = spare ?? this.#make(memoryMib);
    try {
      loaded.compile(code);
    } catch (error) {
      loaded.dispose();
      this.#onDropped(name);
      throw error;
    }
    this.#loaded.set(name, loaded);
    return loaded;
  }

  #makeRoom(wanted) {
    for (const [name, loaded] of this.#loaded) {
      if (name !== wanted && (loaded.heldMib > KEPT_MIB || this.#loaded.size >= KEPT)) this.#drop(name, loaded);
    }
  }

  #drop(name, loaded) {
    this.#loaded.delete(name);
    loaded.dispose();
    this.#onDropped(name);
  }

  #make(memoryMib) {
    return new LoadedFunction(this.#ivm, this.#insideSource, memoryMib);
  }
}

/** The files in `isolate/` as one script whose value is the function `enter`. */
function insideSource() {
  const folder = join(__dirname, 'isolate');
  const parts = readdirSync(folder).map((name) => {
    const text = readFileSync(join(folder, name), 'utf8');
    return `${JSON.stringify(`./${name}`)}: (module, exports, require) => {${text}\n}`;
  });
  return `'use strict';
    (() => {
      const parts = {${parts.join(',\n')}};
      const loaded = {};
      const require = (name) => {
        if (loaded[name] === undefined) {
          loaded[name] = { exports: {} };
          parts[name](loaded[name], loaded[name].exports, require);
        }
        return loaded[name].exports;
      };
      return require('./enter.cjs').enter;
    })()`;
}

module.exports = { FunctionStore, OUR_FILE };
