import type { Answer } from './client.ts';

/** How many answers had each status, e.g. `{201: 1, 409: 49}`. */
export const statusCounts = (answers: readonly Answer[]): Record<number, number> => {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};
