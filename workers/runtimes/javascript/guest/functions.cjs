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
/**
 * The module of a function may have run in a context before this, so nothing here calls what user code could have put in
 * the place of the language's own.
 */
const openingText = `
  ${removedGlobals.map((name) => `if (!delete this.${name}) throw 1;`).join(' ')}
  { const enter = this.${enterName}; delete this.${enterName}; enter }`;

/** An argument of a call: from an assignment the engine would make part of the names in stacks. */
const takeStart = `${enterName}('take', `;
const offsetAhead = -(takeStart.length + wrapperStart.length);
const origin = { filename: 'function.js', columnOffset: -wrapperStart.length };

/**
 * Evaluating a module of this length in each run takes longer than making a context with it.
 */
const aheadLength = 64 * 1024;

/** One version of one function: an isolate of its own, its compiled text, and a fresh context for each run. */
class LoadedFunction {
  #isolate;
  #opening;
  #script = null;
  #next = null;
  /** The user's text. */
  code = '';
  /** JSON text: which lines of a bundle are those of which file; empty for code of one file. */
  places = '';
  /** JSON text of the variables with which the module was evaluated ahead; null: each run evaluates it. */
  aheadFor = null;
  hasTried = false;
  /** Why it could not be evaluated ahead. */
  aheadFault = null;
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
    this.code = code;
    const mark = code.lastIndexOf(placesMark);
    this.places = mark === -1 ? '' : code.slice(mark + placesMark.length);
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
    const wrapper = this.#script?.runSync(context, { reference: true });
    const close = () => {
      wrapper?.release();
      enter.release();
      context.release();
    };
    return { enter, wrapper, close };
  }

  /** The scripts that evaluate the module for a snapshot; null where that is not worth it, was tried, or is done. */
  scriptsAhead(envText) {
    if (this.hasTried || this.code.length < aheadLength) return null;
    this.hasTried = true;
    return [
      { code: `${takeStart}${wrapperStart}${this.code}\n}))`, ...origin, columnOffset: offsetAhead },
      {
        code: `${enterName}('load', ${JSON.stringify(envText)}, ${JSON.stringify(this.places)})`,
        filename: ourFile,
      },
      { code: `${enterName}('store')`, filename: ourFile },
    ];
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
  #notify;
  /**
   * A context in which the script around user code has run: making one of it takes 186 µs less than running the script.
   */
  #snapshot;
  #inside;
  #loaded = new Map();
  /** An isolate with the default limit, ready before anyone asks. */
  #spare = null;

  /** @param inside source of the script around user code: its value is the function `enter` */
  constructor(ivm, inside, notify) {
    this.#ivm = ivm;
    this.#inside = { code: `globalThis.${enterName} = ${inside}`, filename: ourFile };
    this.#snapshot = ivm.Isolate.createSnapshot([this.#inside]);
    this.#notify = notify;
  }

  warm() {
    this.#spare ??= this.#make(defaultMemoryMib);
  }

  /** @param envText the variables of the run */
  get(name, envText) {
    const found = this.#loaded.get(name);
    if (found === undefined) return undefined;
    this.#makeRoom(name);
    this.#loaded.delete(name);
    if (found.aheadFor !== null && found.aheadFor !== envText) {
      found.dispose();
      return this.load(name, found.code, found.memoryMib);
    }
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
   * @param envText variables for which the module may be evaluated ahead; null: it is not to be
   * @returns what can be done at leisure to be ready for the next run
   */
  settle(name, loaded, envText) {
    if (loaded.heldMib <= keptForItselfMib) return () => this.#evaluateAhead(name, loaded, envText).prepare();
    this.#forget(name);
    loaded.dispose();
    return () => this.warm();
  }

  /** @returns why the module cannot be evaluated ahead of its runs; null: it was */
  tryAhead(name, loaded, envText) {
    const tried = this.#evaluateAhead(name, loaded, envText);
    tried.prepare();
    const { aheadFor, aheadFault } = tried;
    return aheadFor === null ? (aheadFault ?? 'the module is too small') : null;
  }

  /**
   * Puts a function whose contexts begin with the evaluated module in the place of one that evaluates it in each run. The
   * engine ends the process when it meets something that it cannot store: the host hears what is being tried.
   */
  #evaluateAhead(name, loaded, envText) {
    const scripts = envText === null ? null : loaded.scriptsAhead(envText);
    if (scripts === null) return loaded;
    this.#notify({ type: 'storing', function: name });
    try {
      const snapshot = this.#ivm.Isolate.createSnapshot([this.#inside, ...scripts]);
      const ahead = new LoadedFunction(this.#ivm, snapshot, loaded.memoryMib);
      Object.assign(ahead, { code: loaded.code, hasTried: true, aheadFor: envText });
      this.#loaded.set(name, ahead);
      loaded.dispose();
      return ahead;
    } catch (error) {
      // The module needs a run to be evaluated in.
      loaded.aheadFault = String(error?.message ?? error);
      return loaded;
    } finally {
      this.#notify({ type: 'stored', function: name });
    }
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
    this.#notify({ type: 'dropped', function: name });
  }

  #make(memoryMib) {
    return new LoadedFunction(this.#ivm, this.#snapshot, memoryMib);
  }
}

module.exports = { FunctionStore, ourFile };
