'use strict';
/**
 * The ways out of the isolate, set before any module that uses them is loaded: `ask` gets its answer at once (a text or
 * a buffer, null for a refusal), `call` a promise of it.
 */
module.exports = { ask: null, call: null };
