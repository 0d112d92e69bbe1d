import { firstIdAt } from '#lib/ids.ts';

// Ids are in order of time, but for the clocks of who makes them.
const clocksApartMs = 60_000;

/** Nothing that was made at that time or later has a lower id. */
export const earliestId = (since: Date): string => firstIdAt(since.getTime() - clocksApartMs);

/** Nothing that was made before that time has this id or a higher one. */
export const latestId = (until: Date): string => firstIdAt(until.getTime() + clocksApartMs);
