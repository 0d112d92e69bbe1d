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

/** Before the last line of a bundle, which says where its lines come from (domain/functions/bundle.ts). */
const placesMark = '\n//# plinthFiles=';

const wrapperStart = '(function (exports, require, module) {';

/** The name of our function in a context, until the context is handed out. */
const enterName = 'plinthEnter';
/** Memory shared between threads, and machine code of the user's own making, have no place here. */
const removedGlobals = ['WebAssembly', 'SharedArrayBuffer', 'Atomics'];
/** Runs first in each context; a snapshot of a context without these globals makes the engine end the process. */
const openingText = `(() => {
  const enter = globalThis.${enterName};
  for (const name of ${JSON.stringify([enterName, ...removedGlobals])}) delete globalThis[name];
  return enter;
})()`;

/** One version of one function: an isolate of its own, its compiled text, and a fresh context for each run. */
class LoadedFunction {
  #isolate;
  #opening;
  #script = null;
  #next = null;
  /** JSON text: which lines of a bundle are those of which file; empty for code of one file. */
  places = '';
  /** Its memory at the end of its last run. */
  heldMib = 0;

  constructor(ivm, snapshot, memoryMib) {
    this.memoryMib = memoryMib;
    this.#isolate = new ivm.Isolate({
      snapshot,
      memoryLimit: memoryMib,
      onCatastrophicError: (message) => {
        writeSync(2, `${message}: out of memory\n`);
        process.kill(process.pid, 'SIGKILL');
      },
    });
    this.#opening = this.#isolate.compileScriptSync(openingText, { filename: ourFile });
    this.prepare();
  }

  /** The text keeps its own line and column numbers: the opening stands left of its first column. */
  compile(code) {
    const mark = code.lastIndexOf(placesMark);
    this.places = mark === -1 ? '' : code.slice(mark + placesMark.length);
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
    return { context, enter: this.#opening.runSync(context, { reference: true }) };
  }
}

/** The functions that this process has compiled, the least recently used first. */
class FunctionStore {
  #ivm;
  #onDropped;
  /**
   * A context in which the script around user code has run: making one of it takes 186 µs less than running the script.
   */
  #snapshot;
  #loaded = new Map();
  /** An isolate with the default limit, ready before anyone asks. */
  #spare = null;

  /** @param inside source of the script around user code: its value is the function `enter` */
  constructor(ivm, inside, onDropped) {
    this.#ivm = ivm;
    this.#snapshot = ivm.Isolate.createSnapshot([{ code: `globalThis.${enterName} = ${inside}`, filename: ourFile }]);
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
    return new LoadedFunction(this.#ivm, this.#snapshot, memoryMib);
  }
}

module.exports = { FunctionStore, ourFile };
