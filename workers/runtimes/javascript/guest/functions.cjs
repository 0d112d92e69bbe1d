'use strict';
const { writeSync } = require('node:fs');

const mib = 1024 * 1024;
const defaultMemoryMib = 256;
/** Isolates kept in one process, beside one in waiting; the host's ceiling on memory counts on it. */
const maxLoaded = 4;
/** An isolate that holds more than this makes room as soon as another function runs. */
const keptMib = 16;
/** One that holds more than this ends with its run: nobody can ask the engine to collect its garbage in time. */
const keptForItselfMib = 32;
/** Stands in every frame of ours on a stack, and is cut out before a user sees it. */
const ourFile = 'plinth:runtime';

const wrapperStart = '(function (exports, require, module) {';

/** One version of one function: an isolate of its own, its compiled text, and a fresh context for each run. */
class LoadedFunction {
  #isolate;
  #inside;
  #script = null;
  #next = null;
  /** Its memory at the end of its last run. */
  heldMib = 0;

  constructor(ivm, inside, memoryMib) {
    this.memoryMib = memoryMib;
    this.#isolate = new ivm.Isolate({
      memoryLimit: memoryMib,
      onCatastrophicError: (message) => {
        writeSync(2, `${message}: out of memory\n`);
        process.kill(process.pid, 'SIGKILL');
      },
    });
    this.#inside = inside.compile(this.#isolate);
    this.prepare();
  }

  /** The text keeps its own line and column numbers: the opening stands left of its first column. */
  compile(code) {
    const origin = { filename: 'function.js', columnOffset: -wrapperStart.length };
    this.#script = this.#isolate.compileScriptSync(`${wrapperStart}${code}\n})`, origin);
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
    try {
      const { used_heap_size: heap, externally_allocated_size: external } = this.#isolate.getHeapStatisticsSync();
      this.heldMib = (heap + external) / mib;
    } catch {
      // A rejection that user code has left behind surfaces in the next call, whatever that is. No other run shall meet
      // one: an isolate that counts as full ends here.
      this.heldMib = this.memoryMib;
    }
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

/** The script around user code. The first isolate reads it, the others take over what the engine found in it. */
class InsideScript {
  #source;
  #cachedData = undefined;

  constructor(source) {
    this.#source = source;
  }

  compile(isolate) {
    const cache = this.#cachedData === undefined ? { produceCachedData: true } : { cachedData: this.#cachedData };
    const script = isolate.compileScriptSync(this.#source, { filename: ourFile, ...cache });
    this.#cachedData ??= script.cachedData;
    return script;
  }
}

/** The functions that this process has compiled, the least recently used first. */
class FunctionStore {
  #ivm;
  #onDropped;
  #inside;
  #loaded = new Map();
  /** An isolate with the default limit, ready before anyone asks. */
  #spare = null;

  /** @param inside source of the script around user code: its value is the function `enter` */
  constructor(ivm, inside, onDropped) {
    this.#ivm = ivm;
    this.#inside = new InsideScript(inside);
    this.#onDropped = onDropped;
  }

  warm() {
    this.#spare ??= this.#make(defaultMemoryMib);
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
    this.#loaded.set(name, loaded);
    loaded.compile(code);
    return loaded;
  }

  /**
   * Called when a run is over and before its result is sent: with the result the host may ask for the same function
   * again, and then the memory must be free and the host must know whether the function is still here.
   * @returns what can be done at leisure to be ready for the next run
   */
  settle(name, loaded) {
    if (loaded.heldMib <= keptForItselfMib) return () => loaded.prepare();
    this.#forget(name);
    loaded.dispose();
    return () => this.warm();
  }

  discard(name) {
    this.#loaded.get(name)?.dispose();
    this.#forget(name);
  }

  #makeRoom(wanted) {
    for (const [name, loaded] of this.#loaded) {
      if (name === wanted || (loaded.heldMib <= keptMib && this.#loaded.size < maxLoaded)) continue;
      this.#forget(name);
      loaded.dispose();
    }
  }

  #forget(name) {
    this.#loaded.delete(name);
    this.#onDropped(name);
  }

  #make(memoryMib) {
    return new LoadedFunction(this.#ivm, this.#inside, memoryMib);
  }
}

module.exports = { FunctionStore, ourFile };
