// Loaded into a process (`--import …/shifted-clock.ts?ms=3600000`): its clock is ahead by so many milliseconds, or
// behind by a negative number, as far as JavaScript sees it. Timers and the monotonic clock stay as they are.
const shiftMs = Number(new URL(import.meta.url).searchParams.get('ms'));

const RealDate = Date;

class ShiftedDate extends RealDate {
  constructor(...given: [] | [number | string | Date] | [number, number, ...number[]]) {
    if (given.length === 0) super(RealDate.now() + shiftMs);
    else if (given.length === 1) super(given[0]);
    else super(...(given as [number, number]));
  }

  static override now(): number {
    return RealDate.now() + shiftMs;
  }
}

globalThis.Date = ShiftedDate as DateConstructor;
