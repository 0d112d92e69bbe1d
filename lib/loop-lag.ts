/** A tick that is so late says that this process did not get to run: it is starved, or busy with itself. */
const lateMs = 250;
const everyMs = 100;
/** Waiting callers see the end of a lag some time after it. */
const rememberedMs = 3000;

let timer: NodeJS.Timeout | undefined;
let dueAt = 0;
let laggedAt = Number.NEGATIVE_INFINITY;

const tick = (): void => {
  const now = performance.now();
  if (now - dueAt > lateMs) laggedAt = now;
  dueAt = now + everyMs;
};

/** Begins to watch this process's event loop; more calls change nothing. Keeps no process alive. */
export const watchLoop = (): void => {
  if (timer !== undefined) return;
  dueAt = performance.now() + everyMs;
  timer = setInterval(tick, everyMs).unref();
};

/**
 * Whether this process's event loop lagged within the last `withinMs`, or does so now. What timed out meanwhile says
 * nothing about the other side.
 */
export const loopLagged = (withinMs = rememberedMs): boolean => {
  const now = performance.now();
  return now - laggedAt < withinMs || (timer !== undefined && now - dueAt > lateMs);
};
