'use strict';
/** As the standards have it, walking over an object is walking over its entries. */
const walkByEntries = ({ prototype }) =>
  Object.defineProperty(prototype, Symbol.iterator, Object.getOwnPropertyDescriptor(prototype, 'entries'));

module.exports = { walkByEntries };
