'use strict';
/**
 * Work that goes on after the answer (`sdk.waitUntil`).
 * @param log called with the failures beyond the first, which is the run's own
 */
function createBackground(log) {
  const tasks = [];
  let failed = null;
  const note = (error) => {
    if (failed === null) failed = { error };
    else log(error);
  };
  const add = (work) => {
    if (typeof work === 'function') throw new TypeError('waitUntil takes a promise, not a function: call it first');
    // Handled from now on: a rejection without a handler would end the run.
    tasks.push(Promise.resolve(work).then(undefined, note));
  };
  /** Resolves when nothing is left, with what failed first; tasks may add others. */
  const ended = async () => {
    for (let at = 0; at < tasks.length; at += 1) await tasks[at];
    return failed;
  };
  return { add, ended, isEmpty: () => tasks.length === 0 };
}

const maxResultLength = 1024 * 1024;

/**
 * Ends the run with the answer of its handler. With work beyond it, a caller that waits gets the answer now; the run is
 * over, and its status known, when the rest is done.
 */
function conclude(answering, { background, call, end, fail }) {
  const finish = ({ text, response }) => {
    // The host counts bytes; a text that has more characters than that need not cross over.
    if (text.length > maxResultLength) end('result_too_large');
    else end('success', text, undefined, response);
  };
  const finishLater = async (answer) => {
    const { text, response } = answer;
    if (response !== 'sent' && text.length <= maxResultLength)
      await call('response.early', { text, form: response ?? null });
    const failed = await background.ended();
    if (failed === null) finish(answer);
    else fail(failed.error);
  };
  answering.then(
    (answer) => (background.isEmpty() ? finish(answer) : finishLater(answer).then(undefined, fail)),
    (error) => (background.isEmpty() ? fail(error) : background.ended().then(() => fail(error), fail)),
  );
}

module.exports = { conclude, createBackground };
