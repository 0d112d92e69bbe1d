'use strict';
const { ourFile } = require('./functions.cjs');
const { RunCrypto } = require('./web-crypto.cjs');

const maxLogBytes = 256 * 1024;
const lineBytes = 32;
const levels = new Set(['debug', 'info', 'warn', 'error']);

/** One run of one function, from the host's frame to the frame that answers it. */
class Run {
  #loaded;
  #hooks;
  #send;
  #settle;
  #opened = null;
  #cpuAtStart = 0;
  /** Turns of the isolate that have been asked for and have not ended. */
  #turns = 0;
  #timers = new Map();
  #crypto = new RunCrypto();
  #lines = [];
  #flushAt = null;
  #logBytes = 0;
  #logsTruncated = false;
  #verdict = null;
  #answered = false;

  constructor({ id, loaded, hooks, send, settle }) {
    this.id = id;
    this.#loaded = loaded;
    this.#hooks = hooks;
    this.#send = send;
    this.#settle = settle;
  }

  start({ entryPoint, payload, env, projectId, caller, request: http, attempt = 1 }) {
    this.#cpuAtStart = this.#loaded.cpuMs();
    this.#opened = this.#loaded.open();
    const { notify, ask } = this.#hooks;
    const request = [entryPoint, payload, JSON.stringify(env), projectId, caller ?? 'null', http ?? 'null'];
    request.push(this.#loaded.places, attempt);
    this.#turn('start', this.id, notify, ask, this.#opened.wrapper?.derefInto(), ...request);
  }

  /** @param fields JSON text of an object; left out: none */
  log(level, text, fields) {
    const more = typeof fields === 'string' ? [fields] : [];
    this.#logBytes += Buffer.byteLength(String(text)) + Buffer.byteLength(more[0] ?? '') + lineBytes;
    if (levels.has(level) && this.#logBytes <= maxLogBytes)
      this.#lines.push([Date.now(), level, String(text), ...more]);
    else this.#logsTruncated = true;
    this.#flushAt ??= setImmediate(() => this.#flush());
  }

  schedule(timer, delayMs) {
    if (this.#verdict !== null) return;
    const fire = () => {
      this.#timers.delete(timer);
      this.#turn('fire', timer);
    };
    this.#timers.set(timer, delayMs < 0 ? setImmediate(fire) : setTimeout(fire, delayMs));
  }

  /** Goes to the host as it is, but for cryptography; calls that are made after the end get no answer. */
  call(call, op, args) {
    if (this.#verdict !== null) return;
    if (RunCrypto.answers(String(op))) return void this.#encrypt(call, String(op), String(args));
    this.#flush();
    const isSent = this.#send({ type: 'call', run: this.id, call, op: String(op), args: String(args) });
    if (!isSent) this.answer({ call, ok: false, value: tooLong(String(op)) });
  }

  async #encrypt(call, op, args) {
    this.answer({ call, ...(await this.#crypto.answer(op, args)) });
    this.#answerWhenQuiet();
  }

  answer({ call, ok, value }) {
    if (this.#verdict === null) this.#turn('answer', call, ok, value);
  }

  cancel(timer) {
    clearTimeout(this.#timers.get(timer));
    clearImmediate(this.#timers.get(timer));
    this.#timers.delete(timer);
  }

  /** The result of the function; the answer follows when the isolate has gone quiet. */
  // oxlint-disable-next-line max-params -- a verdict is one message, and only plain values cross over
  finish(status, result, name, message, stack, response) {
    const error = status === 'error' ? { name, message, stack: withoutOurs(stack) } : null;
    this.#decide(status === 'error' && isMemoryFault(error) ? 'memory_limit' : status, result ?? null, error, response);
  }

  #turn(...args) {
    this.#turns += 1;
    this.#opened.enter.apply(undefined, args).then(
      () => this.#turnEnded(null),
      (error) => this.#turnEnded(error),
    );
  }

  /** @param fault what the turn left unhandled: a rejected promise, or the end of the isolate itself */
  #turnEnded(fault) {
    this.#turns -= 1;
    if (fault !== null) this.#fail(fault);
    this.#answerWhenQuiet();
  }

  /** An operation of cryptography cannot be stopped: one that outlasts the run's time ends with this process. */
  #answerWhenQuiet() {
    if (this.#turns > 0 || this.#crypto.open > 0 || this.#verdict === null || this.#answered) return;
    this.#answered = true;
    this.#answer();
  }

  #fail(fault) {
    const name = String(fault?.name ?? 'Error');
    const message = String(fault?.message ?? fault);
    const error = { name, message, stack: withoutOurs(String(fault?.stack ?? '')) };
    if (isMemoryFault(error)) this.#verdict = { status: 'memory_limit', result: null, error: null };
    else if (this.#verdict === null) this.#decide('error', null, error);
    else this.log('error', `Unhandled rejection after the end of the run: ${name}: ${message}`.slice(0, 4096));
  }

  // oxlint-disable-next-line max-params -- what a run has come to
  #decide(status, result, error, response = null) {
    if (this.#verdict !== null) return;
    this.#verdict = { status, result, error, response };
    for (const timer of this.#timers.keys()) this.cancel(timer);
  }

  #answer() {
    this.#flush();
    const { status, result, error, response } = this.#verdict;
    // After a memory fault the isolate may be gone already, and the host ends this process.
    const isBroken = status === 'memory_limit';
    const memoryMib = isBroken ? 0 : this.#loaded.measure();
    const cpuMs = isBroken ? 0 : this.#loaded.cpuMs() - this.#cpuAtStart;
    if (!isBroken) this.#opened.close();
    if (!isBroken) this.#settle();
    this.#send({ type: 'result', run: this.id, status, result, error, response, cpuMs, memoryMib });
  }

  #flush() {
    clearImmediate(this.#flushAt);
    this.#flushAt = null;
    if (this.#lines.length === 0 && !this.#logsTruncated) return;
    this.#send({ type: 'logs', run: this.id, lines: this.#lines, truncated: this.#logsTruncated });
    this.#lines = [];
  }
}

const tooLong = (op) =>
  JSON.stringify({ name: 'TypeError', message: `${op}: the call is too long. Send it in parts.` });

/** The engine ended the isolate, or refused a buffer and nobody caught that. */
const isMemoryFault = (error) =>
  /^Isolate (?:is|was) disposed/.test(error.message) ||
  (error.name === 'RangeError' && error.message === 'Array buffer allocation failed');

/**
 * Stacks of an error and its causes without the frames around the user's code, in the isolate and on this side of it.
 */
function withoutOurs(stack) {
  let isOutside = false;
  const shown = stack.split('\n').filter((line) => {
    if (line.startsWith('[cause]: ')) isOutside = false;
    else if (line.includes('<isolated-vm boundary>')) isOutside = true;
    return !isOutside && !line.includes(ourFile);
  });
  return shown.join('\n');
}

module.exports = { Run };
