import { call } from '../api.js';
import { ask } from '../dialogs.js';
import { number } from '../format.js';
import { announce } from '../notices.js';

const jobsOf = (count) => (count === 1 ? '1 job' : `${number(count ?? 0)} jobs`);

/** Explains how a pause, or its end, affects jobs. */
const effect = (action, { waiting, running }) =>
  action === 'pause'
    ? `${jobsOf(waiting)} that wait stay where they are, and what comes waits with them. What runs (${number(running ?? 0)}) goes on.`
    : `${jobsOf(waiting)} that wait are handed to workers again.`;

/**
 * Asks before something is paused or resumed, and names what it affects.
 * @param counts `{ waiting, running }`
 * @param others a sentence about what is not affected
 * @returns whether it was done
 */
export const askToSwitch = ({ action, what, counts, others, path, body, refresh }) =>
  ask({
    title: `${action === 'pause' ? 'Pause' : 'Resume'} ${what}?`,
    text: `${effect(action, counts)} ${others}`,
    confirm: action === 'pause' ? 'Pause' : 'Resume',
    danger: action === 'pause',
    work: async () => {
      const answer = await call('POST', path, body);
      announce(`${what} ${action === 'pause' ? 'is paused' : 'runs again'}.`);
      await refresh(answer);
    },
  });
