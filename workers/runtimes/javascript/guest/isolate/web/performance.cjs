'use strict';
const { now } = Date;
const timeOrigin = now();

/** Whole milliseconds: a finer clock would help to measure what other runs of the machine do. */
class Performance {
  now() {
    return Math.max(0, now() - timeOrigin);
  }
  get timeOrigin() {
    return timeOrigin;
  }
  toJSON() {
    return { timeOrigin };
  }
  get [Symbol.toStringTag]() {
    return 'Performance';
  }
}

module.exports = { performance: new Performance() };
